package inprocess_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

const hinted = `
{apiVersion: capstan.dev/v1alpha1, kind: Tool, metadata: {name: guarded}, spec: {
  description: Deletes., displayName: Delete a database, hints: [Destructive, OpenWorld], policy: RequiresApproval,
  job: {image: i, command: [/delete]}}}
---
{apiVersion: capstan.dev/v1alpha1, kind: Tool, metadata: {name: ask}, spec: {
  description: Asks., displayName: Ask a person, hints: [ReadOnly], client: {}}}
`

// TestNamesAndHintsForPeople: they are in the events, and where the Turn waits for people, but not in what the model
// reads (TOOL-06, TOOL-08).
func TestNamesAndHintsForPeople(t *testing.T) {
	var prompts []inprocess.Request
	runtime := start(t, inprocess.WithYAML(hinted), inprocess.WithTools(returns("gone")),
		inprocess.WithPrompts(func(r inprocess.Request) { prompts = append(prompts, r) }),
		inprocess.WithSimulation(calling([]string{"guarded", "ask"})))
	turn := run(t, runtime, message("demo-1", "Go."))
	guarded, ask := turn.Status.ToolCalls[0], turn.Status.ToolCalls[1]
	if !slices.Equal(guarded.Hints, []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive, v1alpha1.ToolHintOpenWorld}) ||
		!slices.Equal(ask.Hints, []v1alpha1.ToolHint{v1alpha1.ToolHintReadOnly}) {
		t.Errorf("the calls that wait are %+v and %+v", guarded, ask)
	}
	if waits := waitsFor(turn); !strings.Contains(waits, "1-0 (guarded, destructive)") {
		t.Errorf("the Turn waits: %s", waits)
	}
	if _, err := runtime.Decide(t.Context(), "demo-1", "1-0", v1alpha1.DecisionApprove); err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Answer(t.Context(), "demo-1", "1-1", "Yes.")
	if err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("the Turn ended with %s, %v", reason(turn), err)
	}
	for _, call := range turn.Status.ToolCalls {
		if call.Hints != nil {
			t.Errorf("a call that has ended is %+v", call)
		}
	}
	events, err := runtime.Events(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	asked := decodeOne[event.ToolCallRequested](t, events, event.TypeToolCallRequested).ToolCalls
	if len(asked) != 1 || asked[0].DisplayName != "Ask a person" || !slices.Equal(asked[0].Hints, []string{"ReadOnly"}) {
		t.Errorf("the request is %+v", asked)
	}
	if began := decodeOne[event.ToolStarted](t, events, event.TypeToolStarted); began.DisplayName != "Delete a database" {
		t.Errorf("the start is %+v", began)
	}
	var names []string
	for _, e := range events {
		if e.Type == event.TypeToolCompleted {
			data, err := event.Decode[event.ToolCompleted](e)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, data.DisplayName)
		}
	}
	if !slices.Equal(names, []string{"Delete a database", "Ask a person"}) {
		t.Errorf("the ends have the names %q", names)
	}
	for _, prompt := range prompts {
		for _, offered := range prompt.Tools {
			if strings.Contains(offered.Description+string(offered.InputSchema), "a person") ||
				strings.Contains(offered.Description, "Destructive") {
				t.Errorf("the model is offered %+v", offered)
			}
		}
	}
}

// waitsFor is the message on what a Turn waits for.
func waitsFor(turn *v1alpha1.Turn) string {
	for _, c := range turn.Status.Conditions {
		if c.Type == v1alpha1.ConditionWaitingForToolResults {
			return c.Message
		}
	}
	return ""
}
