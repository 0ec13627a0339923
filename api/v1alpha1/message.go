package v1alpha1

// ImageMediaType is the format of an image.
// +kubebuilder:validation:Enum=image/png;image/jpeg;image/gif;image/webp
type ImageMediaType string

// The formats that model providers accept.
const (
	ImageMediaTypePNG  ImageMediaType = "image/png"
	ImageMediaTypeJPEG ImageMediaType = "image/jpeg"
	ImageMediaTypeGIF  ImageMediaType = "image/gif"
	ImageMediaTypeWebP ImageMediaType = "image/webp"
)

// MessageImage is an image of a message, inline or by URL.
// +kubebuilder:validation:XValidation:rule="has(self.data) != has(self.url)",message="exactly one of data and url must be set."
type MessageImage struct {
	// mediaType is the format of the image: image/png, image/jpeg, image/gif or image/webp.
	// +required
	MediaType ImageMediaType `json:"mediaType"`
	// data is the image itself, in base64 with padding. The texts and images of a message may have 1 MiB in total.
	// +optional
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=1048576
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+/]+={0,2}$`
	// +kubebuilder:validation:XValidation:rule="size(self) % 4 == 0",message="data must be base64 with padding: its length is a multiple of 4."
	Data string `json:"data,omitempty"`
	// url of the image: an https URL of up to 2048 characters. The model provider fetches it, not the manager.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[A-Za-z0-9\[][!-~]*$`
	URL string `json:"url,omitempty"`
}

// MessageImageRef names an image that the Session has stored.
type MessageImageRef struct {
	// id of the image: img- and 32 hexadecimal digits. "kubectl capstan images put" stores an image and prints its id. If
	// the Session does not have the image, a note stands in its place.
	// +required
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:Pattern=`^img-[0-9a-f]{32}$`
	ID string `json:"id"`
}

// MessagePart is one part of a message: a text or an image.
// +kubebuilder:validation:XValidation:rule="[has(self.text), has(self.image), has(self.imageRef)].filter(set, set).size() == 1",message="exactly one of text, image and imageRef must be set."
type MessagePart struct {
	// text of at most 65536 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`
	// image for the model.
	// +optional
	Image *MessageImage `json:"image,omitempty"`
	// imageRef names an image of at most 3.75 MiB that the Session has stored, in place of image.
	// +optional
	ImageRef *MessageImageRef `json:"imageRef,omitempty"`
}

// TurnMessage is a user's message in parts.
// +kubebuilder:validation:XValidation:rule="self.content.map(p, (has(p.text) ? size(bytes(p.text)) : 0) + (has(p.image) && has(p.image.data) ? size(p.image.data) : 0)).sum() <= 1048576",message="the texts and the image data of a message have at most 1 MiB (1048576 bytes, images in base64) in total. Use imageRef or url for large images."
type TurnMessage struct {
	// content is the parts of the message, in the order in which the model reads them.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Content []MessagePart `json:"content"`
}
