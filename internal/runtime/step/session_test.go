package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// Rules: HOOK-08, HOOK-15.
func TestTheHooksOfASessionRunAtTheirEventAlone(t *testing.T) {
	b := newBench(t)
	d := b.deciding()
	session := &v1alpha1.Session{}
	session.Namespace, session.Name, session.UID = "ns", "demo", "s1"
	session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "helper"}
	blocks := `{"decision":"block","reason":"no"}`
	var all []hook.Spec
	for _, event := range hook.Events() {
		all = append(all, spec(event, blocks))
	}
	c := withHooks(with(), all...)
	outcomes, err := b.StartSession(t.Context(), session, c)
	want := []v1alpha1.HookOutcome{{ID: "session:h", Decision: v1alpha1.HookDecisionBlock, Reason: "no"}}
	if err != nil || !slices.Equal(outcomes, want) || len(d.ran) != 1 ||
		!strings.Contains(d.ran[0], `"event":"session_start"`) || !strings.Contains(d.ran[0], `"agent_id":"helper"`) {
		t.Fatalf("ran %q with %+v, %v", d.ran, outcomes, err)
	}
	pinned := []v1alpha1.PinnedHook{{ID: "harness/base:bye", Hook: v1alpha1.Hook{
		Name: "bye", Event: v1alpha1.HookEventSessionEnd, CEL: &v1alpha1.CELHook{Expression: blocks},
	}}}
	want[0].ID = "harness/base:bye"
	outcomes, err = b.EndSession(t.Context(), session, c, pinned)
	if err != nil || !slices.Equal(outcomes, want) || len(d.ran) != 2 ||
		!strings.Contains(d.ran[1], `"hook_id":"harness/base:bye"`) ||
		!strings.Contains(d.ran[1], `"data":{"reason":"deleted"}`) {
		t.Errorf("ran %q with %+v, %v", d.ran, outcomes, err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.StartSession(cut, session, c); !errors.Is(err, context.Canceled) || len(d.ran) != 2 {
		t.Errorf("a process that ends runs %q, %v", d.ran, err)
	}
}

func TestTheOutcomesInTheStatusOfASessionAreBounded(t *testing.T) {
	records := []hook.Record{{Hook: "allowed", Decision: hook.Allow}}
	for range 2 * maxShownOutcomes {
		records = append(records, hook.Record{Hook: "h", Decision: hook.Failed, Reason: strings.Repeat("ä", 1000)})
	}
	outcomes := shownOutcomes(records)
	if len(outcomes) != maxShownOutcomes {
		t.Fatalf("%d outcomes", len(outcomes))
	}
	for _, o := range outcomes {
		if o.ID != "h" || o.Decision != v1alpha1.HookDecisionError || len(o.Reason) > maxShownReason {
			t.Errorf("shown is %+v", o)
		}
	}
}
