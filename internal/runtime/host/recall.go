package host

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// CodeNameReused is the error code of a Turn whose name belongs to another message of the Session.
const CodeNameReused plan.ErrorCode = "name_reused"

// codeInterrupted is the error code of a Turn that is recalled although its end is not in the log.
const codeInterrupted plan.ErrorCode = "interrupted"

// Recalled is what the log says of an earlier Turn of the same name.
type Recalled struct {
	// Progress is the status of the Turn: what the earlier one came to, or why it must not run.
	Progress v1alpha1.TurnProgress
	// SameMessage reports whether the earlier Turn was this one, which was deleted and created again. Otherwise its
	// message was another.
	SameMessage bool
	// SteeredInto is the Turn that the message went into; nil if it ran as a Turn of its own.
	SteeredInto *v1alpha1.JournalTurn
	// Open is the newest step of the earlier Turn when its end is not in the log; nil when it is. Who knows that nobody
	// else runs it may go on from there, under the UID that it has.
	Open *journal.Closed
}

// Recall looks for an earlier Turn of the same name in the Session: the Turn was deleted and is created again, by hand
// or by a pipeline. What ran once does not run again. It returns nil for a name that the log does not know. The hint is
// an ordinal known to exist, 0 if none is.
func (h *Host) Recall(ctx context.Context, t Turn, hint int64) (*Recalled, error) {
	view, err := h.Log.View(ctx, t.Session, hint)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	earlier, used := view.Turns[t.Ref.Name]
	if !used || earlier.UID == t.Ref.UID {
		return nil, nil
	}
	if t, err = t.whole(ctx); err != nil {
		return nil, err
	}
	if earlier.Digest != t.digest() {
		return &Recalled{Progress: h.refused(plan.Failure{Code: CodeNameReused}, fmt.Sprintf(
			"A Turn named %q with another message was in this Session before. Create a Turn with a new name.", t.Ref.Name))}, nil
	}
	if earlier.SteeredInto != nil {
		return &Recalled{SameMessage: true, Progress: h.steered(), SteeredInto: earlier.SteeredInto}, nil
	}
	closed, err := h.Log.Outcome(ctx, t.Session, t.Ref.Name, hint)
	if err != nil {
		return nil, fmt.Errorf("reading what became of the earlier Turn %s: %w", t.Ref.Name, err)
	}
	if closed == nil || closed.Transition.Plan == nil || closed.Transition.Plan.Phase != v1alpha1.PlanComplete {
		// Whoever releases a Session closes its Turn first. Somebody has cleared activeTurn by hand.
		return &Recalled{SameMessage: true, Open: closed, Progress: h.refused(plan.Failure{Code: codeInterrupted},
			"The Turn began before and its end is not in the log. It is not run again. Create a Turn with a new name.")}, nil
	}
	return &Recalled{SameMessage: true, Progress: closed.Transition}, nil
}

// refused is the status of a Turn that ends before it has begun: no step was open, so that there is nothing for the log
// to close.
func (h *Host) refused(failure plan.Failure, sentence string) v1alpha1.TurnProgress {
	now := h.micro()
	return v1alpha1.TurnProgress{
		Phase:   v1alpha1.TurnFailed,
		Plan:    &v1alpha1.TurnPlan{Phase: v1alpha1.PlanComplete},
		Summary: &v1alpha1.TurnSummary{FinishedAt: &now},
		Error:   &v1alpha1.TurnError{Code: string(failure.Code), Message: cutEncoded(sentence, maxMessageBytes)},
	}
}
