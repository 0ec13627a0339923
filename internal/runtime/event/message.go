package event

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
)

// Role is the author of the message.
type Role string

const (
	// RoleUser: the user's message.
	RoleUser Role = "user"
	// RoleAssistant: the model's message.
	RoleAssistant Role = "assistant"
	// RoleToolResult: the outcome of one tool call.
	RoleToolResult Role = "tool_result"
)

// Phase is the kind of an assistant message (LLM-09).
type Phase string

const (
	// PhaseCommentary: the message goes with tool calls.
	PhaseCommentary Phase = "commentary"
	// PhaseFinalAnswer: the message ends the turn.
	PhaseFinalAnswer Phase = "final_answer"
)

// PhaseOf returns the phase for a provider's word; empty for any other word.
func PhaseOf(word string) Phase {
	switch phase := Phase(word); phase {
	case PhaseCommentary, PhaseFinalAnswer:
		return phase
	default:
		return ""
	}
}

// PartType is the kind of a content part.
type PartType string

const (
	// PartText is a piece of text.
	PartText PartType = "text"
	// PartImage is an image: by value, by address, or one that the Session has stored.
	PartImage PartType = "image"
	// PartReasoning is reasoning of the model, which only its provider can read.
	PartReasoning PartType = "reasoning"
	// PartToolCall is the place of a tool call among the other parts.
	PartToolCall PartType = "tool_call"
)

// Metadata keys of a message about an error (ERR-03).
const (
	// MetadataErrorCode is the code of the error.
	MetadataErrorCode = "error_code"
	// MetadataErrorFields are its fields, a map of strings.
	MetadataErrorFields = "error_fields"
)

// Part is one piece of a message's content.
type Part struct {
	// Type is the kind of the part.
	Type PartType `json:"type"`
	// Text of a text part. It may be empty.
	Text string `json:"text,omitempty"`
	// Base64 is the image itself.
	Base64 string `json:"base64,omitempty"`
	// MediaType of the image.
	MediaType string `json:"media_type,omitempty"`
	// URL of an image that is not given by value.
	URL string `json:"url,omitempty"`
	// ImageID names an image that the Session has stored (IMG-03). Its Base64 is empty until a model is about to be sent
	// it.
	ImageID string `json:"image_id,omitempty"`
	// ImageBytes is the size of the stored image; 0 if it did not exist when the part was recorded.
	ImageBytes int64 `json:"image_bytes,omitempty"`
	// ToolCallID of a tool call part is the id of one of the message's ToolCalls.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Reasoning of a reasoning part, or that which the provider attached to a text or to a call.
	Reasoning *Reasoning `json:"reasoning,omitempty"`
	// Phase of a text part that the provider has marked with another phase than the message (LLM-09).
	Phase Phase `json:"phase,omitempty"`
}

// ToolCall is one tool call that an assistant message makes.
type ToolCall struct {
	// ID of the call, minted by the runtime. It is unique within its turn only.
	ID string `json:"id"`
	// ProviderID is the model's own id of the call.
	ProviderID string `json:"provider_id,omitempty"`
	// Name of the tool, as in the model's response.
	Name string `json:"name"`
	// Arguments of the model's response, valid JSON or not.
	Arguments string `json:"arguments"`
}

// Message is one message of a conversation. It is derived from an event (MSG-02) and never stored on its own.
type Message struct {
	// ID of the message: of a user's message, the UID of its Turn; of the model's, MessageID; of a tool result, the id
	// of its event.
	ID string `json:"id"`
	// Role is the author of the message.
	Role Role `json:"role"`
	// Content in order. A tool result that has none at all, not even an empty one, has nil (MSG-03). Calls that no part
	// names follow the content (see Parts).
	Content []Part `json:"content"`
	// ToolCalls that an assistant message makes.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// ToolCallID is the call that a tool result answers. It is unique within its turn only.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// ToolName is the tool that a tool result comes from.
	ToolName string `json:"tool_name,omitempty"`
	// Error of a tool call that failed, as the model reads it.
	Error string `json:"error,omitempty"`
	// Fence is the nonce that the model reads around a tool result (see Fenced).
	Fence string `json:"fence,omitempty"`
	// Metadata has details for programs.
	Metadata map[string]any `json:"metadata,omitempty"`
	// Phase of an assistant message (LLM-09).
	Phase Phase `json:"phase,omitempty"`
	// Origin is the model that wrote an assistant message with reasoning; nil without reasoning.
	Origin *Origin `json:"origin,omitempty"`
}

