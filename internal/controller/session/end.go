package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// ended is what became of the hooks at the end of a Session, as the metric names it.
type ended string

const (
	// endedRun: they have run, or failed.
	endedRun ended = "Run"
	// endedTimedOut: they did not end in time.
	endedTimedOut ended = "TimedOut"
	// endedNamespace: the namespace is being deleted, so that they did not run.
	endedNamespace ended = "NamespaceTerminating"
	// endedNone: there were none.
	endedNone ended = "None"
)

// deletion is what a process knows about the deletion of a Session.
type deletion struct {
	// since is when the process saw it first.
	since time.Time
	// ended is what became of the hooks; empty while they run.
	ended ended
}

// end lets a Session that is being deleted go. One with the finalizer has its hooks run first, for at most
// hook.SessionBudget from when this process saw the deletion: whatever they need is missing or refused, they keep no
// Session for longer. In a namespace that is being deleted none runs. That the finalizer is gone is the record that
// they have run.
func (r *Reconciler) end(ctx context.Context, session *v1alpha1.Session) (ctrl.Result, error) {
	r.Turns.End(session.UID)
	key := client.ObjectKeyFromObject(session)
	if !controllerutil.ContainsFinalizer(session, v1alpha1.FinalizerSessionEnd) {
		// A foreign finalizer may keep the Session, and its journal with it.
		r.Activities.Cancel(session.UID)
		return ctrl.Result{}, nil
	}
	now := r.Clock()
	known := r.known.deleted(key, now)
	due := known.since.Add(hook.SessionBudget)
	if known.ended == "" && !now.Before(due) {
		ctrl.LoggerFrom(ctx).Info("The hooks at the end of a Session did not end in time")
		known.ended = endedTimedOut
	}
	if known.ended == "" {
		var err error
		if known.ended, err = r.runEnd(ctx, session); err != nil {
			return ctrl.Result{}, fmt.Errorf("running the hooks at the end of the Session: %w", err)
		}
	}
	if known.ended == "" {
		return ctrl.Result{RequeueAfter: due.Sub(now)}, nil
	}
	r.known.endedAs(key, known.ended)
	r.Activities.Cancel(session.UID)
	return r.letGo(ctx, session, known.ended)
}

// letGo removes the finalizer.
func (r *Reconciler) letGo(ctx context.Context, session *v1alpha1.Session, why ended) (ctrl.Result, error) {
	written, err := r.changeFinalizer(ctx, session, func(live *v1alpha1.Session) bool {
		return controllerutil.RemoveFinalizer(live, v1alpha1.FinalizerSessionEnd)
	})
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("removing the finalizer: %w", err)
	case err == nil && written != nil:
		sessionEnds.WithLabelValues(string(why)).Inc()
		ctrl.LoggerFrom(ctx).Info("A Session has ended", "hooks", why)
	}
	return ctrl.Result{}, nil
}

// conflictRetry is the pause before the finalizer is removed again after another write.
const conflictRetry = 100 * time.Millisecond

// runEnd runs the hooks at the end of a Session. It returns what became of them; empty while they run.
func (r *Reconciler) runEnd(ctx context.Context, session *v1alpha1.Session) (ended, error) {
	key := executor.Key{Turn: session.UID, Call: "session_end"}
	activity := func(context.Context) (any, error) { return nil, nil }
	if !r.Activities.Known(key) {
		r.Activities.Cancel(session.UID)
		if session.Status.Hooks == nil || len(session.Status.Hooks.End) == 0 {
			return endedNone, nil
		}
		if terminating, err := r.terminating(ctx, session.Namespace); err != nil || terminating {
			return endedNamespace, err
		}
		var err error
		if activity, err = r.endActivity(ctx, session); err != nil || activity == nil {
			return endedNone, err
		}
	}
	result, done := r.Activities.Ensure(key, client.ObjectKeyFromObject(session), executor.Need{Continues: true}, activity)
	if !done {
		return "", nil
	}
	if result.Err != nil {
		ctrl.LoggerFrom(ctx).Error(result.Err, "Failed to run the hooks at the end of a Session")
	}
	return endedRun, nil
}

// endActivity returns what runs the hooks at the end of a Session; nil if none is left.
func (r *Reconciler) endActivity(ctx context.Context, session *v1alpha1.Session) (executor.Func, error) {
	live, err := r.live(ctx, session)
	if err != nil || live == nil || live.Status.Hooks == nil {
		return nil, err
	}
	resolved, err := configsource.Session(ctx, r.Client, live)
	if err != nil {
		return nil, fmt.Errorf("resolving the references of the Session: %w", err)
	}
	pinned := resolved.Remaining(live.Status.Hooks.End)
	if len(pinned) == 0 {
		return nil, nil
	}
	config := turnstate.Config{Effective: resolved.Effective, Texts: r.Texts.Of(resolved, live)}
	logger := ctrl.LoggerFrom(ctx)
	return func(ctx context.Context) (any, error) {
		return r.Steps.EndSession(ctrl.LoggerInto(ctx, logger), live, config, pinned)
	}, nil
}

// terminating reports whether a namespace is being deleted. A manager that may not read it does not know, and runs the
// hooks.
func (r *Reconciler) terminating(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, namespace)
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the namespace: %w", err)
	default:
		return !namespace.DeletionTimestamp.IsZero(), nil
	}
}

// deleted records that a Session is being deleted, and returns what is known about that.
func (m *memory) deleted(key types.NamespacedName, now time.Time) deletion {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	if k.deletion.since.IsZero() {
		k.deletion.since = now
		m.byKey[key] = k
	}
	return k.deletion
}

// endedAs records what became of the hooks at the end of a Session: they do not run again if it cannot be released.
func (m *memory) endedAs(key types.NamespacedName, as ended) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.byKey[key]; ok {
		k.deletion.ended = as
		m.byKey[key] = k
	}
}
