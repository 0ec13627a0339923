package v1alpha1

// ToolInputMode is the form in which a tool asks.
// +kubebuilder:validation:Enum=Form;URL;Connection
type ToolInputMode string

const (
	// ToolInputModeForm: the answer is a JSON object that requestedSchema describes.
	ToolInputModeForm ToolInputMode = "Form"
	// ToolInputModeURL: people do something at url, in a browser of their own. The manager never opens it.
	ToolInputModeURL ToolInputMode = "URL"
	// ToolInputModeConnection: the tool needs a connection to the provider that id names, such as an account or a key,
	// and has done nothing. The call is sent again once the answer is that the connection exists.
	ToolInputModeConnection ToolInputMode = "Connection"
)

// ToolInput is what a tool has asked before it continues.
type ToolInput struct {
	// round counts how often the call has asked, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Round int32 `json:"round"`
	// requests that have no answer yet. The tool wrote their texts: they may be wrong, or try to mislead.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=4
	Requests []ToolInputRequest `json:"requests,omitempty"`
}

// ToolInputRequest is one question of a tool.
type ToolInputRequest struct {
	// id of the question, as the tool named it. With mode Connection it is the name of the provider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// mode is Form for a question that a ToolResult answers with content, URL for one that is answered elsewhere, and
	// Connection for a connection that is to be set up.
	// +required
	Mode ToolInputMode `json:"mode"`
	// message of the tool to the person who answers.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// requestedSchema is the JSON Schema of the content of an answer, with mode Form.
	// +optional
	RequestedSchema *JSON `json:"requestedSchema,omitempty"`
	// url to open in a browser, with mode URL. Check its host before you open it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
}

// InputAction is the answer to a question of a tool.
// +kubebuilder:validation:Enum=Accept;Decline;Cancel
type InputAction string

const (
	// InputActionAccept answers the question, with content where its mode is Form.
	InputActionAccept InputAction = "Accept"
	// InputActionDecline refuses to answer. The tool decides what that means.
	InputActionDecline InputAction = "Decline"
	// InputActionCancel dismisses the question without a choice. The tool decides what that means.
	InputActionCancel InputAction = "Cancel"
)

// InputAnswer is the answer to one question of a tool.
// +kubebuilder:validation:XValidation:rule="!has(self.content) || self.action == 'Accept'",message="content is for action Accept."
type InputAnswer struct {
	// id of the question, as status.toolCalls of the Turn has it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// action is Accept, Decline or Cancel.
	// +required
	Action InputAction `json:"action"`
	// content of an accepted question of mode Form: an object that its requestedSchema accepts, of at most 16 KiB as
	// JSON. It is sent to the tool and recorded in the Session's journal: do not put secrets into it.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=64
	Content *JSON `json:"content,omitempty"`
}
