package step

import (
	"context"
	"slices"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// FiresTurnEnd reports whether hooks run because a step has been closed: it is the last one of its Turn, and the Turn
// was not stopped before its tool calls by a missing dependency (TURN-16).
func FiresTurnEnd(hooks []hook.Spec, closed *journal.Closed) bool {
	if !EndsTurn(closed) || len(hook.Of(hooks, hook.TurnEnd)) == 0 {
		return false
	}
	p := closed.Transition
	return p.Error == nil || p.Error.Code != v1alpha1.ErrorCodeDependencyUnavailable || !endsCalls(closed)
}

// EndsTurn reports whether a closed step is the last one of its Turn.
func EndsTurn(closed *journal.Closed) bool {
	return openStep(closed) == nil
}

// endsCalls reports whether a closed step is one of tool calls.
func endsCalls(closed *journal.Closed) bool {
	return slices.ContainsFunc(closed.Events, func(e event.Event) bool {
		return e.Type == event.TypeToolCompleted || e.Type == event.TypeToolRateLimited
	})
}

// EndHooks runs the hooks at the end of a Turn, whose last step is the given one, unless the journal shows that they
// have run (TURN-16, HOOK-16). They change nothing. It returns an error if the journal cannot be read or the context
// has ended: then it must be called again. If the journal accepts no record, that is logged: no hook keeps a Turn from
// ending.
func (run *Runner) EndHooks(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, last *journal.Closed,
) error {
	t.Ref = last.Turn
	known, err := run.Log.Ended(ctx, t.Session, last)
	if err != nil || known != nil {
		return err
	}
	data := map[string]bool{"success": last.Transition.Phase == v1alpha1.TurnPhaseSucceeded}
	// What they write comes after all that the last step has written, and before the next Turn.
	records, err := run.hookRunner(t, c, last.Step, last.Ordinal).Advise(ctx, c.Hooks, hook.TurnEnd, data)
	if err != nil {
		return err
	}
	logHooks(ctx, records)
	err = run.Log.KeepEnd(ctx, t.Session, last, journal.HookedEnd{Hooks: hookRuns(records)})
	if err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to record the hooks at the end of a Turn")
		return nil
	}
	return err
}
