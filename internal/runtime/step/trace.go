package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
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
