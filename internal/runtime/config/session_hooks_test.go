package config

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// sessionHook is a hook with an expression.
func sessionHook(name string, event v1alpha1.HookEvent, expression string) v1alpha1.Hook {
	return v1alpha1.Hook{Name: name, Event: event, CEL: &v1alpha1.CELHook{Expression: expression}}
}

// folded are layers whose hooks were folded.
func folded(t *testing.T, layers ...layered) *Resolved {
	t.Helper()
	r := &Resolved{Harness: &v1alpha1.Harness{}}
	if err := r.fold(context.Background(), namespaced{}, "ns", layers); err != nil {
		t.Fatal(err)
	}
	return r
}

// ids are those of pinned hooks.
func ids(pinned []v1alpha1.PinnedHook) string {
	var all []string
	for _, p := range pinned {
		all = append(all, p.ID)
	}
	return strings.Join(all, " ")
}

// Rules: HOOK-04, HOOK-05, HOOK-06, HOOK-07.
func TestTheHooksAtTheEndOfASessionArePinned(t *testing.T) {
	harness := layered{hook.HarnessLayer("base"), v1alpha1.ConfigLayer{
		Hooks: []v1alpha1.Hook{
			sessionHook("guard", v1alpha1.HookEventPreToolUse, "true"),
			sessionHook("bye", v1alpha1.HookEventSessionEnd, "'harness'"),
			sessionHook("muted", v1alpha1.HookEventSessionEnd, "true"),
		},
		DisabledHooks: []string{"harness/base:muted"},
	}}
	session := layered{hook.SessionLayer, v1alpha1.ConfigLayer{Hooks: []v1alpha1.Hook{
		sessionHook("bye", v1alpha1.HookEventSessionEnd, "'session'"),
	}}}
	r := folded(t, harness, session)
	if got := ids(r.EndHooks); got != "harness/base:bye session:bye" || !r.HasSessionHooks() {
		t.Fatalf("pinned are %q", got)
	}
	for i, spec := range Pinned(r.EndHooks) {
		if want := fmt.Sprintf("'%s'", []string{"harness", "session"}[i]); spec.CEL.Expression != want ||
			spec.ID != r.EndHooks[i].ID || spec.Event != hook.SessionEnd {
			t.Errorf("runs %+v", spec)
		}
	}
	if folded(t, layered{hook.SessionLayer, v1alpha1.ConfigLayer{}}).HasSessionHooks() {
		t.Error("a Session without hooks has some")
	}
	start := v1alpha1.ConfigLayer{Hooks: []v1alpha1.Hook{sessionHook("h", v1alpha1.HookEventSessionStart, "true")}}
	if r := folded(t, layered{hook.SessionLayer, start}); !r.HasSessionHooks() || len(r.EndHooks) != 0 {
		t.Errorf("with a hook at the start: %+v", r.EndHooks)
	}
}

// Rules: HOOK-07.
func TestAHookThatItsObjectHasNoMoreDoesNotRemain(t *testing.T) {
	layer := func(hooks ...v1alpha1.Hook) layered {
		return layered{hook.SessionLayer, v1alpha1.ConfigLayer{Hooks: hooks}}
	}
	bye := sessionHook("bye", v1alpha1.HookEventSessionEnd, "true")
	report := sessionHook("report", v1alpha1.HookEventSessionEnd, "true")
	pinned := folded(t, layer(bye, report)).EndHooks
	for name, test := range map[string]struct {
		change func(*Resolved)
		want   string
	}{
		"that exist":             {func(*Resolved) {}, "session:bye"},
		"without a Harness":      {func(r *Resolved) { r.Harness = nil }, "session:bye session:report"},
		"with a broken chain":    {func(r *Resolved) { r.ChainError = &ChainError{} }, "session:bye session:report"},
		"with a missing Agent":   {func(r *Resolved) { r.AgentName = "a" }, "session:bye session:report"},
		"with an existing Agent": {func(r *Resolved) { r.AgentName, r.Agent = "a", &v1alpha1.Agent{} }, "session:bye"},
		"with a missing Capability": {
			func(r *Resolved) { r.Effective.Capabilities = []capability.Use{{ID: capability.ObjectID("gone")}} },
			"session:bye session:report",
		},
		"with an archived Harness": {
			func(r *Resolved) { r.Harness.Spec.Lifecycle = v1alpha1.LifecycleArchived }, "session:bye",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bye
			changed.CEL = &v1alpha1.CELHook{Expression: "false"}
			r := folded(t, layer(changed))
			test.change(r)
			remaining := r.Remaining(pinned)
			if got := ids(remaining); got != test.want || remaining[0].Hook.CEL.Expression != "true" {
				t.Errorf("%s remain, the first with %s", got, remaining[0].Hook.CEL.Expression)
			}
		})
	}
}

func TestHooksAtTheEndOfASessionThatCannotBeKeptAreAProblem(t *testing.T) {
	var many, long []layered
	for i := range MaxEndHooks + 1 {
		many = append(many, layered{hook.HarnessLayer(fmt.Sprint("h", i)), v1alpha1.ConfigLayer{
			Hooks: []v1alpha1.Hook{sessionHook("bye", v1alpha1.HookEventSessionEnd, "true")},
		}})
	}
	script := sessionHook("bye", v1alpha1.HookEventSessionEnd, "")
	script.CEL, script.Bash = nil, &v1alpha1.BashHook{Command: "# " + strings.Repeat("a", MaxEndHookBytes/2)}
	for _, name := range []string{"a", "b"} {
		long = append(long, layered{hook.AgentLayer(name), v1alpha1.ConfigLayer{Hooks: []v1alpha1.Hook{script}}})
	}
	for name, test := range map[string]struct {
		layers []layered
		want   string
	}{
		"as many as are allowed": {many[1:], ""},
		"too many":               {many, "9 hooks at the event SessionEnd"},
		"a long one":             {long[1:], ""},
		"two long ones":          {long, "at most 16384 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := folded(t, test.layers...).hookProblem()
			if (reason != "") != (test.want != "") || !strings.Contains(message, test.want) {
				t.Errorf("the problem is %q: %s", reason, message)
			}
		})
	}
}
