package v1alpha1

// FileEncoding is how the content of a file is written as a text.
// +kubebuilder:validation:Enum=Text;Base64
type FileEncoding string

const (
	// FileEncodingText is the content itself, in UTF-8.
	FileEncodingText FileEncoding = "Text"
	// FileEncodingBase64 is the content in base64, with padding.
	FileEncodingBase64 FileEncoding = "Base64"
)

// FileAccess is what the Turns of a Session may do with a file.
// +kubebuilder:validation:Enum=ReadWrite;ReadOnly
type FileAccess string

const (
	// FileAccessReadWrite lets Turns read, replace and delete the file.
	FileAccessReadWrite FileAccess = "ReadWrite"
	// FileAccessReadOnly lets Turns read the file. They can neither write nor delete it.
	FileAccessReadOnly FileAccess = "ReadOnly"
)

// InitialFile is a file that a Session begins with.
type InitialFile struct {
	// path of the file. It is absolute: /workspace is another name of the root, and a missing slash at the beginning is
	// added. It has at most 32 names of at most 255 bytes, and none of them is . or .. itself.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=511
	// +kubebuilder:validation:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/*(workspace)?/*$')",message="path must be that of a file, not of the root directory."
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.]?(/|$)')",message="path must not have . or .. as a name."
	Path string `json:"path"`

	// content of the file, in its encoding. Without it the file is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Content string `json:"content,omitempty"`

	// encoding of content: Text (default) or Base64.
	// +optional
	Encoding FileEncoding `json:"encoding,omitempty"`

	// access of Turns to the file: ReadWrite (default) or ReadOnly.
	// +optional
	Access FileAccess `json:"access,omitempty"`
}
