package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
)

// registrationPauses are those between the attempts to register a resource.
var registrationPauses = backoff.Exponential{First: 10 * time.Second, Factor: 2, Longest: 10 * time.Minute}

// registration is what the registry of a Session has of a lease.
type registration struct {
	uid types.UID
	// status that was registered; empty for none.
	status resource.Status
	// failures in a row, and when the next attempt is due.
	failures int
	due      time.Time
}

// register brings the entry of the resource in the registry of its Session up to date (RES-01). A failure is logged,
// and delays nothing else: the resource is registered again after the pause that is returned.
func (r *Reconciler) register(ctx context.Context, l *v1alpha1.LeasedResource) time.Duration {
	key, shown := client.ObjectKeyFromObject(l), shownAs(l)
	r.mu.Lock()
	last, known := r.registrations[key]
	r.mu.Unlock()
	if last.uid != l.UID {
		last, known = registration{uid: l.UID}, false
	}
	// The end of a lease without a finalizer was registered, perhaps by an earlier process.
	ended := shown != resource.Active && !slices.Contains(l.Finalizers, v1alpha1.FinalizerLease)
	if l.Status.State == "" || known && last.status == shown || !known && ended {
		return 0
	}
	if pause := last.due.Sub(r.Clock()); pause > 0 {
		return pause
	}
	err := r.registerAs(ctx, l, shown)
	if err == nil {
		last = registration{uid: l.UID, status: shown}
	} else {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to register a leased resource with its Session")
		last.failures++
		last.due = r.Clock().Add(registrationPauses.After(last.failures))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registrations == nil {
		r.registrations = map[types.NamespacedName]registration{}
	}
	r.registrations[key] = last
	return max(last.due.Sub(r.Clock()), 0)
}

// shownAs returns the status of a lease in the registry.
func shownAs(l *v1alpha1.LeasedResource) resource.Status {
	switch l.Status.State {
	case v1alpha1.LeaseStateReleased:
		return resource.Released
	case v1alpha1.LeaseStateAbandoned:
		return resource.Failed
	default:
		return resource.Active
	}
}

// registerAs registers the resource with its Session, if that exists.
func (r *Reconciler) registerAs(ctx context.Context, l *v1alpha1.LeasedResource, shown resource.Status) error {
	session := &v1alpha1.Session{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: l.Spec.SessionRef.Name}, session)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Session %s: %w", l.Spec.SessionRef.Name, err)
	}
	if err != nil || session.UID != l.Spec.SessionRef.UID || !session.DeletionTimestamp.IsZero() {
		return nil
	}
	of := record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	return resource.Of(r.Records, of).RegisterLease(ctx, resource.Draft{
		ID: l.Name, Kind: l.Spec.Type, Status: shown,
		Metadata: map[string]string{
			"provider": l.Spec.Provider, "type": l.Spec.Type, "external_id": l.Spec.ExternalID, "tool": l.Spec.Tool,
		},
	})
}

// forget drops what is known of a lease that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	delete(r.registrations, key)
	var gone []types.UID
	for uid, c := range r.claims {
		if c.of == key {
			gone = append(gone, uid)
		}
	}
	r.mu.Unlock()
	for _, uid := range gone {
		r.drop(uid)
	}
}
