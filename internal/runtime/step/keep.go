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

// takeIn adds the results in the journal to the known results of the calls of an open act step; those of the journal
// take precedence. The ordinals are those of their entries.
func (run *Runner) takeIn(ctx context.Context, t turnstate.Turn, known *act.Step) (*act.Step, []int64, error) {
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
