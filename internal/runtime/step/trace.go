package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Trace exports the spans of a step that the journal has closed, once the status shows it. calls are the tool calls
// that the status had while the step was open.
func (run *Runner) Trace(t turnstate.Turn, calls []v1alpha1.ToolCall, closed *journal.Closed) {
	if run.Traces == nil || closed == nil {
		return
	}
	run.Traces.Export(trace.Of(t, calls, closed, run.Traces.Content()))
}

// hookTracer returns the function that exports the spans of the hooks of a Turn; nil if there is no Turn, or none are
// exported. The journal has no times of hooks, so that their spans are exported as they end.
func (run *Runner) hookTracer(t turnstate.Turn) func(hook.Run) {
	if run.Traces == nil || t.Ref.UID == "" {
		return nil
	}
	return func(ran hook.Run) { run.Traces.Export([]trace.Span{trace.Hook(t, ran)}) }
}

// TraceAgain exports the spans of all closed steps of a Turn, from the journal: earlier processes may have ended before
// they had exported them. Their ids are the same.
func (run *Runner) TraceAgain(ctx context.Context, t turnstate.Turn, hint int64) error {
	if run.Traces == nil {
		return nil
	}
	var calls []v1alpha1.ToolCall
	err := run.Log.Steps(ctx, t.Session, t.Ref, hint, func(closed *journal.Closed) {
		run.Trace(t, calls, closed)
		calls = closed.Transition.ToolCalls
	})
	if err != nil {
		return fmt.Errorf("reading the steps of Turn %s: %w", t.Ref.Name, err)
	}
	return nil
}
