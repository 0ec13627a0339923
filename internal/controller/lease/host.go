package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
)

// maxWrites is how often a write is repeated that another write has preceded.
const maxWrites = 10

// writePauses are those between the writes.
var writePauses = backoff.Exponential{First: 10 * time.Millisecond, Factor: 2, Longest: 500 * time.Millisecond}

// maxPruned is how many finished leases a new one deletes at most.
const maxPruned = 10

var _ lease.Host = (*Reconciler)(nil)

// Cleaner implements lease.Host. Calls of several Sessions that are prepared at the same time may exceed the bound of
// the namespace by their number.
func (r *Reconciler) Cleaner(ctx context.Context, request lease.Request) (*v1alpha1.Tool, error) {
	name := request.Cleanup.ToolRef.Name
	repeated, err := r.room(ctx, request)
	if err != nil {
		return nil, err
	}
	refuse := lease.Refusef
	if repeated {
		refuse = lease.RefuseRepeatedf
	}
	found, err := r.tool(ctx, request.Owner.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, refuse("the Tool %s, which would clean up what it creates, does not exist", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Tool %s: %w", name, err)
	}
	if why := lease.CheckCleaner(&found.Spec, request.User); why != "" {
		return nil, refuse("the Tool %s cannot clean up what it creates: %s", name, why)
	}
	if repeated {
		return found, nil // What it creates has a lease.
	}
	request.Identity.ExternalID = "unknown"
	if err := r.create(ctx, request, client.DryRunAll); !apierrors.IsAlreadyExists(err) {
		return found, err // A quota refuses the lease before the request, and not after it.
	}
	return found, nil
}

// room reports whether the call has a lease already, which an earlier process has kept for it. Otherwise the error is a
// *lease.RefusedError if too many resources are not cleaned up.
func (r *Reconciler) room(ctx context.Context, request lease.Request) (repeated bool, err error) {
	of := request.Owner
	var list v1alpha1.LeasedResourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(of.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing LeasedResources: %w", err)
	}
	all, own := 0, 0
	for i := range list.Items {
		l := &list.Items[i]
		if madeBy(l, request) {
			return true, nil
		}
		if lease.Finished(l) {
			continue
		}
		all++
		if l.Spec.SessionRef.UID == of.UID {
			own++
		}
	}
	switch {
	case own >= lease.MaxPerSession:
		return false, lease.Refusef(
			"this session has %d resources that are not cleaned up, and no more are permitted. Release some", own)
	case all >= lease.MaxPerNamespace:
		return false, lease.Refusef("the namespace has %d resources that are not cleaned up, and no more are permitted", all)
	}
	return false, nil
}

// madeBy reports whether a call has created a lease.
func madeBy(l *v1alpha1.LeasedResource, request lease.Request) bool {
	return request.Call != "" && l.Labels[v1alpha1.LabelCall] == request.Call && l.Spec.Turn == request.Turn &&
		l.Spec.Tool == request.Tool && l.Spec.SessionRef.UID == request.Owner.UID
}

// prune deletes the oldest finished leases of a namespace, so that no more than lease.MaxFinished stay. Each new lease
// makes room for itself, and what fails is made up for by the next one.
func (r *Reconciler) prune(ctx context.Context, namespace string) {
	var list v1alpha1.LeasedResourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the LeasedResources to delete early")
		return
	}
	var finished []*v1alpha1.LeasedResource
	for i := range list.Items {
		if l := &list.Items[i]; lease.Finished(l) && l.DeletionTimestamp.IsZero() {
			finished = append(finished, l)
		}
	}
	if len(finished) <= lease.MaxFinished {
		return
	}
	slices.SortFunc(finished, func(a, b *v1alpha1.LeasedResource) int {
		return lease.FinishedAt(a).Compare(lease.FinishedAt(b))
	})
	for _, l := range finished[:min(len(finished)-lease.MaxFinished, maxPruned)] {
		if err := r.Client.Delete(ctx, l.DeepCopy(), client.Preconditions{UID: &l.UID}); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to delete a LeasedResource early", "leasedResource", l.Name)
			return
		}
	}
}

// Keep implements lease.Host.
func (r *Reconciler) Keep(ctx context.Context, request lease.Request) error {
	exhausted := errors.New("keeping a lease: it was changed at each of several writes")
	for n := range maxWrites {
		l, err := r.live(ctx, request.Owner.Namespace, request.Identity)
		switch {
		case err != nil:
			return err
		case l == nil:
			if err = r.create(ctx, request); err == nil {
				r.prune(ctx, request.Owner.Namespace)
			}
		case lease.Finished(l):
			// It describes what was cleaned up. The resource is another one, with the same id.
			if err = dropFinalizer(ctx, r.Client, l); err == nil {
				err = r.Client.Delete(ctx, l, client.Preconditions{UID: &l.UID})
			}
			if client.IgnoreNotFound(err) == nil {
				err = errReplaced
			}
		case l.Spec.SessionRef.UID != request.Owner.UID:
			return lease.RefuseForeignf("another Session has the lease on %s %s of %s", l.Spec.Type, l.Spec.ExternalID,
				l.Spec.Provider)
		default:
			err = r.use(ctx, l, request.Duration)
		}
		switch {
		case errors.Is(err, errReplaced):
			if l.DeletionTimestamp != nil {
				exhausted = lease.Refusef("the lease on what had the same id before is being deleted, and a finalizer holds it")
			}
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err):
			return err
		}
		if n > 0 && backoff.Wait(ctx, writePauses.After(n)) != nil {
			return exhausted
		}
	}
	return exhausted
}

