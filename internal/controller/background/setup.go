package background

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("background").
		For(&v1alpha1.Session{}, builder.WithPredicates(hasTasks())).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(ofJob), builder.WithPredicates(ofTask())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(ofTask())).
		WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(pacing.FewWorkers)).
		Complete(r)
}

// hasTasks passes Sessions with background tasks, when they appear, also when the manager starts, when the tasks or the
// active Turn change, and when they are gone.
func hasTasks() predicate.Predicate {
	tasks := func(o client.Object) []v1alpha1.BackgroundTask {
		if session, ok := o.(*v1alpha1.Session); ok {
			return session.Status.BackgroundTasks
		}
		return nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(tasks(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return len(tasks(e.ObjectNew)) > 0 && (activeIn(e.ObjectOld) != activeIn(e.ObjectNew) ||
				!equality.Semantic.DeepEqual(tasks(e.ObjectOld), tasks(e.ObjectNew)))
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return len(tasks(e.Object)) > 0 },
	}
}

// activeIn returns the UID of the active Turn of a Session; empty for none.
func activeIn(o client.Object) types.UID {
	if session, ok := o.(*v1alpha1.Session); ok && session.Status.ActiveTurn != nil {
		return session.Status.ActiveTurn.UID
	}
	return ""
}

// ofTask passes the Jobs and the pods of background tasks.
func ofTask() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelTask] != "" })
}

// ofJob returns the Session that owns the Job of a task.
func ofJob(_ context.Context, o client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != "Session" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}}}
}

// ofPod returns the Session whose status shows the task of a pod.
func (r *Reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	var sessions v1alpha1.SessionList
	err := r.Client.List(ctx, &sessions, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{fieldindex.TaskID: o.GetLabels()[v1alpha1.LabelTask]})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to find the Session of a background task", "pod", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range sessions.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sessions.Items[i])})
	}
	return requests
}
