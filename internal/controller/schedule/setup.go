package schedule

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.watchClock)); err != nil {
		return fmt.Errorf("adding the watch of the clock: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("schedule").
		For(&v1alpha1.Schedule{}, builder.WithPredicates(status.SpecChanged())).
		Watches(&v1alpha1.Turn{}, r.ofTurn()).
		Watches(&v1alpha1.Session{}, handler.EnqueueRequestsFromMapFunc(r.ofSession), builder.WithPredicates(created())).
		WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(pacing.FewWorkers)).
		Complete(r)
}

// requests is the work queue.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// ofTurn enqueues the Schedule of a Turn that has ended or is gone, and that of one that was created late: a process
// that was paused may create one after its tick is over. Turns that existed before the manager started are read with
// their Schedules.
func (r *Reconciler) ofTurn() handler.EventHandler {
	enqueue := func(o client.Object, to requests) {
		if of := originOf(o); of != nil {
			to.Add(request(o.GetNamespace(), of.Schedule.Name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, to requests) {
			if of := originOf(e.Object); of != nil && !e.IsInInitialList && r.late(ctx, e.Object, of) {
				enqueue(e.Object, to)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, to requests) {
			before, isTurn := e.ObjectOld.(*v1alpha1.Turn)
			after, alsoTurn := e.ObjectNew.(*v1alpha1.Turn)
			if isTurn && alsoTurn && (queue.Finished(after) && !queue.Finished(before) || before.UID != after.UID) {
				enqueue(e.ObjectNew, to)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, to requests) { enqueue(e.Object, to) },
	}
}

// late reports whether a new Turn belongs to a tick that is over. A tick that the cache does not show yet is not.
func (r *Reconciler) late(ctx context.Context, o client.Object, of *v1alpha1.ScheduleOrigin) bool {
	s := &v1alpha1.Schedule{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: of.Schedule.Name}, s)
	return err == nil && s.UID == of.Schedule.UID && s.Status.LastScheduleTime != nil &&
		!of.Tick.After(s.Status.LastScheduleTime.Time) && !schedule.Active(s, o.GetName())
}

// ofSession returns the Schedules that may wait for a Session to exist.
func (r *Reconciler) ofSession(ctx context.Context, o client.Object) []reconcile.Request {
	var list v1alpha1.ScheduleList
	err := r.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{fieldindex.SessionName: o.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Schedules of a Session", "session", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, request(o.GetNamespace(), list.Items[i].Name))
	}
	return requests
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// created passes objects that are created while the manager runs.
func created() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

const (
	// clockInterval is the time between two looks at the clock, and clockJump the smallest jump that counts.
	clockInterval = 10 * time.Second
	clockJump     = time.Second
)

// watchClock enqueues all Schedules when the clock of the machine was set, or the machine has slept: the timers of the
// process follow the elapsed time instead. Nothing is read or written for that otherwise.
func (r *Reconciler) watchClock(ctx context.Context) error {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := time.Now()
		if jumped(last, now) {
			r.wakeAll(ctx)
		}
		last = now
	}
}

// jumped reports whether the time of day has moved otherwise than the time that has elapsed.
func jumped(last, now time.Time) bool {
	return jumpedBy(now.Round(0).Sub(last.Round(0)), now.Sub(last))
}

// jumpedBy reports whether a difference of times of day is not the time that has elapsed.
func jumpedBy(shown, elapsed time.Duration) bool { return (shown - elapsed).Abs() >= clockJump }

// wakeAll enqueues every Schedule.
func (r *Reconciler) wakeAll(ctx context.Context) {
	var list v1alpha1.ScheduleList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Schedules after a jump of the clock")
		return
	}
	for i := range list.Items {
		r.Wakes.Wake(client.ObjectKeyFromObject(&list.Items[i]))
	}
}
