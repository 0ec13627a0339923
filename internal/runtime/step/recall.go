package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Recalled is the journal's record of an earlier Turn of the same name.
type Recalled struct {
	// Progress is the status of the Turn: the outcome of the earlier one, or why it must not run.
	Progress v1alpha1.TurnProgress
	// SameMessage reports whether the earlier Turn was this one, which was deleted and created again. Otherwise its
	// message was another.
	SameMessage bool
	// Own is the newest closed step of the Turn itself, which its status does not show: activeTurn of its Session was
	// cleared by hand, or lost by a restore. nil if the earlier Turn is another one.
	Own *journal.Closed
	// SteeredInto is the Turn that the message went into; nil if it ran as a Turn of its own.
	SteeredInto *v1alpha1.JournalTurn
	// Open is the newest step of the earlier Turn if its end is not in the journal; nil if it is. A caller that knows
	// that no other process runs the Turn may continue from there, under its UID.
	Open *journal.Closed
	// Ended is the last step of the earlier Turn; nil if its end is not in the journal, or it was not this message. The
	// hooks at its end may not have run.
	Ended *journal.Closed
}

// Recall looks for an earlier Turn of the same name in the Session: the Turn was deleted and created again, by a user
// or by a pipeline. A Turn that ran once does not run again. It returns nil for a name that is not in the journal. The
// hint is an ordinal known to exist, 0 if none is.
func (run *Runner) Recall(ctx context.Context, t turnstate.Turn, hint int64) (*Recalled, error) {
	view, err := run.Log.View(ctx, t.Session, hint)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	earlier, used := view.Turns[t.Ref.Name]
	if !used {
		return nil, nil
	}
	if earlier.UID == t.Ref.UID {
		own, err := run.Newest(ctx, t, hint)
		if err != nil || own == nil {
			return nil, err
		}
		recalled := &Recalled{SameMessage: true, Own: own, Open: openStep(own), Progress: own.Transition}
		if EndsTurn(own) {
			recalled.Ended = own
		}
		return recalled, nil
	}
	if t, err = wholeMessage(ctx, t); err != nil {
		return nil, err
	}
	if earlier.Digest != t.Digest() {
		return &Recalled{Progress: turnstate.Refused(plan.Failure{Code: v1alpha1.ErrorCodeNameReused}, fmt.Sprintf(
			"A Turn named %q with another message already ran in this Session. Create a Turn with a new name.",
			t.Ref.Name), run.micro())}, nil
	}
	if earlier.SteeredInto != nil {
		return &Recalled{SameMessage: true, Progress: turnstate.Steered(run.micro()), SteeredInto: earlier.SteeredInto}, nil
	}
	closed, err := run.Log.Outcome(ctx, t.Session, t.Ref.Name, hint)
	if err != nil {
		return nil, fmt.Errorf("reading the outcome of the earlier Turn %s: %w", t.Ref.Name, err)
	}
	if closed == nil || openStep(closed) != nil {
		// A manager closes a Turn before it releases its Session: activeTurn was cleared by hand.
		return &Recalled{
			SameMessage: true,
			Open:        closed,
			Progress: turnstate.Refused(
				plan.Failure{Code: v1alpha1.ErrorCodeInterrupted},
				"The Turn began earlier and its end is not in the journal. It was not run again. Create a Turn with a new name.",
				run.micro(),
			),
		}, nil
	}
	return &Recalled{SameMessage: true, Progress: closed.Transition, Ended: closed}, nil
}

// openStep returns a step that another one of its Turn follows; nil for the last one.
func openStep(closed *journal.Closed) *journal.Closed {
	if plan := closed.Transition.Plan; plan != nil && plan.Phase == v1alpha1.PlanPhaseComplete {
		return nil
	}
	return closed
}

// Newest returns the newest step of the Turn that the journal has closed, by UID; nil for none. The hint is an ordinal
// known to exist, 0 if none is.
func (run *Runner) Newest(ctx context.Context, t turnstate.Turn, hint int64) (*journal.Closed, error) {
	view, err := run.Log.View(ctx, t.Session, hint)
	if err != nil {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	recorded := view.Turns[t.Ref.Name]
	if recorded.UID != t.Ref.UID || recorded.SteeredInto != nil {
		return nil, nil
	}
	closed, err := run.Log.Outcome(ctx, t.Session, t.Ref.Name, hint)
	if err != nil {
		return nil, fmt.Errorf("reading the newest step of Turn %s: %w", t.Ref.Name, err)
	}
	return closed, nil
}
