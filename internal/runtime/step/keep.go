package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Keep appends a result or decision for a call of the open act step to the journal before the step is complete
// (CLIENT-04). It returns the closing entry if the step is closed, or if the Turn ends here because the journal has no
// room.
func (run *Runner) Keep(
	ctx context.Context,
	t turnstate.Turn,
	call journal.SettledCall,
	known *act.Step,
) (journal.SettledRef, *journal.Closed, error) {
	ref, closed, err := run.Log.Settle(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal, call)
	if errors.Is(err, journal.ErrFull) {
		closed, err = run.full(ctx, t, known, err)
		return journal.SettledRef{}, closed, err
	}
	if err != nil {
		return journal.SettledRef{}, nil, fmt.Errorf("recording the client result of call %s: %w", call.ID, err)
	}
	return ref, closed, nil
}

// addSettled adds the results in the journal to the known results of the calls of an open act step; those of the
// journal take precedence. The ordinals are those of their entries.
func (run *Runner) addSettled(ctx context.Context, t turnstate.Turn, known *act.Step) (*act.Step, []int64, error) {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct {
		return known, nil, nil
	}
	refs, err := run.Log.Settled(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return known, nil, fmt.Errorf("reading the results of step %d of Turn %s: %w", t.Step(), t.Ref.Name, err)
	}
	parts := make([]int64, len(refs))
	for i, ref := range refs {
		parts[i] = ref.Ordinal
	}
	all := known.With(refs)
	all.Local = t.Local
	return all, parts, nil
}

// claims reads the claims of an act step from the journal, if one of its calls without an outcome may have one.
func (run *Runner) claims(ctx context.Context, t turnstate.Turn, known *act.Step) ([]journal.ClaimRef, error) {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct || !known.NeedsClaims(t.Progress.ToolCalls) {
		return nil, nil
	}
	claims, err := run.Log.Claims(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return nil, fmt.Errorf("reading the claims of step %d of Turn %s: %w", t.Step(), t.Ref.Name, err)
	}
	return claims, nil
}

// KeepOutcomes appends the outcomes that are only in memory to the journal, in one part if they fit, and drops the
// texts of all outcomes in the journal from known. It returns the closing entry if the step is closed, or if the Turn
// ends here because the journal has no room. After an error nothing has changed.
func (run *Runner) KeepOutcomes(ctx context.Context, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
	keepable := known.Keepable(t.Progress.ToolCalls)
	calls := make([]journal.SettledCall, len(keepable))
	for i, call := range keepable {
		outcome, _ := known.Outcome(call.ID)
		calls[i] = act.SettledOf(call.ID, outcome)
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
