package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/queue"
)

// orphaned says that the Session which has admitted the Turn is gone, or going: there is no log any more that the Turn could go on with, nor
// one that its status is a projection of. session is the one that has the name now; nil for none. A Turn that was never admitted belongs to
// no Session yet and waits for one.
func orphaned(turn *v1alpha1.Turn, session *v1alpha1.Session) bool {
	uid := turn.Status.SessionUID
	if uid == "" {
		// Admitted by a build that did not say by which Session.
		return session == nil && turn.Status.Plan != nil && turn.Status.Plan.Step > 0
	}
	if session == nil || !session.DeletionTimestamp.IsZero() {
		return true
	}
	if session.UID == uid {
		return false
	}
	// A Turn that has ended and is younger than the Session was restored from a backup, with its status and after its Session: it is kept as
	// a record.
	return !queue.Finished(turn) || turn.CreationTimestamp.Before(&session.CreationTimestamp)
}

// deleteOrphan deletes a Turn whose Session is gone; its Jobs go with it. Turns have no owner reference to their Session, which would do the
// same: there are GitOps tools that take an object with an owner for somebody else's, and never prune it.
func (r *Reconciler) deleteOrphan(ctx context.Context, s *scope, key types.NamespacedName) (flow, error) {
	r.Activities.Cancel(s.turn.UID)
	if !s.turn.DeletionTimestamp.IsZero() {
		return r.stopOrphan(ctx, s)
	}
	session := &v1alpha1.Session{}
	err := r.Live.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return stop, fmt.Errorf("reading Session %s past the cache: %w", key.Name, err)
	}
	if err == nil && !orphaned(s.turn, session) {
		// The cache lags. What it will show wakes the Turn, if it is new; if not, this does.
		s.deadline(r.Clock().Add(cacheLag))
		return stop, nil
	}
	return stop, r.deleteTurn(ctx, s.turn)
}

// stopOrphan stops the tools of a Turn that is deleted and held by somebody's finalizer. There is no log to say more in.
func (r *Reconciler) stopOrphan(ctx context.Context, s *scope) (flow, error) {
	jobs, err := r.jobs(ctx, s.turn, everyStep)
	if err != nil || len(jobs) == 0 {
		return stop, err
	}
	return r.deleteJobsOnce(ctx, s, jobs)
}

// deleteTurn deletes the Turn, if it still is the object that was looked at. What it owns goes with it, in the background.
func (r *Reconciler) deleteTurn(ctx context.Context, turn *v1alpha1.Turn) error {
	err := r.Client.Delete(ctx, turn.DeepCopy(), client.Preconditions{UID: &turn.UID, ResourceVersion: &turn.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Turn: %w", err)
	}
	return nil
}
