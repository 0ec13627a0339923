package inprocess

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// startSession runs the hooks at the start of the Session before its first Turn, once, and pins those at its end
// (HOOK-01). The error is that of the context, or of reading the configuration.
func (r *run) startSession(ctx context.Context, session *v1alpha1.Session) error {
	l := r.loop
	l.mu.Lock()
	started := r.queue.hooks != nil
	l.mu.Unlock()
	if started {
		return nil
	}
	resolved, c, err := l.sessionConfig(ctx, session)
	if err != nil {
		return err
	}
	hooks := &v1alpha1.SessionHooks{End: resolved.EndHooks}
	if resolved.HasSessionHooks() {
		if hooks.Start, err = l.Steps.StartSession(ctx, session, c); err != nil {
			return err
		}
		now := metav1.NewTime(l.Clock.Now())
		hooks.StartedAt = &now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.queue.hooks = hooks
	return nil
}

// Hooks shows the hooks at the start and at the end of a Session, as its status does; nil before its first Turn.
func (l *Loop) Hooks(session string) *v1alpha1.SessionHooks {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.sessions[session]; q != nil {
		return q.hooks.DeepCopy()
	}
	return nil
}

// EndSession ends a Session, as its deletion does: it accepts no Turn any more, its Turns are cancelled, and then the
// hooks at its end run. It returns the outcomes of those that did not allow. The hooks of a Session that has had no
// Turn do not run. Ending it again does nothing.
func (l *Loop) EndSession(ctx context.Context, name string) ([]v1alpha1.HookOutcome, error) {
	session := l.Objects.Session(name)
	if session == nil {
		return nil, fmt.Errorf("session not found: %q", name)
	}
	l.mu.Lock()
	q := l.queueOf(name)
	ended, open, hooks := q.ended, q.open(), q.hooks
	q.ended = true
	l.mu.Unlock()
	if ended {
		return nil, nil
	}
	for _, r := range open {
		l.cancel(r)
	}
	for _, r := range open {
		r.awaitEnd(ctx, l.life.Done())
	}
	l.tasks.Lock()
	l.stopTasks(background.Session{Namespace: session.Namespace, Name: name, UID: session.UID})
	l.tasks.Unlock()
	pinned, c, err := l.pinnedEnd(ctx, session, hooks)
	if err != nil || len(pinned) == 0 {
		return nil, err
	}
	outcomes, err := l.Steps.EndSession(ctx, session, c, pinned)
	if err != nil && l.life.Err() != nil {
		return nil, ErrStopped
	}
	return outcomes, err
}

// pinnedEnd returns the hooks that run at the end of a Session, with its configuration. Those of a Session that another
// process has started are the current ones.
func (l *Loop) pinnedEnd(
	ctx context.Context, session *v1alpha1.Session, hooks *v1alpha1.SessionHooks,
) ([]v1alpha1.PinnedHook, turnstate.Config, error) {
	resolved, c, err := l.sessionConfig(ctx, session)
	if err != nil {
		return nil, c, err
	}
	if hooks != nil {
		return resolved.Remaining(hooks.End), c, nil
	}
	view, err := l.Steps.Log.View(ctx, turnstate.JournalOf(session), 0)
	if err != nil || view.Head == 0 {
		return nil, c, err
	}
	return resolved.EndHooks, c, nil
}

// sessionConfig returns the current configuration of a Session, as its hooks run with it.
func (l *Loop) sessionConfig(
	ctx context.Context, session *v1alpha1.Session,
) (*config.Resolved, turnstate.Config, error) {
	resolved, err := config.Resolve(ctx, l.Objects, session)
	if err != nil {
		return nil, turnstate.Config{}, fmt.Errorf("resolving the configuration of Session %s: %w", session.Name, err)
	}
	return resolved, turnstate.Config{
		Hooks: resolved.Hooks, Effective: resolved.Effective, Texts: l.Objects.Texts(),
	}, nil
}
