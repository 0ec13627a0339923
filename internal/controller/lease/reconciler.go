package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	invocation "github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// staleRetry is the pause before a pass is repeated whose view of the lease was stale.
const staleRetry = 100 * time.Millisecond

// Caller sends the requests of Tools.
type Caller interface {
	// Alone sends the request of a call that belongs to no Turn.
	Alone(ctx context.Context, c invocation.Call) (tool.Outcome, error)
}

// Reconciler keeps LeasedResources.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Texts reads the definitions that the cache leaves out.
	Texts *configsource.Texts
	// Records has the registries of resources of Sessions.
	Records record.Store
	// Caller sends the requests that clean up, and Limits has the rate limits of their Tools; it may be nil.
	Caller Caller
	Limits ratelimit.Limiter
	// Policies holds back clean-ups that need a Secret while an admission policy of the installation is missing. Nil holds
	// back nothing.
	Policies *policies.Verifier
	// Activities run the requests, and wake Wakes.
	Activities *executor.Executor
	// Clock returns the current time.
	Clock func() time.Time
	// Wakes enqueues LeasedResources, when a request has ended or the Clock has jumped.
	Wakes *wake.Source
	// Notices records Events.
	Notices *notice.Recorder

	mu sync.Mutex
	// claims are the keys of the requests of this process, by the UID of the LeasedResource.
	claims map[types.UID]claim
	// registrations are what the registries of Sessions have of leases, as far as this process knows.
	registrations map[types.NamespacedName]registration
}

// +kubebuilder:rbac:groups=capstan.dev,resources=leasedresources,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=capstan.dev,resources=leasedresources/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=tools,verbs=get;list;watch

// Reconcile brings one lease up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	l, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if l == nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	result, err := r.act(ctx, l)
	pause := r.register(ctx, l)
	if err == nil && pause > 0 && (result.RequeueAfter == 0 || pause < result.RequeueAfter) {
		result.RequeueAfter = pause
	}
	return result, err
}

// act does what is to be done about a lease. l is then the object as it was written.
func (r *Reconciler) act(ctx context.Context, l *v1alpha1.LeasedResource) (ctrl.Result, error) {
	if own := r.claimOf(l.UID); own != nil {
		if !lease.Claimed(&l.Status, own.at) {
			r.drop(l.UID)
		} else if done, err := r.settle(ctx, l, own); err != nil {
			return retryConflict(err)
		} else if !done {
			if lease.Decide(l, r.Clock()).Action != lease.Abandon {
				return r.await(l), nil
			}
			r.drop(l.UID)
		}
	}
	var err error
	verdict := lease.Decide(l, r.Clock())
	switch verdict.Action {
	case lease.Begin:
		err = r.write(ctx, l, lease.First(l), "")
	case lease.Observe:
		err = r.write(ctx, l, l.Status, "")
	case lease.Claim:
		return r.claim(ctx, l)
	case lease.Abandon:
		err = r.finish(ctx, l, v1alpha1.LeaseStateAbandoned, "")
	case lease.Finish:
		err = r.release(ctx, l)
	case lease.Delete:
		if err = r.Client.Delete(ctx, l, client.Preconditions{UID: &l.UID}); err != nil {
			err = fmt.Errorf("deleting LeasedResource %s: %w", l.Name, err)
		}
	case lease.Wait:
		if !verdict.At.IsZero() {
			return ctrl.Result{RequeueAfter: max(verdict.At.Sub(r.Clock()), time.Millisecond)}, nil
		}
	}
	return retryConflict(err)
}

// await waits for the request of this process, with a lease that is being deleted not for longer than its patience.
func (r *Reconciler) await(l *v1alpha1.LeasedResource) ctrl.Result {
	if l.DeletionTimestamp.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(lease.GivesUpAt(l).Sub(r.Clock()), time.Millisecond)}
}

// read returns a LeasedResource; nil if it is gone. One whose request this process has sent is read past the cache,
// which may not have the claim yet.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.LeasedResource, error) {
	l := &v1alpha1.LeasedResource{}
	err := r.Client.Get(ctx, key, l)
	if err == nil && r.claimOf(l.UID) != nil {
		err = r.Live.Get(ctx, key, l)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading LeasedResource %s: %w", key, err)
	}
	return l, nil
}

// retryConflict repeats a pass shortly that another write has preceded.
func retryConflict(err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	default:
		return ctrl.Result{}, err
	}
}

// finish records that the resource was cleaned up or abandoned, with a message unless it is the usual one.
func (r *Reconciler) finish(
	ctx context.Context, l *v1alpha1.LeasedResource, state v1alpha1.LeaseState, message string,
) error {
	result := resultReleased
	if state == v1alpha1.LeaseStateAbandoned {
		result = resultAbandoned
	}
	err := r.write(ctx, l, lease.Ended(l, state, r.Clock()), message)
	if err == nil {
		cleanups.WithLabelValues(result).Inc()
	}
	return err
}

// release removes the finalizer.
func (r *Reconciler) release(ctx context.Context, l *v1alpha1.LeasedResource) error {
	live := &v1alpha1.LeasedResource{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(l), live); err != nil {
		return fmt.Errorf("reading LeasedResource %s past the cache: %w", l.Name, err)
	}
	if live.UID != l.UID || !lease.Finished(live) {
		return nil
	}
	return dropFinalizer(ctx, r.Client, live)
}

// dropFinalizer removes the finalizer of an object that was read past the cache.
func dropFinalizer(ctx context.Context, c client.Client, live *v1alpha1.LeasedResource) error {
	next := live.DeepCopy()
	if !controllerutil.RemoveFinalizer(next, v1alpha1.FinalizerLease) {
		return nil
	}
	if err := c.Patch(ctx, next, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("removing the finalizer of LeasedResource %s: %w", live.Name, err)
	}
	return nil
}

// write writes a status with the conditions that follow from it, and with a message of Ready unless it is the usual
// one. l is then the object as it was written.
func (r *Reconciler) write(
	ctx context.Context, l *v1alpha1.LeasedResource, s v1alpha1.LeasedResourceStatus, message string,
) error {
	next := l.DeepCopy()
	next.Status = s
	setConditions(next, r.Clock())
	if ready := meta.FindStatusCondition(next.Status.Conditions, v1alpha1.ConditionReady); message != "" && ready != nil {
		ready.Message = condition.Cut(message)
	}
	if _, err := status.Patch(ctx, r.Client, l, next); err != nil {
		return err
	}
	*l = *next
	return nil
}

// terminating reports whether a namespace is being deleted.
func (r *Reconciler) terminating(ctx context.Context, name string) bool {
	namespace := &corev1.Namespace{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, namespace)
	return apierrors.IsNotFound(err) || err == nil && !namespace.DeletionTimestamp.IsZero()
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("leasedresource").For(&v1alpha1.LeasedResource{}).
		WatchesRawSource(r.Wakes).WithOptions(pacing.Options(pacing.FewWorkers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the LeasedResource controller: %w", err)
	}
	return nil
}