// NewID mints the id of a message or an event: a UUIDv7, so that ids sort by time.
func NewID() string {
	return uuid.Must(uuid.NewV7()).String()
}

// Text is a text part.
func Text(text string) Part {
	return Part{Type: PartText, Text: text}
}

// NewUserMessage is a user's message of one text part, with a new id.
func NewUserMessage(text string) Message {
	return NewUserParts([]Part{Text(text)})
}

// NewUserParts is a user's message with a new id.
func NewUserParts(content []Part) Message {
	return Message{ID: NewID(), Role: RoleUser, Content: content}
}

// NewAssistantMessage returns a model's message with a new id. Its phase is commentary with calls and final_answer
// without (LLM-09). An empty text adds no part.
func NewAssistantMessage(text string, calls []ToolCall) Message {
	m := Message{ID: NewID(), Role: RoleAssistant, Content: []Part{}, ToolCalls: calls, Phase: PhaseFinalAnswer}
	if text != "" {
		m.Content = append(m.Content, Text(text))
	}
	if len(calls) > 0 {
		m.Phase = PhaseCommentary
	}
	return m
}

// NewAssistantParts returns a model's message of parts in the provider's order, with a new id.
func NewAssistantParts(content []Part, calls []ToolCall) Message {
	m := NewAssistantMessage("", calls)
	m.Content = content
	return m
}

// NewErrorMessage returns an assistant message that explains an error to the user, with code and fields in its metadata
// (ERR-03, LIFE-09, LIFE-10). Empty fields are left out.
func NewErrorMessage(text, code string, fields map[string]string) Message {
	m := NewAssistantMessage(text, nil)
	m.Metadata = map[string]any{MetadataErrorCode: code}
	if len(fields) > 0 {
		values := make(map[string]any, len(fields))
		for k, v := range fields {
			values[k] = v
		}
		m.Metadata[MetadataErrorFields] = values
	}
	return m
}

// ErrorCode returns the code of the error that the message is about, empty for any other message (ERR-03, LLM-07).
func (m Message) ErrorCode() string {
	code, _ := m.Metadata[MetadataErrorCode].(string)
	return code
}

// PlainText joins the text parts of the message by line breaks.
func (m Message) PlainText() string {
	var texts []string
	for _, p := range m.Content {
		if p.Type == PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Images are the image parts of the message, in order.
func (m Message) Images() []Part {
	var images []Part
	for _, p := range m.Content {
		if p.Type == PartImage {
			images = append(images, p)
		}
	}
	return images
}

// Result returns the result of a tool as JSON (MSG-03): the string of the only text part, an array of several text
// parts as objects, null if there is none, and nothing (false) if the tool returned no result at all.
func (m Message) Result() (json.RawMessage, bool) {
	if m.Content == nil {
		return nil, false
	}
	texts := make([]textPart, 0, len(m.Content))
	for _, p := range m.Content {
		if p.Type == PartText {
			texts = append(texts, textPart{Type: PartText, Text: p.Text})
		}
	}
	switch len(texts) {
	case 0:
		return json.RawMessage("null"), true
	case 1:
		return encode(texts[0].Text), true
	default:
		return encode(texts), true
	}
}

// textPart is a text part that includes its text even if that is empty.
type textPart struct {
	Type PartType `json:"type"`
	Text string   `json:"text"`
}

// encode is for values of this package, which always have a JSON form.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T, which has nothing that JSON cannot say: %v", v, err))
	}
	return raw
}

// encodable returns a copy of metadata in which each value without a JSON form is replaced by a sentence that names its
// type, so that no caller's metadata can prevent an event from being recorded.
func encodable(metadata map[string]any) map[string]any {
	clean := maps.Clone(metadata)
	for k, v := range clean {
		if _, err := json.Marshal(v); err != nil {
			clean[k] = fmt.Sprintf("a value of type %T, which JSON cannot say", v)
		}
	}
	return clean
}
