package turn

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// recall ends a Turn whose name is in the Session's journal already: a Turn that was deleted and created again takes
// over the recorded outcome, and another message under the name is refused. Run identity is (Session UID, Turn name). A
// Turn that has steps of its own in the journal, from before its admission, continues after them. A Turn that has begun
// in an earlier pass, with the same admission, is not looked up again.
func (r *Reconciler) recall(ctx context.Context, s *scope) (flow, error) {
	admission := turnstate.AdmissionOf(s.session)
	if s.plan() != nil || s.memory.hasBegun(s.session.UID, admission) {
		return proceed, nil
	}
	recalled, err := r.Steps.Recall(ctx, s.turnState(), s.session.Status.Journal.Head)
	if err != nil {
		return stop, err
	}
	if recalled == nil {
		return proceed, nil
	}
	if own := recalled.Own; own != nil {
		if own.Ordinal >= admission.OpenedAtOrdinal {
			return proceed, nil // The open step finds its end.
		}
		return r.restore(ctx, s, own)
	}
	now := metav1.NewMicroTime(r.Clock())
	s.turn.Status.SessionUID = s.session.UID
	if into := recalled.SteeredInto; into != nil {
		s.turn.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
	}
	turnstate.Apply(&s.turn.Status, s.turn.Generation, recalled.Progress, now)
	if recalled.SameMessage {
		turnstate.AlreadyRan(&s.turn.Status, s.turn.Generation, nowSeconds(now.Time))
	}
	return writeThenStop(writeTransition), nil
}

// restore shows the newest step that the journal has of a Turn in its status, which shows none.
func (r *Reconciler) restore(ctx context.Context, s *scope, newest *journal.Closed) (flow, error) {
	if flow, err := r.endHooks(ctx, s, newest); err != nil || flow != proceed {
		return flow, err
	}
	s.restored = true
	s.turn.Status.SessionUID = s.session.UID
	r.wakeSteered(s, newest)
	turnstate.Apply(&s.turn.Status, s.turn.Generation, newest.Transition, newest.Time)
	return writeThenRepeat(writeTransition), nil
}
