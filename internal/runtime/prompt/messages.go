package prompt

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// Sendable is a conversation without what no model may be sent any more: messages about errors, and what a provider has
// refused before.
func Sendable(history []event.Message) []event.Message {
	return event.WithoutRefusedImages(event.WithoutFiltered(withoutErrors(history)))
}

// withoutErrors leaves out the messages that reported an error to the user: they are not the model's (LLM-07). Where
// the code was lost, as in a transcript that another program has written, the sentence alone identifies the message.
func withoutErrors(history []event.Message) []event.Message {
	kept := make([]event.Message, 0, len(history)+1)
	for _, m := range history {
		if m.Role == event.RoleAssistant &&
			(m.ErrorCode() != "" || len(m.ToolCalls) == 0 && plan.IsSentence(m.PlainText())) {
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

// Repair adds a result for each call that has none, and lists what it has added (DUR-08). The journal closes every act
// step with all its results, so that the remaining calls never ran: a client tool that no client answered, or a call of
// a Turn that ended.
func Repair(messages []event.Message) ([]event.Message, []event.TranscriptRepaired) {
	return event.Repair(messages, func(event.Message, event.ToolCall) event.CallRecord {
		return event.CallRecord{State: event.CallNotRecorded}
	})
}

// hasToolResult reports whether messages have a tool result.
func hasToolResult(messages []event.Message) bool {
	return slices.ContainsFunc(messages, func(m event.Message) bool { return m.Role == event.RoleToolResult })
}
