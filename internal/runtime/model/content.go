package model

import (
	"cmp"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Content is one part of a response: a text, a call, or reasoning alone. Reasoning beside a text or a call is what the
// provider attached to it.
type Content struct {
	// Text of a text part.
	Text string
	// Call is the number of a call in ToolCalls, counted from 1; 0 for any other part.
	Call int
	// Reasoning to send back to the provider. That of a response is at most event.MaxReasoningBytes.
	Reasoning *event.Reasoning
	// Phase is the provider's mark of a text; empty for none.
	Phase event.Phase
}

// TextPart is a text.
func TextPart(text string) Content { return Content{Text: text} }

// CallPart is the call with a number, counted from 1.
func CallPart(number int) Content { return Content{Call: number} }

// ReasoningPart is reasoning alone.
func ReasoningPart(r event.Reasoning) Content { return Content{Reasoning: &r} }

// KeepCalls drops the calls of a response that keep refuses, also from its content. The given slices do not change.
func (r *Response) KeepCalls(keep func(ToolCall) bool) {
	var calls []ToolCall
	numbers := make([]int, len(r.ToolCalls)+1)
	for i, call := range r.ToolCalls {
		if keep(call) {
			calls = append(calls, call)
			numbers[i+1] = len(calls)
		}
	}
	var content []Content
	for _, c := range r.Content {
		if c.Call > 0 {
			if c.Call >= len(numbers) || numbers[c.Call] == 0 {
				continue
			}
			c.Call = numbers[c.Call]
		}
		content = append(content, c)
	}
	r.ToolCalls, r.Content = calls, content
}

// Tidy brings the content of a response into its shortest form: reasoning beyond the bound is dropped, and content that
// adds nothing to text, phase and calls becomes nil.
func (r *Response) Tidy() {
	var content []Content
	room, calls, ordered := event.MaxReasoningBytes, false, true
	for _, c := range r.Content {
		if n := c.Reasoning.Bytes(); c.Reasoning != nil && n > room {
			c.Reasoning = nil
		} else {
			room -= n
		}
		if c.Reasoning == nil && c.Call == 0 && c.Text == "" {
			continue
		}
		if c.Reasoning != nil || calls && c.Call == 0 || c.Phase != "" && c.Phase != r.Phase {
			ordered = false
		}
		calls = calls || c.Call > 0
		content = append(content, c)
	}
	r.Content = content
	if ordered {
		r.Content = nil
	}
}

// Message returns the response as a message with the runtime's calls, which are as many as the response has. Its phase
// is the provider's mark, where there is one (LLM-09).
func (r Response) Message(calls []event.ToolCall) event.Message {
	r.Tidy()
	m := event.NewAssistantMessage(r.Text, calls)
	if r.Content != nil {
		m = event.NewAssistantParts(r.parts(calls), calls)
	}
	m.Phase = cmp.Or(r.Phase, m.Phase)
	return m
}

// parts returns the content as the parts of a message.
func (r Response) parts(calls []event.ToolCall) []event.Part {
	parts := make([]event.Part, 0, len(r.Content))
	for _, c := range r.Content {
		part := event.Part{Type: event.PartText, Text: c.Text, Reasoning: c.Reasoning}
		switch {
		case c.Call > len(calls):
			continue
		case c.Call > 0:
			part = event.Part{Type: event.PartToolCall, ToolCallID: calls[c.Call-1].ID, Reasoning: c.Reasoning}
		case c.Text == "":
			part.Type = event.PartReasoning
		case c.Phase != r.Phase:
			part.Phase = c.Phase
		}
		parts = append(parts, part)
	}
	return parts
}
