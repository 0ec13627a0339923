package turn

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// orphaned reports whether the Session that admitted the Turn is gone or being deleted: the journal with which the Turn
// could continue, and of which its status is a projection, is gone too. session is the one that has the name now; nil
// for none. A Turn that was never admitted belongs to no Session yet and waits for one.
func orphaned(turn *v1alpha1.Turn, session *v1alpha1.Session) bool {
	uid := turn.Status.SessionUID
	if uid == "" {
		// Admitted by a version that did not record the Session's UID.
		return session == nil && turn.Status.Plan != nil && turn.Status.Plan.Step > 0
	}
	if session == nil || !session.DeletionTimestamp.IsZero() {
		return true
	}
	if session.UID == uid {
		return false
	}
	// A Turn that has ended and is younger than the Session was restored from a backup, with its status and after its
	// Session: it is kept as a record.
	return !queue.Finished(turn) || turn.CreationTimestamp.Before(&session.CreationTimestamp)
}

// deleteOrphan deletes a Turn whose Session is gone; its Jobs go with it. Turns have no owner reference to their
// Session, which would have the same effect: some GitOps tools never prune an object with an owner, because they assume
// that the owner manages it.
func (r *Reconciler) deleteOrphan(ctx context.Context, s *scope, key types.NamespacedName) (flow, error) {
	r.Activities.Cancel(s.turn.UID)
	if !s.turn.DeletionTimestamp.IsZero() {
		return r.stopOrphan(ctx, s)
	}
	if due := s.memory.orphan(r.Clock()).Add(orphanGrace); queue.Finished(s.turn) && r.Clock().Before(due) {
		s.deadline(due)
		return stop, nil
	}
	if _, known := r.gone.Since(s.turn.Status.SessionUID, r.Clock()); !known {
		session := &v1alpha1.Session{}
		err := r.Live.Get(ctx, key, session)
		if client.IgnoreNotFound(err) != nil {
			return stop, fmt.Errorf("reading Session %s past the cache: %w", key.Name, err)
		}
		if err == nil && !orphaned(s.turn, session) {
			// The cache lags. A watch event wakes the Turn if the Session is new; otherwise this deadline does.
			s.deadline(r.Clock().Add(cacheLag))
			return stop, nil
		}
		r.gone.Add(s.turn.Status.SessionUID, r.Clock())
		// Its own controller may never have seen it, if it was deleted while the manager started and counted the begun
		// Turns.
		r.Turns.End(s.turn.Status.SessionUID)
	}
	return stop, r.deleteTurn(ctx, s.turn)
}

// orphanGrace is how long a finished Turn outlives its Session. When a namespace is deleted, its Turns are deleted
// meanwhile, and cost no request.
const orphanGrace = 5 * time.Second

// orphan returns when the Turn was first found without its Session.
func (m *memory) orphan(now time.Time) time.Time {
	if m.orphanedAt.IsZero() {
		m.orphanedAt = now
	}
	return m.orphanedAt
}

// stopOrphan stops the tools of a Turn that is being deleted and held by a foreign finalizer. No journal is left to
// record more.
func (r *Reconciler) stopOrphan(ctx context.Context, s *scope) (flow, error) {
	jobs, err := r.jobs(ctx, s.turn, everyStep)
	if err != nil || len(jobs) == 0 {
		return stop, err
	}
	return r.deleteJobsOnce(ctx, s, jobs)
}

// deleteTurn deletes the Turn, if it still is the object that was read. Its dependents are deleted in the background.
func (r *Reconciler) deleteTurn(ctx context.Context, turn *v1alpha1.Turn) error {
	err := r.Client.Delete(
		ctx,
		turn.DeepCopy(),
		client.Preconditions{UID: &turn.UID, ResourceVersion: &turn.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the Turn: %w", err)
	}
	return nil
}
