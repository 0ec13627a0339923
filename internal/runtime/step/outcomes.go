package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// KeepOutcomes appends the outcomes that are only in memory to the journal, in one part if they fit, and drops the
// texts of all outcomes in the journal from known. It returns the closing entry if the step is closed, or if the Turn
// ends here because the journal has no room. After an error nothing has changed.
func (run *Runner) KeepOutcomes(ctx context.Context, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
	keepable := known.Keepable(t.Progress.ToolCalls)
	calls := make([]journal.SettledCall, len(keepable))
	for i, call := range keepable {
		outcome, _ := known.Outcome(call.ID)
		calls[i] = keptCall(call.ID, outcome)
		calls[i].PodUID = call.PodUID
	}
	if len(calls) > 0 {
		refs, closed, err := run.Log.SettleAll(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal, calls)
		switch {
		case errors.Is(err, journal.ErrFull):
			return run.full(ctx, t, known, err)
		case err != nil:
			return nil, fmt.Errorf("recording the outcomes of %d calls: %w", len(calls), err)
		case closed != nil:
			return closed, nil
		}
		known.Adopt(refs)
	}
	known.Drop()
	return nil, nil
}

// restore reads the dropped texts again. It returns the closing entry instead if the step is closed.
func (run *Runner) restore(ctx context.Context, t turnstate.Turn, known *act.Step) (*act.Step, *journal.Closed, error) {
	if !known.AnyCut() {
		return known, nil, nil
	}
	closed, refs, err := run.Log.FindSettled(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return known, nil, fmt.Errorf("reading the outcomes of step %d of Turn %s: %w", t.Step(), t.Ref.Name, err)
	}
	if closed != nil {
		return known, closed, nil
	}
	whole, lacking := known.Restore(refs)
	if lacking > 0 {
		return known, nil, fmt.Errorf("%w: the journal lacks the outcomes of %d calls of step %d of Turn %s",
			journal.ErrCorrupt, lacking, t.Step(), t.Ref.Name)
	}
	return whole, nil, nil
}
