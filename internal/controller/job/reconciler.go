// Package job reconciles the Jobs of tool calls whose Turn was deleted without them, or has moved on without them.
//
// Jobs are owned by their Turn and are deleted with it. `kubectl delete turn --cascade=orphan` removes the owner
// reference instead: nothing reads the result of such a Job any more. A Job that runs is deleted, and one that has
// ended is kept for the retention time, like the Jobs of a Turn that has ended.
//
// A Job may also appear after its step was closed, when the request of an earlier process arrives late. It is deleted
// as well (stray.go). Any other Job with an owner costs nothing here.
package job

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
)

// settled is the age from which on the absence of a Job's Turn in the cache proves that the Turn is gone: the Turn was
// created before its Job, and no cache lags for so long.
const settled = time.Minute

// Reconciler deletes orphaned and stray Jobs, one at a time.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Clock returns the current time.
	Clock func() time.Time
	// Retention is how long a Job that has ended is kept.
	Retention time.Duration
}

// +kubebuilder:rbac:groups=capstan.dev,resources=turns,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("job").
		For(&batchv1.Job{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasNoOwner))).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.strays)).
		WithOptions(pacing.Options(1)).
		Complete(r)
}

// hasNoOwner reports whether an object is the Job of a tool call that no Turn owns.
func hasNoOwner(object client.Object) bool {
	labels := object.GetLabels()
	return labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByCapstan && labels[v1alpha1.LabelTurnUID] != "" &&
		metav1.GetControllerOf(object) == nil
}

// Reconcile deletes one Job, if it is a stray, or an orphan whose time is over.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &batchv1.Job{}
	if err := r.Client.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !job.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case !hasNoOwner(job):
		return ctrl.Result{}, r.deleteStray(ctx, job)
	}
	now := r.Clock()
	if due := r.due(job); now.Before(due) {
		return ctrl.Result{RequeueAfter: due.Sub(now)}, nil
	}
	there, err := r.turnOf(ctx, job)
	if err != nil {
		return ctrl.Result{}, err
	}
	if there != nil {
		// The Turn reconciler cleans up, or this one does when the Turn is gone as well.
		return ctrl.Result{RequeueAfter: max(r.Retention, settled)}, nil
	}
	return ctrl.Result{}, r.delete(ctx, job)
}

// turnOf returns the Turn that a Job was created for, from the cache; nil for none.
func (r *Reconciler) turnOf(ctx context.Context, job *batchv1.Job) (*v1alpha1.Turn, error) {
	var turns v1alpha1.TurnList
	found := client.MatchingFields{fieldindex.UID: job.Labels[v1alpha1.LabelTurnUID]}
	if err := r.Client.List(ctx, &turns, client.InNamespace(job.Namespace), found); err != nil {
		return nil, fmt.Errorf("finding the Turn of a Job: %w", err)
	}
	if len(turns.Items) == 0 {
		return nil, nil
	}
	return &turns.Items[0], nil
}

// delete deletes the Job, if it still is the object that was read, and its pods in the background.
func (r *Reconciler) delete(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.Delete(ctx, job.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}
	return nil
}

// due is when an orphaned Job may be deleted.
func (r *Reconciler) due(job *batchv1.Job) time.Time {
	due := job.CreationTimestamp.Add(settled)
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			if kept := c.LastTransitionTime.Add(r.Retention); kept.After(due) {
				return kept
			}
		}
	}
	return due
}