// errReplaced is the end of a finished lease.
var errReplaced = errors.New("the lease was finished")

// create creates the lease of a resource.
func (r *Reconciler) create(ctx context.Context, request lease.Request, options ...client.CreateOption) error {
	of := request.Identity
	l := &v1alpha1.LeasedResource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Owner.Namespace, Name: lease.Name(request.Owner.Namespace, of),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelSessionUID: string(request.Owner.UID),
				v1alpha1.LabelCall: request.Call,
			},
			Finalizers: []string{v1alpha1.FinalizerLease},
		},
		Spec: v1alpha1.LeasedResourceSpec{
			DesiredState: v1alpha1.LeaseDesiredStateActive,
			Provider:     of.Provider, Type: of.Type, ExternalID: of.ExternalID,
			Duration:   metav1.Duration{Duration: request.Duration},
			SessionRef: v1alpha1.ObjectIdentity{Name: request.Owner.Name, UID: request.Owner.UID},
			Turn:       request.Turn, Tool: request.Tool, User: request.User, Cleanup: request.Cleanup,
		},
	}
	err := r.Client.Create(ctx, l, options...)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return lease.Refusef("the namespace is being deleted")
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return lease.Refusef("the cluster refuses the lease. A quota of the namespace may be used up")
	default:
		return fmt.Errorf("creating LeasedResource %s: %w", l.Name, err)
	}
}

// use extends the lease of a resource that is not cleaned up. A clean-up that runs has no effect on it any more.
func (r *Reconciler) use(ctx context.Context, l *v1alpha1.LeasedResource, duration time.Duration) error {
	if !l.DeletionTimestamp.IsZero() {
		return lease.Refusef("its lease is being deleted, and what it has created is cleaned up")
	}
	switch l.Spec.DesiredState {
	case v1alpha1.LeaseDesiredStateActive:
	case v1alpha1.LeaseDesiredStateAbandoned:
		return lease.Refusef("its lease is abandoned")
	case v1alpha1.LeaseDesiredStateReleased:
		if err := r.desire(ctx, l, v1alpha1.LeaseDesiredStateActive); err != nil {
			return err
		}
	}
	next := l.DeepCopy()
	next.Status = lease.Use(l, duration, r.Clock())
	setConditions(next, r.Clock())
	_, err := status.Patch(ctx, r.Client, l, next)
	return err
}

// desire sets the desired state of a lease. l is then the object as it was written.
func (r *Reconciler) desire(
	ctx context.Context, l *v1alpha1.LeasedResource, state v1alpha1.LeaseDesiredState,
) error {
	base := l.DeepCopy()
	l.Spec.DesiredState = state
	err := r.Client.Patch(ctx, l, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("setting the desired state of LeasedResource %s: %w", l.Name, err)
	}
	return nil
}

// Extend implements lease.Host.
func (r *Reconciler) Extend(
	ctx context.Context, of lease.Owner, resource lease.Identity, duration time.Duration,
) (bool, error) {
	for n := range maxWrites {
		l, err := r.live(ctx, of.Namespace, resource)
		if err != nil || l == nil || lease.Finished(l) || l.Spec.SessionRef.UID != of.UID {
			return false, err
		}
		if err = r.use(ctx, l, duration); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err == nil, err
		}
		if err := backoff.Wait(ctx, writePauses.After(n+1)); err != nil {
			return false, err
		}
	}
	return false, errors.New("extending a lease: it was changed at each of several writes")
}

// Release implements lease.Host.
func (r *Reconciler) Release(
	ctx context.Context, of lease.Owner, resource lease.Identity,
) (v1alpha1.LeaseState, error) {
	for n := range maxWrites {
		l, err := r.live(ctx, of.Namespace, resource)
		if err != nil || l == nil || l.Spec.SessionRef.UID != of.UID {
			return "", err
		}
		switch {
		case lease.Finished(l):
			return l.Status.State, nil
		case l.Spec.DesiredState == v1alpha1.LeaseDesiredStateAbandoned:
			return v1alpha1.LeaseStateAbandoned, nil
		case l.Spec.DesiredState == v1alpha1.LeaseDesiredStateReleased:
			return v1alpha1.LeaseStateCleaning, nil // Also before the status shows it.
		}
		err = r.desire(ctx, l, v1alpha1.LeaseDesiredStateReleased)
		if err == nil {
			return v1alpha1.LeaseStateCleaning, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return "", err
		}
		if err := backoff.Wait(ctx, writePauses.After(n+1)); err != nil {
			return "", err
		}
	}
	return "", errors.New("releasing a lease: it was changed at each of several writes")
}

// live returns the lease of a resource, past the cache; nil for none.
func (r *Reconciler) live(
	ctx context.Context, namespace string, of lease.Identity,
) (*v1alpha1.LeasedResource, error) {
	l := &v1alpha1.LeasedResource{}
	name := lease.Name(namespace, of)
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, l)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading LeasedResource %s past the cache: %w", name, err)
	}
	return l, nil
}
