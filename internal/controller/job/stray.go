package job

import (
	"context"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// strays enqueues a Job that is a stray. Any other Job costs a look into the cache.
func (r *Reconciler) strays(ctx context.Context, object client.Object) []reconcile.Request {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return nil
	}
	stray, err := r.stray(ctx, job)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to check whether the step of a Job is closed", "job", job.Name)
		return nil
	}
	if !stray {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(job)}}
}

// stray reports whether a Job belongs to a closed step of a running Turn and could still run, or already does. The
// steps of a Turn only go up, so that a cache that lags finds none too many. The Jobs of a Turn that has ended are left
// to the Turn's reconciler.
func (r *Reconciler) stray(ctx context.Context, job *batchv1.Job) (bool, error) {
	step, err := strconv.ParseInt(job.Labels[v1alpha1.LabelStep], 10, 32)
	if err != nil || job.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByCapstan || !job.DeletionTimestamp.IsZero() {
		return false, nil
	}
	of, err := r.turnOf(ctx, job)
	if err != nil || of == nil || !metav1.IsControlledBy(job, of) || queue.Finished(of) || of.Status.Plan == nil ||
		int64(of.Status.Plan.Step) <= step {
		return false, err
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(job.Namespace),
		client.MatchingFields{fieldindex.TurnUID: string(of.UID)}); err != nil {
		return false, fmt.Errorf("listing the pods of a Job: %w", err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			pods = append(pods, &list.Items[i])
		}
	}
	return turn.CanRun(job, pods), nil
}

// deleteStray deletes a Job if it is a stray, after a live read: its deletion with the end of its step may not be in
// the cache yet.
func (r *Reconciler) deleteStray(ctx context.Context, job *batchv1.Job) error {
	if stray, err := r.stray(ctx, job); err != nil || !stray {
		return err
	}
	live := &batchv1.Job{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if stray, err := r.stray(ctx, live); err != nil || !stray {
		return err
	}
	return r.delete(ctx, live)
}
