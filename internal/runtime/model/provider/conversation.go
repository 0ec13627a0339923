package provider

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Entry is a message of the user, or one of the model with its calls.
type Entry struct {
	// Message of the user or of the model.
	Message event.Message
	// Calls that a message of the model makes, in order.
	Calls []Call
}

// Call is a tool call of the conversation with its result.
type Call struct {
	// ID in the provider's form; it is unique in the conversation.
	ID string
	// Name of the tool, made of characters that all providers accept.
	Name string
	// Arguments are a JSON object.
	Arguments json.RawMessage
	// Result of the call: a message of role tool_result.
	Result event.Message
}

// ImagesApart returns the images of the result for an API that does not read them there: the content of a message of
// the user behind the results, with a note about their origin. It is empty without images.
func (c Call) ImagesApart() []event.Part {
	images := c.Result.Images()
	if len(images) == 0 {
		return nil
	}
	return append(
		[]event.Part{event.Text("The following images are the result of tool call " + c.ID + ", not a message of the user.")},
		images...)
}

// Piece is a part of a message of the model: a text, reasoning, or a call.
type Piece struct {
	event.Part
	// Call is the call of a part of that type; otherwise nil.
	Call *Call
}

// Pieces returns the parts of a message of the model in order, its calls in their places.
func (e Entry) Pieces() []Piece {
	calls := map[string]*Call{}
	for i, call := range e.Message.ToolCalls {
		calls[call.ID] = &e.Calls[i]
	}
	parts := e.Message.Parts()
	pieces := make([]Piece, len(parts))
	for i, p := range parts {
		pieces[i] = Piece{Part: p, Call: calls[p.ToolCallID]}
	}
	return pieces
}

// Conversation orders messages as providers require: each message of the model with the results of all its calls, in
// the order of the calls. A result belongs to the newest call before it that has its id and no result yet, because the
// runtime's ids are unique within a turn only (DUR-08); one that belongs to no call is left out. User messages and
// errors are never empty, because providers would refuse the request or treat the model's last words as the beginning
// of its response; a message of the model and a result may be empty. valid converts an id to one that the provider
// accepts, the same each time (CallID).
func Conversation(messages []event.Message, valid func(id string) string) []Entry {
	type place struct{ entry, call int }
	var entries []Entry
	waiting := map[string][]place{}
	used := map[string]int{}
	for _, m := range messages {
		switch m.Role {
		case event.RoleUser:
			entries = append(entries, Entry{Message: visible(m)})
		case event.RoleAssistant:
			calls := make([]Call, len(m.ToolCalls))
			for i, call := range m.ToolCalls {
				waiting[call.ID] = append(waiting[call.ID], place{len(entries), i})
				calls[i] = Call{
					ID:        uniqueID(call, used, valid),
					Name:      toolName(call.Name),
					Arguments: arguments(call.Arguments),
					// The composer of the prompt gives every call a result; providers refuse a call without one.
					Result: event.Message{Role: event.RoleToolResult, Content: []event.Part{}, Error: event.SentenceStatusUnknown},
				}
			}
			entries = append(entries, Entry{Message: m, Calls: calls})
		case event.RoleToolResult:
			stack := waiting[m.ToolCallID]
			if len(stack) == 0 {
				continue
			}
			last := stack[len(stack)-1]
			waiting[m.ToolCallID] = stack[:len(stack)-1]
			if m.Error != "" && isBlank(m.Error) {
				m.Error = noReason
			}
			entries[last.entry].Calls[last.call].Result = m
		}
	}
	return entries
}

const (
	// noWords replaces an empty message of the user.
	noWords = "(empty message)"
	// noReason replaces an empty error.
	noReason = "The tool call failed."
)

// visible is a message of the user that a model can see.
func visible(m event.Message) event.Message {
	for _, p := range m.Content {
		if p.Type == event.PartImage || p.Type == event.PartText && !isBlank(p.Text) {
			return m
		}
	}
	m.Content = []event.Part{event.Text(noWords)}
	return m
}

// isBlank reports whether a text is empty or white space.
func isBlank(text string) bool {
	return strings.TrimSpace(text) == ""
}

// uniqueID is the id of a call in the provider's form: the model's own, otherwise the runtime's. A repeated id gets a
// number, so that the same conversation has the same ids each time.
func uniqueID(call event.ToolCall, used map[string]int, valid func(string) string) string {
	given := call.ProviderID
	if given == "" {
		given = call.ID
	}
	id := valid(given)
	for used[id] > 0 {
		used[id]++
		id = valid(given + " " + strconv.Itoa(used[id]))
	}
	used[id] = 1
	return id
}

// maxToolName is the longest name of a tool that all providers accept.
const maxToolName = 64

// toolName is a tool's name in a form that all providers accept. Names of Tools are valid; a model may have made up an
// invalid one.
func toolName(name string) string {
	valid := strings.Map(func(r rune) rune {
		if Plain(r) {
			return r
		}
		return '_'
	}, name)
	if valid == "" {
		return "unnamed"
	}
	return valid[:min(len(valid), maxToolName)]
}

// arguments of a call as a JSON object, which providers require. Invalid arguments of a model are passed on as text.
func arguments(given string) json.RawMessage {
	if strings.TrimSpace(given) == "" {
		return json.RawMessage("{}")
	}
	if isObject(given) {
		return json.RawMessage(given)
	}
	wrapped, err := json.Marshal(map[string]string{"invalid_arguments": given})
	if err != nil {
		return json.RawMessage("{}")
	}
	return wrapped
}

// isObject reports whether a text is one complete JSON object. Truncated arguments are not.
func isObject(text string) bool {
	trimmed := bytes.TrimSpace([]byte(text))
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
}
