package trace

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/semconv"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Hook returns the span of a run of a hook of a Turn. Its parent is the span of the Turn: hooks run between its steps,
// and after the end of the calls that they look at. A run that is repeated after a crash has the same id.
func Hook(t turnstate.Turn, ran hook.Run) Span {
	c := collector{turn: t, trace: t.Trace(), began: ran.Start, closed: ran.End}
	s := Span{
		ID: event.HookSpan(ran.Key), Parent: event.TurnSpan(t.Ref.UID), Name: semconv.SpanHook + " " + ran.Hook,
		Start: ran.Start, End: ran.End, Attributes: []attribute.KeyValue{
			attribute.String(semconv.HookEvent, string(ran.Event)),
			attribute.String(semconv.HookDecision, string(ran.Decision)),
		},
	}
	if ran.ToolCallID != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.ToolName, ran.Tool),
			attribute.String(semconv.ToolCallID, ran.ToolCallID))
	}
	if ran.Decision == hook.Failed {
		s.Error = string(ran.Decision)
	}
	c.span(s)
	return c.spans[0]
}
