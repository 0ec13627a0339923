package turn

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// planDelay is how long after its admission a Turn may be without a plan in status: the first model call of many Turns
// has ended before.
const planDelay = time.Second

// begin gives a Turn that was admitted its plan: from now on it has an open step. The plan is a function of what the
// Session records of the admission, so that every process has the same one although it is not in the Turn's status. It
// is written a second after the admission, or with the first write that has another reason.
func (r *Reconciler) begin(ctx context.Context, s *scope) (flow, error) {
	if s.base.Status.Plan != nil {
		return proceed, nil
	}
	admission := turnstate.AdmissionOf(s.session)
	controls := turnstate.ControlsOf(s.turn)
	if admission.At.IsZero() || controls != nil && controls.ModelRef != nil {
		return r.beginNow(ctx, s, controls)
	}
	s.memory.session, s.memory.admission = s.session.UID, admission
	if s.plan() == nil {
		s.start(plan.Begin(admission.OpenedAtOrdinal, admission.At))
		step := s.memory.of(s.plan().Step)
		step.startedHere = step.startedHere || r.Admitted != nil && r.Admitted(s.session, s.turn.UID)
	}
	due, now := admission.At.Add(planDelay), r.Clock()
	if !now.Before(due) || due.Sub(now) > planDelay {
		// The clock of the process that has admitted the Turn may be ahead.
		return writeThenRepeat(writePlan), nil
	}
	s.deadline(due)
	return proceed, nil
}

// beginNow writes the plan of a Turn at once: that of a Turn which names its Model has what was found, and an earlier
// build has not recorded the admission.
func (r *Reconciler) beginNow(ctx context.Context, s *scope, controls *v1alpha1.TurnControls) (flow, error) {
	admission := turnstate.AdmissionOf(s.session)
	if admission.At.IsZero() {
		admission.At = metav1.NewMicroTime(r.Clock())
	}
	first := plan.Begin(admission.OpenedAtOrdinal, admission.At)
	if controls != nil && controls.ModelRef != nil {
		config, err := r.config(ctx, s)
		if err != nil {
			return stop, err
		}
		first.ModelNotFound = config.ModelNotFound
	}
	s.start(first)
	s.fenced = true
	return writeThenRepeat(writePlan), nil
}

// start puts the first plan into the working copy of the Turn.
func (s *scope) start(first v1alpha1.TurnProgress) {
	s.first = &first
	s.turn.Status.SessionUID = s.session.UID
	turnstate.Apply(&s.turn.Status, s.turn.Generation, first, *first.Summary.StartedAt)
}

// reset undoes the changes of the pass to the Turn, except that it has begun.
func (s *scope) reset() {
	s.turn = s.base.DeepCopy()
	if s.first != nil && s.plan() == nil {
		s.start(*s.first)
	}
}
