package v1alpha1

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MaxFileBytes is the maximum size of a file of a Session.
const MaxFileBytes = 512 << 10

// FileList is the answer to a request for a directory.
type FileList struct {
	// Files and directories, by path.
	Files []File `json:"files"`
}

// File is a file or a directory of a Session.
type File struct {
	// Path is absolute.
	Path string `json:"path"`
	// Directory reports whether it is a directory, ReadOnly whether it can be neither written nor deleted.
	Directory bool `json:"directory,omitempty"`
	ReadOnly  bool `json:"read_only,omitempty"`
	// Encoding in which tools show the content of a file: text or base64.
	Encoding string `json:"encoding,omitempty"`
	// Size in bytes.
	Size int64 `json:"size"`
	// CreatedAt and UpdatedAt are when it was written first and last.
	CreatedAt *time.Time `json:"created_at,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// FileWritten is the answer to a request that writes a file.
type FileWritten struct {
	// Path of the file, and its Size in bytes.
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Created reports whether the file did not exist before.
	Created bool `json:"created,omitempty"`
}

// StoredList is the answer to a request for what the services of a Session store.
type StoredList struct {
	// Items by service, and by key.
	Items []StoredItem `json:"items"`
}

// StoredItem is what a service of a Session stores under a key.
type StoredItem struct {
	// Service that stores it, such as values.
	Service string `json:"service"`
	// Key is unique in the service.
	Key string `json:"key"`
	// Size in bytes.
	Size int64 `json:"size"`
	// CreatedAt and UpdatedAt are when it was written first and last.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Value is the content, in the answer to a request for one item alone.
	Value *string `json:"value,omitempty"`
}

// MemoryList is the answer to a request for memories, newest first.
type MemoryList struct {
	Items []Memory `json:"items"`
	// More reports whether there are older ones: a request with the parameter after, the ID of the last one, returns them.
	More bool `json:"more,omitempty"`
}

// Memory is a text that a model remembers.
type Memory struct {
	ID string `json:"id"`
	// Kind is fact, preference, correction, procedure or context.
	Kind    string   `json:"kind"`
	Content string   `json:"content"`
	Tags    []string `json:"tags,omitempty"`
	// CreatedAt is when it was created, and ForgottenAt when it was forgotten; nil for one that is active.
	CreatedAt   time.Time  `json:"created_at"`
	ForgottenAt *time.Time `json:"forgotten_at,omitempty"`
}

// MaxImageBytes is the maximum size of an image of a Session.
const MaxImageBytes = 5 << 20 / 4 * 3

// ImageList is the answer to a request for the images of a Session.
type ImageList struct {
	// Items are those that were stored last first.
	Items []Image `json:"items"`
}

// Image describes an image of a Session.
type Image struct {
	// ID of the image. It follows from the bytes.
	ID string `json:"id"`
	// Filename that the image was stored with; empty for an image of a message.
	Filename string `json:"filename,omitempty"`
	// ContentType is image/png, image/jpeg, image/gif or image/webp.
	ContentType string `json:"content_type"`
	// Size in bytes.
	Size int64 `json:"size_bytes"`
	// Metadata that the image was stored with.
	Metadata map[string]string `json:"metadata,omitempty"`
	// CreatedAt is when the image was stored first.
	CreatedAt time.Time `json:"created_at"`
}

// WaitingCalls is the answer to a request for the calls that wait for approval.
type WaitingCalls struct {
	Calls []WaitingCall `json:"calls"`
}

// WaitingCall is a tool call that waits for approval, with what a decision names: a ToolResult with its Turn, ID,
// CallDigest, TurnSubmittedBy and TurnSteeredBy.
type WaitingCall struct {
	// Turn that waits, and the user who has sent its message.
	Turn            Turn   `json:"turn"`
	TurnSubmittedBy string `json:"turn_submitted_by,omitempty"`
	// TurnSteeredBy are the other users whose messages were steered into the Turn. An empty entry stands for a user who is
	// not known.
	TurnSteeredBy []string `json:"turn_steered_by,omitempty"`
	// ID of the call, and its CallDigest.
	ID         string `json:"id"`
	CallDigest string `json:"call_digest"`
	// Name of the tool, as in the response of the model, and what executes it.
	Name       string                `json:"name"`
	Executor   v1alpha1.ToolExecutor `json:"executor"`
	SideEffect v1alpha1.SideEffect   `json:"side_effect,omitempty"`
	Hints      []v1alpha1.ToolHint   `json:"hints,omitempty"`
	// ApproveBy is when the call is rejected without a decision.
	ApproveBy *metav1.Time `json:"approve_by,omitempty"`
	// Arguments of the call, whole. With Omitted there was no room for them: ask for this call alone.
	Arguments string `json:"arguments"`
	Omitted   bool   `json:"omitted,omitempty"`
}

// Inspection is what the next model call of a Session would be made with.
type Inspection struct {
	// Problem is the reason for which the Session cannot be used, and Message explains it; empty if it can.
	Problem string `json:"problem,omitempty"`
	Message string `json:"message,omitempty"`
	// Notes are remarks on what may surprise its user.
	Notes []string `json:"notes,omitempty"`
	// Layers of the configuration, the lowest first.
	Layers []InspectedObject `json:"layers"`
	// Model that would be called; nil for none. Fallbacks would be called instead, in order.
	Model     *InspectedModel  `json:"model,omitempty"`
	Fallbacks []InspectedModel `json:"fallbacks,omitempty"`
	// MaxIterations is the most model calls of a Turn, ToolConcurrency how the calls of a step run.
	MaxIterations   int32  `json:"max_iterations"`
	ToolConcurrency string `json:"tool_concurrency,omitempty"`
	// JournalLimit of the Session, if it has one, and the Locale of its responses.
	JournalLimit string `json:"journal_limit,omitempty"`
	Locale       string `json:"locale,omitempty"`
	// User is the name by which the provider would know the Session.
	User         string                `json:"user,omitempty"`
	Capabilities []InspectedCapability `json:"capabilities,omitempty"`
	Hooks        []InspectedHook       `json:"hooks,omitempty"`
	Tools        []InspectedTool       `json:"tools,omitempty"`
	SystemPrompt string                `json:"system_prompt,omitempty"`
	// MessageCount is the number of messages of the conversation, which the events have.
	MessageCount int `json:"message_count"`
}

// InspectedObject names an object.
type InspectedObject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// InspectedModel is a Model.
type InspectedModel struct {
	// Name of the object, Provider of the model, and the name that the provider knows it by.
	Name     string `json:"name"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// InspectedCapability is a capability of a Session.
type InspectedCapability struct {
	ID          string `json:"id"`
	Risk        string `json:"risk,omitempty"`
	NeededBy    string `json:"needed_by,omitempty"`
	Description string `json:"description,omitempty"`
}

// InspectedHook is a hook that runs.
type InspectedHook struct {
	ID      string `json:"id"`
	Event   string `json:"event"`
	Program string `json:"program"`
	OnError string `json:"on_error"`
}

// InspectedTool is a tool that the model is offered.
type InspectedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON schema of the arguments.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// Kind and Source name the object or the capability that the tool comes from.
	Kind   string `json:"kind,omitempty"`
	Source string `json:"source,omitempty"`
	// Executor, SideEffect and Policy decide how its calls run.
	Executor   v1alpha1.ToolExecutor `json:"executor,omitempty"`
	SideEffect v1alpha1.SideEffect   `json:"side_effect,omitempty"`
	Policy     v1alpha1.ToolPolicy   `json:"policy,omitempty"`
}
