package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// cancelQueued ends a Turn that never began. It has no open step for the journal to close, unless its message may be
// being steered into another Turn, or it was the active Turn once: then the journal decides which comes first.
func (r *Reconciler) cancelQueued(ctx context.Context, s *scope) (flow, error) {
	if flow, err := r.excludeAdmission(ctx, s); err != nil || flow != proceed {
		return flow, err
	}
	if s.session == nil {
		return r.endQueued(s), nil
	}
	newest, err := r.Steps.Newest(ctx, s.turnState(), s.session.Status.Journal.Head)
	switch {
	case journal.ObstacleOf(err, s.session.Name) != nil && s.turn.Spec.Delivery != v1alpha1.DeliverySteer:
		// No Turn can begin with such a journal, and a queued one can be cancelled.
		return r.endQueued(s), nil
	case err != nil:
		return stop, err
	case newest != nil:
		return r.restore(ctx, s, newest)
	}
	r.Activities.Cancel(s.turn.UID)
	if s.turn.Spec.Delivery == v1alpha1.DeliverySteer || s.memory.session == s.session.UID {
		progress, into, err := r.Steps.CancelSteer(ctx, s.turnState(), s.session.Status.Journal.Head)
		if err != nil {
			return stop, err
		}
		return r.endSteer(s, progress, into), nil
	}
	s.turn.Status.SessionUID = s.session.UID
	return r.endQueued(s), nil
}

// endQueued ends a Turn of which the journal has nothing.
func (r *Reconciler) endQueued(s *scope) flow {
	now := metav1.NewMicroTime(r.Clock())
	turnstate.Apply(&s.turn.Status, s.turn.Generation, turnstate.CancelledBeforeStart(now), now)
	return writeThenStop(writeTransition)
}

// excludeAdmission passes a cancelled Turn that its Session cannot admit any more. An admission reads the Session, then
// the Turn past the cache, and writes the Session with optimistic locking. One that has read the Turn before it was
// cancelled may still be on its way, from another process: it fails, because the Session is written here. One that
// reads the Session later finds the Turn cancelled. For the same reason one write excludes all Turns that were
// cancelled before it, whichever UID it has.
func (r *Reconciler) excludeAdmission(ctx context.Context, s *scope) (flow, error) {
	if s.memory.withdrawn {
		return proceed, nil
	}
	key := types.NamespacedName{Namespace: s.turn.Namespace, Name: s.turn.Spec.SessionRef.Name}
	w := r.withdrawals.join(key, func(w *withdrawal) { r.withdrawFrom(ctx, key, s.turn.UID, w) })
	switch {
	case apierrors.IsConflict(w.err):
		conflicts.Inc()
		return again, nil
	case w.err != nil:
		return stop, fmt.Errorf("withdrawing the Turn from Session %s: %w", key.Name, w.err)
	case w.session == nil:
		return proceed, nil
	case w.session.Status.ActiveTurn != nil && w.session.Status.ActiveTurn.UID == s.turn.UID:
		// It may have begun without a plan in its status. A watch event of the Session wakes it, or else this deadline.
		s.deadline(r.Clock().Add(cacheLag))
		return stop, nil
	case !w.excluded && w.session.Status.WithdrawnUID != s.turn.UID:
		return again, nil
	}
	s.memory.withdrawn = true
	return proceed, nil
}

// withdrawFrom reads a Session past the cache, and writes the UID of a Turn to its status unless that is needless: the
// Turn is the active one, an earlier process has written its UID, or another Turn runs.
func (r *Reconciler) withdrawFrom(ctx context.Context, key types.NamespacedName, turn types.UID, w *withdrawal) {
	session := &v1alpha1.Session{}
	if w.err = r.Live.Get(ctx, key, session); w.err != nil {
		w.err = client.IgnoreNotFound(w.err)
		return
	}
	w.session = session
	active := session.Status.ActiveTurn
	if active != nil && active.UID == turn || session.Status.WithdrawnUID == turn {
		return
	}
	if w.excluded, w.err = r.runsAnother(ctx, session); w.err != nil || w.excluded {
		return
	}
	withdrawn := session.DeepCopy()
	withdrawn.Status.WithdrawnUID = turn
	_, w.err = status.Patch(ctx, r.Client, session, withdrawn)
	w.excluded = w.err == nil
}

// runsAnother reports whether the Session has an active Turn that has not ended: no process has decided yet which Turn
// follows.
func (r *Reconciler) runsAnother(ctx context.Context, session *v1alpha1.Session) (bool, error) {
	active := session.Status.ActiveTurn
	if active == nil {
		return false, nil
	}
	turn := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: session.Namespace, Name: active.Name}, turn)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the active Turn %s past the cache: %w", active.Name, err)
	}
	return err == nil && turn.UID == active.UID && !queue.Finished(turn), nil
}
