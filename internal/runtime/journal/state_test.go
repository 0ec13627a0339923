package journal

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// TestReasoningWeighs: it is in memory with its message, and counts there.
func TestReasoningWeighs(t *testing.T) {
	m := event.NewAssistantMessage("Rain.", nil)
	plain := weigh(m)
	data := strings.Repeat("x", event.MaxReasoningBytes)
	m.Content = append(m.Content, event.Part{Type: event.PartReasoning, Reasoning: &event.Reasoning{Data: data}})
	m.Origin = &event.Origin{Binding: "b"}
	if more := weigh(m) - plain; more < event.MaxReasoningBytes {
		t.Errorf("%d bytes of reasoning weigh %d", event.MaxReasoningBytes, more)
	}
}
