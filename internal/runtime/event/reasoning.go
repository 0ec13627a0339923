package event

import "slices"

// MaxReasoningBytes bounds the reasoning of one message: the opaque data, ids and summaries together. Reasoning that
// exceeds it is dropped, and the provider continues without it.
const MaxReasoningBytes = 256 << 10

// Reasoning is data that a provider must get back unchanged to continue its model's reasoning.
type Reasoning struct {
	// Kind is the form in which the provider sends and accepts it, such as thinking or thought_signature. Each driver
	// has its own.
	Kind string `json:"kind"`
	// ID of the item at the provider. It may be empty.
	ID string `json:"id,omitempty"`
	// Data is opaque: a signature or encrypted content. All reasoning of a message is at most MaxReasoningBytes.
	Data string `json:"data,omitempty"`
	// Summary is the readable text, where there is one. Some providers sign it: it is sent back unchanged.
	Summary string `json:"summary,omitempty"`
}

// Bytes is the size of the reasoning.
func (r *Reasoning) Bytes() int {
	if r == nil {
		return 0
	}
	return len(r.Kind) + len(r.ID) + len(r.Data) + len(r.Summary)
}

// Origin is the model that the reasoning of a message belongs to.
type Origin struct {
	// Provider is the provider of the Model.
	Provider string `json:"provider"`
	// Model is the provider's name of the model.
	Model string `json:"model"`
	// Binding identifies the Model, its host, the provider's model name and the reference to its credential. Reasoning
	// is sent back only if all of them are the same.
	Binding string `json:"binding"`
}

// MetadataReasoningDropped marks an assistant message that was requested without the reasoning of the messages before
// it, because the provider had refused it.
const MetadataReasoningDropped = "reasoning_dropped"

// Parts returns the content of a message with the tool calls in their places. A call that no part names follows the
// content, as in messages without parts for calls.
func (m Message) Parts() []Part {
	parts := make([]Part, 0, len(m.Content)+len(m.ToolCalls))
	placed := map[string]bool{}
	for _, p := range m.Content {
		if p.Type == PartToolCall {
			if placed[p.ToolCallID] || !m.calls(p.ToolCallID) {
				continue
			}
			placed[p.ToolCallID] = true
		}
		parts = append(parts, p)
	}
	for _, call := range m.ToolCalls {
		if !placed[call.ID] {
			parts = append(parts, Part{Type: PartToolCall, ToolCallID: call.ID})
		}
	}
	return parts
}

// calls reports whether the message makes a call with an id.
func (m Message) calls(id string) bool {
	return slices.ContainsFunc(m.ToolCalls, func(c ToolCall) bool { return c.ID == id })
}

// HasReasoning reports whether a message has reasoning.
func (m Message) HasReasoning() bool {
	return slices.ContainsFunc(m.Content, func(p Part) bool { return p.Reasoning != nil })
}

// ReasoningFor leaves out the reasoning that does not have the binding of a model, and that of messages before one that
// was requested without. No binding leaves all of it out. The given messages do not change. It reports whether any
// reasoning remains.
func ReasoningFor(messages []Message, binding string) (kept []Message, reasoning bool) {
	dropped := -1
	for i, m := range messages {
		if m.Metadata[MetadataReasoningDropped] == true {
			dropped = i
		}
	}
	kept = messages
	for i, m := range messages {
		if !m.HasReasoning() {
			continue
		}
		if i >= dropped && binding != "" && m.Origin != nil && m.Origin.Binding == binding {
			reasoning = true
			continue
		}
		if &kept[0] == &messages[0] {
			kept = slices.Clone(messages)
		}
		kept[i] = m.withoutReasoning()
	}
	return kept, reasoning
}

// withoutReasoning is the message without its reasoning.
func (m Message) withoutReasoning() Message {
	content := make([]Part, 0, len(m.Content))
	for _, p := range m.Content {
		if p.Type == PartReasoning {
			continue
		}
		p.Reasoning = nil
		content = append(content, p)
	}
	m.Content, m.Origin = content, nil
	return m
}
