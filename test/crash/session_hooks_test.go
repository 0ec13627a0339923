package crash_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// lively are conversations beside which another Session starts and is deleted, with hooks at both (HOOK-01).
var lively = []scenario{{
	name:       "hooks at the start and the end of another Session",
	simulation: builder.Script("Hello to you too."),
	drive:      startAndDelete,
	respond:    func(context.Context, *run, string) string { return "" },
}}

// livelyName is the name of the other Session.
const livelyName = "lively"

// newLively is a Session with hooks. What the script at its start comes to is something else each time.
func (r *run) newLively() *v1alpha1.Session {
	session := builder.Session(livelyName).In(r.namespace).Obj()
	webhook := func(name string, event v1alpha1.HookEvent) v1alpha1.Hook {
		url := web.URL + "/" + r.namespace + "/" + name
		return v1alpha1.Hook{Name: name, Event: event, Webhook: &v1alpha1.WebhookHook{URL: url}}
	}
	session.Spec.Hooks = []v1alpha1.Hook{
		webhook("hello", v1alpha1.HookEventSessionStart),
		{
			Name: "random", Event: v1alpha1.HookEventSessionStart,
			Bash: &v1alpha1.BashHook{Command: "echo $RANDOM-$RANDOM >&2; exit 1"},
		},
		webhook("bye", v1alpha1.HookEventSessionEnd),
	}
	return session
}

// startAndDelete lets the other Session start, and deletes it.
func startAndDelete(ctx context.Context, r *run) error {
	session := r.newLively()
	if err := r.user.Create(ctx, session); err != nil {
		return err
	}
	if err := r.await(ctx, func() error { return r.hasStarted(session) }); err != nil {
		return err
	}
	if err := r.user.Delete(ctx, session.DeepCopy()); err != nil {
		return err
	}
	if err := r.await(ctx, func() error {
		if newest(r.seen.snapshot(r.namespace).sessions, livelyName) != nil {
			return errors.New("the deleted Session is still there")
		}
		return nil
	}); err != nil {
		return err
	}
	if r.hookRuns(session, "session_start", "hello") == 0 || r.hookRuns(session, "session_end", "bye") == 0 {
		return hopeless{errors.New("a hook has not run")}
	}
	return r.isRecordedOnce()
}

// hookRuns is how often a webhook of a Session was called.
func (r *run) hookRuns(session *v1alpha1.Session, event, name string) int {
	return web.started(r.namespace, fmt.Sprintf("%s/0/%s//session:%s", session.UID, event, name))
}

// hasStarted reports whether the other Session can have Turns: its hooks at the end are pinned, its finalizer is there,
// and its hooks at the start have run.
func (r *run) hasStarted(session *v1alpha1.Session) error {
	now := newest(r.seen.snapshot(r.namespace).sessions, livelyName)
	if now == nil || now.Status.Phase != v1alpha1.SessionPhaseStarted {
		return errors.New("the other Session has not started")
	}
	hooks := now.Status.Hooks
	if hooks == nil || hooks.StartedAt == nil || len(hooks.Start) != 1 || len(hooks.End) != 1 ||
		len(now.Finalizers) != 1 || r.hookRuns(session, "session_start", "hello") == 0 {
		return hopeless{fmt.Errorf("the other Session has started with %v, %+v", now.Finalizers, hooks)}
	}
	if r.hookRuns(session, "session_end", "bye") > 0 {
		return hopeless{errors.New("the hook at the end has run at the start")}
	}
	return nil
}

// isRecordedOnce checks that an outcome in the status of the other Session was never replaced.
func (r *run) isRecordedOnce() error {
	first := ""
	for _, at := range r.seen.snapshot(r.namespace).sessions {
		hooks := at.object.Status.Hooks
		if at.object.Name != livelyName || hooks == nil || hooks.StartedAt == nil {
			continue
		}
		outcome := fmt.Sprint(hooks.StartedAt.Unix(), hooks.Start)
		if first == "" {
			first = outcome
		}
		if outcome != first {
			return hopeless{fmt.Errorf("the outcome %s was replaced by %s", first, outcome)}
		}
	}
	return nil
}
