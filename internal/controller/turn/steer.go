package turn

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// steered ends a Turn whose message was steered into the running one. It never had a step of its own: the journal has
// its message.
func (r *Reconciler) steered(ctx context.Context, s *scope) (flow, error) {
	if s.turn.Spec.Delivery != v1alpha1.DeliverySteer || s.plan() != nil {
		return proceed, nil
	}
	progress, into, err := r.Steps.Steered(ctx, s.turnState(), s.session.Status.Journal.Head)
	if err != nil || progress == nil {
		return proceed, err
	}
	return r.endSteer(s, *progress, into), nil
}

// endSteer ends a Turn as the journal has decided: its message was steered into another Turn, or was not.
func (r *Reconciler) endSteer(s *scope, progress v1alpha1.TurnProgress, into *v1alpha1.JournalTurn) flow {
	s.turn.Status.SessionUID = s.session.UID
	if into != nil {
		s.turn.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
	}
	turnstate.Apply(&s.turn.Status, s.turn.Generation, progress, metav1.NewMicroTime(r.Clock()))
	return writeThenStop(writeTransition)
}

// steerable returns the Turn for steps that accept messages with delivery Steer.
func (r *Reconciler) steerable(s *scope) turnstate.Turn {
	t := s.turnState()
	active, key := *s.session.Status.ActiveTurn, client.ObjectKeyFromObject(s.session)
	t.Steers = func(ctx context.Context) ([]turnstate.Steer, error) { return r.steers(ctx, key, active) }
	return t
}

// steers lists the messages to be steered into the active Turn of a Session.
func (r *Reconciler) steers(
	ctx context.Context,
	session types.NamespacedName,
	active v1alpha1.ActiveTurn,
) ([]turnstate.Steer, error) {
	turns, err := r.turnsOf(ctx, session, fieldindex.OpenTurn)
	if err != nil {
		return nil, err
	}
	var steers []turnstate.Steer
	for _, turn := range queue.Steers(turns, active) {
		steer := turnstate.Steer{Ref: v1alpha1.JournalTurn{Name: turn.Name, UID: turn.UID}, Controls: turn.Spec.Controls}
		steer.SubmittedBy = turn.Spec.SubmittedBy
		steer.Task = turn.Spec.Origin.TaskOf() != nil
		steer.Input, steer.Content = turnstate.MessageOf(turn.Spec)
		if turnstate.MessageLeftOut(turn.Spec) {
			steer.ReadMessage = messageOf(r.Live, turn)
		}
		steers = append(steers, steer)
	}
	return steers, nil
}

// abandonWaits abandons the waits of the Turn when there is a message of a user for it. The end of a background task
// does not end a wait for a person.
func (r *Reconciler) abandonWaits(ctx context.Context, a *actScope) (flow, error) {
	pending, taken, err := r.Steps.Pending(ctx, r.steerable(a.scope))
	if err != nil {
		return stop, err
	}
	if taken {
		a.step.lookedUp = false
		if err := r.findClosed(ctx, a.scope); err != nil {
			return stop, err
		}
		if a.step.closed != nil {
			return again, nil
		}
	}
	if turnstate.AnyOfUser(pending) {
		a.step.known.Abandon(a.calls())
	}
	return proceed, nil
}

// wakeSteered wakes the Turns whose messages a closed step has accepted.
func (r *Reconciler) wakeSteered(s *scope, closed *journal.Closed) {
	for _, steered := range closed.Steered {
		r.Wakes.Wake(types.NamespacedName{Namespace: s.turn.Namespace, Name: steered.Name})
	}
}

// ofSteer wakes the Turn that a message may be steered into, which may be waiting for something else.
func (r *Reconciler) ofSteer(ctx context.Context, object client.Object) []reconcile.Request {
	steer, ok := object.(*v1alpha1.Turn)
	if !ok {
		return nil
	}
	session := &v1alpha1.Session{}
	if err := r.Client.Get(
		ctx,
		types.NamespacedName{Namespace: steer.Namespace, Name: steer.Spec.SessionRef.Name},
		session,
	); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to read the Session of a message", "session", steer.Spec.SessionRef.Name)
		}
		return nil
	}
	active := session.Status.ActiveTurn
	if active == nil || active.UID == steer.UID {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: session.Namespace, Name: active.Name}}}
}

// newSteer passes the creation of Turns with delivery Steer.
func newSteer() predicate.Predicate {
	created := func(o client.Object) bool {
		turn, ok := o.(*v1alpha1.Turn)
		return ok && turn.Spec.Delivery == v1alpha1.DeliverySteer && turn.Status.Plan == nil && queue.Runnable(turn)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return created(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() && created(e.ObjectNew)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// ofSteered wakes the Turn that a message was steered into, if this process works on it: another process may have
// accepted the message.
func (r *Reconciler) ofSteered(_ context.Context, object client.Object) []reconcile.Request {
	steer, ok := object.(*v1alpha1.Turn)
	if !ok || steer.Status.SteeredInto == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: steer.Namespace, Name: steer.Status.SteeredInto.Name}
	if !r.memories.markSteered(key, steer.Status.SteeredInto.UID) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// newlySteered passes messages that have just been steered into a Turn.
func newlySteered() predicate.Predicate {
	is := func(o client.Object) bool {
		turn, ok := o.(*v1alpha1.Turn)
		return ok && turn.Status.SteeredInto != nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectNew) && !is(e.ObjectOld) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
