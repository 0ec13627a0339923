package session

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// SetupWithManager registers the reconciler. workers is the number of Sessions that are reconciled in parallel.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	named := builder.WithPredicates(configsource.LayerChanged())
	layers := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.SessionList{})).All()
	return ctrl.NewControllerManagedBy(mgr).
		Named("session").
		For(&v1alpha1.Session{}).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(ofTurn), builder.WithPredicates(turnChanged())).
		Watches(&v1alpha1.Harness{}, layers, named).
		Watches(&v1alpha1.Agent{}, layers, named).
		Watches(&v1alpha1.Model{}, layers, named).
		Watches(&v1alpha1.Tool{}, layers, named).
		Watches(&v1alpha1.MCPServer{}, layers, named).
		Watches(&v1alpha1.Capability{}, layers, builder.WithPredicates(status.SpecChanged())).
		WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(workers)).
		Complete(r.Watchdog.Watch("Session", r))
}

// ofTurn wakes the Session that a Turn belongs to.
func ofTurn(_ context.Context, object client.Object) []reconcile.Request {
	turn, ok := object.(*v1alpha1.Turn)
	if !ok {
		return nil
	}
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: turn.Namespace, Name: turn.Spec.SessionRef.Name}},
	}
}

// turnChanged passes the changes of Turns that matter to a Session: a Turn was created, deleted, has ended, or began or
// ceased to wait for results or for a Budget. After a relist, the deletion of a Turn and the creation of another one of
// its name are one update.
func turnChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			turn, ok := e.Object.(*v1alpha1.Turn)
			return ok && (!queue.Finished(turn) || turn.Status.Plan != nil)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Turn)
			after, okAfter := e.ObjectNew.(*v1alpha1.Turn)
			if !okBefore || !okAfter {
				return false
			}
			waits := func(t *v1alpha1.Turn) bool { return t.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults }
			paused := func(t *v1alpha1.Turn) bool { return turnstate.WaitsForBudget(&t.Status.TurnProgress) }
			return before.UID != after.UID || queue.Runnable(before) != queue.Runnable(after) ||
				queue.Finished(before) != queue.Finished(after) || waits(before) != waits(after) ||
				paused(before) != paused(after)
		},
	}
}
