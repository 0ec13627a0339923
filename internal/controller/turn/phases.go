package turn

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/queue"
	"github.com/capstan-dev/capstan/internal/runtime/activity"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/projection"
)

// session reads the Turn's Session. One that does not exist yet is waited for, and named on a condition; a Turn whose Session is gone goes
// with it.
func (r *Reconciler) session(ctx context.Context, s *scope) (flow, error) {
	session := &v1alpha1.Session{}
	key := types.NamespacedName{Namespace: s.turn.Namespace, Name: s.turn.Spec.SessionRef.Name}
	err := r.Client.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return stop, err
	}
	if err == nil {
		s.session = session
	}
	switch {
	case orphaned(s.turn, s.session):
		return r.deleteOrphan(ctx, s, key)
	case s.session != nil, queue.Finished(s.turn):
		return proceed, nil
	case s.turn.Spec.DesiredState == v1alpha1.DesiredCancelled:
		return r.cancelQueued(ctx, s)
	}
	r.queue(s, v1alpha1.ReasonSessionNotFound, fmt.Sprintf("Session %q does not exist. Create it, or delete this Turn.", key.Name))
	return ended(r.write(ctx, s, writeWaiting))
}

// admission lets only the Turn pass that the Session names as its active one. The others cost nothing until they are.
func (r *Reconciler) admission(ctx context.Context, s *scope) (flow, error) {
	active := s.session.Status.ActiveTurn
	if active != nil && active.UID == s.turn.UID {
		return proceed, nil
	}
	if s.plan() != nil {
		return stop, nil
	}
	if s.turn.Spec.DesiredState == v1alpha1.DesiredCancelled {
		return r.cancelQueued(ctx, s)
	}
	if c := condition.Find(s.turn.Status.Conditions, v1alpha1.ConditionSucceeded); c != nil && c.Reason == v1alpha1.ReasonSessionNotFound {
		r.queue(s, v1alpha1.ReasonQueued, projection.QueuedMessage)
		return ended(r.write(ctx, s, writeWaiting))
	}
	return stop, nil
}

// queue says why the Turn has not begun.
func (r *Reconciler) queue(s *scope, reason, message string) {
	projection.Queue(&s.turn.Status, s.turn.Generation, metav1.NewTime(r.Clock()), reason, message)
}

// cancelQueued ends a Turn that never began. It has no open step, so that there is nothing for the log to close.
func (r *Reconciler) cancelQueued(ctx context.Context, s *scope) (flow, error) {
	now := metav1.NewMicroTime(r.Clock())
	if s.session != nil {
		s.turn.Status.SessionUID = s.session.UID
	}
	projection.Apply(&s.turn.Status, s.turn.Generation, host.CancelledBeforeStart(now), now)
	return ended(r.write(ctx, s, writeTransition))
}

// begin writes the plan: from here on the Turn has an open step.
func (r *Reconciler) begin(ctx context.Context, s *scope) (flow, error) {
	if s.plan() != nil {
		return proceed, nil
	}
	now := metav1.NewMicroTime(r.Clock())
	s.turn.Status.SessionUID = s.session.UID
	projection.Apply(&s.turn.Status, s.turn.Generation, host.Begin(s.session.Status.Journal.Head+1, now), now)
	return r.write(ctx, s, writePlan)
}

// lookUp asks the log once, for an act step that this process has not opened itself, whether somebody has closed it. A reason step
// asks in its activity, before any money is spent.
func (r *Reconciler) lookUp(ctx context.Context, s *scope) (flow, error) {
	step := s.memory.of(s.plan().Step)
	if step.lookedUp || s.plan().Phase != v1alpha1.PlanAct {
		return proceed, nil
	}
	closed, err := r.Host.Log.Find(ctx, s.journal(), s.turn.UID, s.plan().Step, s.plan().OpenedAt)
	if err != nil {
		return stop, err
	}
	step.closed, step.lookedUp = closed, true
	return proceed, nil
}

// project brings the decision of a closed step into the status, once what must be true before that is true.
func (r *Reconciler) project(ctx context.Context, s *scope) (flow, error) {
	step := s.memory.of(s.plan().Step)
	if step.closed == nil {
		return proceed, nil
	}
	if s.plan().Phase == v1alpha1.PlanAct {
		r.Activities.Cancel(s.turn.UID)
		if err := r.acceptResults(ctx, s, step.closed); err != nil {
			return stop, err
		}
		stopped, err := r.stopTools(ctx, s, step)
		if err != nil || !stopped {
			return stop, err
		}
	}
	closed := step.closed
	r.wakeSteered(s, closed)
	projection.Apply(&s.turn.Status, s.turn.Generation, closed.Transition, closed.Time)
	flow, err := r.write(ctx, s, writeTransition)
	if err != nil || flow != again {
		return flow, err
	}
	// Whoever closed the step and planned the next one: nobody can have closed that one before it was in the status.
	s.memory.of(s.plan().Step).lookedUp = true
	return again, nil
}

// cancel closes the open step when the user wants the Turn to end, or has deleted it and somebody's finalizer still holds it.
func (r *Reconciler) cancel(ctx context.Context, s *scope) (flow, error) {
	end := r.Host.Cancel
	switch {
	case !s.turn.DeletionTimestamp.IsZero():
		end = r.Host.Deleted
	case s.turn.Spec.DesiredState != v1alpha1.DesiredCancelled:
		return proceed, nil
	}
	r.Activities.Cancel(s.turn.UID)
	step := s.memory.of(s.plan().Step)
	closed, err := end(ctx, s.hostTurn(), step.results())
	if err != nil {
		return stop, err
	}
	step.closed = closed
	return again, nil
}

// reason runs the model call of the open step as an activity and takes what it decided.
func (r *Reconciler) reason(ctx context.Context, s *scope) (flow, error) {
	if s.plan().Phase != v1alpha1.PlanReason {
		return proceed, nil
	}
	config, err := r.config(ctx, s)
	if err != nil {
		return stop, err
	}
	turn := r.steerable(s)
	key := activity.Key{Turn: s.turn.UID, Step: s.plan().Step}
	step := s.memory.of(s.plan().Step)
	value, done, err := r.do(s, step, key, func(ctx context.Context) (any, error) { return r.Host.Reason(ctx, turn, config) })
	if err != nil || !done {
		return stop, err
	}
	closed, ok := value.(*journal.Closed)
	if !ok {
		return stop, fmt.Errorf("the model call ended with a %T", value)
	}
	step.closed = closed
	return again, nil
}

// ended ends the pass after a write that needs no further step.
func ended(_ flow, err error) (flow, error) {
	return stop, err
}
