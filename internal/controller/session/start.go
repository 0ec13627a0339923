package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
)

// start brings a Session that has hooks at its start or its end to the point at which its first Turn may begin, in
// passes of at most one write each: the hooks at the end are pinned in status, the finalizer is added for them, and the
// hooks at the start run and are recorded (HOOK-01). Until then the Session is not ready. It reports whether it has
// written: then the pass ends, and its watch event begins the next one.
func (r *Reconciler) start(ctx context.Context, s *scope) (bool, error) {
	hooks := s.session.Status.Hooks
	switch {
	case hooks == nil && (!s.usable || hasStarted(s.session) || !s.resolved.HasSessionHooks()):
		return false, nil
	case hooks == nil:
		s.session.Status.Hooks = &v1alpha1.SessionHooks{End: s.resolved.EndHooks}
		s.notStarted()
		return false, nil
	case len(hooks.End) > 0 && !controllerutil.ContainsFinalizer(s.session, v1alpha1.FinalizerSessionEnd):
		return true, r.finalize(ctx, s)
	case hooks.StartedAt != nil || !s.usable:
		return false, nil
	}
	key := executor.Key{Turn: s.session.UID, Call: "session_start"}
	session, config, logger := s.base, s.config, ctrl.LoggerFrom(ctx)
	result, done := r.Activities.Ensure(key, client.ObjectKeyFromObject(s.session), executor.Need{Continues: true},
		func(ctx context.Context) (any, error) {
			return r.Steps.StartSession(ctrl.LoggerInto(ctx, logger), session, config)
		})
	if !done {
		s.notStarted()
		return false, nil
	}
	if result.Err != nil {
		// No hook keeps a Session from starting.
		logger.Error(result.Err, "Failed to run the hooks at the start of a Session")
	}
	now := metav1.NewTime(r.Clock())
	hooks.StartedAt = &now
	hooks.Start, _ = result.Value.([]v1alpha1.HookOutcome)
	return false, nil
}

// notStarted keeps a Session that could be used from having Turns until it has started. The message is the same in all
// passes until then, so that they write it once.
func (s *scope) notStarted() {
	s.usable, s.reason = false, v1alpha1.ReasonSessionStarting
	s.message = "The hooks at the start of the Session have not ended."
}

// hasStarted reports whether a Session that shows no hooks could be used before: hooks that were added since then run
// neither at its start nor at its end.
func hasStarted(session *v1alpha1.Session) bool {
	switch status := &session.Status; status.Phase {
	case "", v1alpha1.SessionPhasePending:
		return status.ActiveTurn != nil || status.Totals.Turns > 0 || status.Journal.Head > 0
	default:
		return true
	}
}

// finalize adds the finalizer for the hooks at the end.
func (r *Reconciler) finalize(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.session)
	written, err := r.changeFinalizer(ctx, s.session, func(live *v1alpha1.Session) bool {
		return live.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(live, v1alpha1.FinalizerSessionEnd)
	})
	switch {
	case apierrors.IsConflict(err), err == nil && written == nil:
		s.requeue = lagRetry // If no watch event comes first.
		return nil
	case err != nil:
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	r.known.recordWrite(key, written.ResourceVersion)
	return nil
}

// changeFinalizer changes the finalizers of a Session, as it is now: the cache leaves out those of others. It returns
// what was written; nil if there was nothing to change, or the Session is gone.
func (r *Reconciler) changeFinalizer(
	ctx context.Context, session *v1alpha1.Session, change func(*v1alpha1.Session) bool,
) (*v1alpha1.Session, error) {
	live, err := r.live(ctx, session)
	if err != nil || live == nil {
		return nil, err
	}
	base := live.DeepCopy()
	if !change(live) {
		return nil, nil
	}
	err = r.Client.Patch(ctx, live, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return nil, err
	}
	return live, nil
}

// live reads a Session past the cache; nil if it is gone.
func (r *Reconciler) live(ctx context.Context, session *v1alpha1.Session) (*v1alpha1.Session, error) {
	live := &v1alpha1.Session{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(session), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Session past the cache: %w", err)
	}
	if err != nil || live.UID != session.UID {
		return nil, nil
	}
	return live, nil
}
