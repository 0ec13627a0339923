package inprocess_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// base has one tool of each side effect, a client's and one that needs approval.
const base = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: look}
spec: {description: Looks., sideEffect: Pure, job: {image: i, command: [/look]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: pay}
spec: {description: Pays., job: {image: i, command: [/pay], timeout: 30s}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: guarded}
spec: {description: Pays with approval., policy: RequiresApproval, job: {image: i, command: [/pay]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: ask}
spec: {description: Asks., client: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec:
  systemPrompt: Be brief.
  tools: [{name: look}, {name: pay}, {name: guarded}, {name: ask}]
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, locale: de-CH}
`

// calling is a script that calls the tools of each step, one step after another, and then responds with their results.
func calling(steps ...[]string) v1alpha1.Simulation {
	script := v1alpha1.Simulation{
		Response:  &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: "Done."},
		ToolCalls: &v1alpha1.SimulatedToolCalls{},
	}
	for _, step := range steps {
		var calls []v1alpha1.SimulatedToolCall
		for _, name := range step {
			calls = append(calls, v1alpha1.SimulatedToolCall{Name: name})
		}
		script.ToolCalls.Sequence = append(script.ToolCalls.Sequence, v1alpha1.SimulatedStep{Calls: calls})
	}
	script.ToolCalls.Sequence = append(script.ToolCalls.Sequence, v1alpha1.SimulatedStep{})
	return script
}

// start builds a Runtime of base and the options.
func start(t testing.TB, options ...inprocess.Option) *inprocess.Runtime {
	t.Helper()
	return startIn(t.Context(), t, options...)
}

func startIn(ctx context.Context, t testing.TB, options ...inprocess.Option) *inprocess.Runtime {
	t.Helper()
	runtime, err := inprocess.New(ctx, append([]inprocess.Option{inprocess.WithYAML(base)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

// message is a Turn of the Session demo.
func message(name, text string) *v1alpha1.Turn {
	return &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: text},
	}
}

// run runs a Turn, which must give no error.
func run(t testing.TB, runtime *inprocess.Runtime, turn *v1alpha1.Turn) *v1alpha1.Turn {
	t.Helper()
	ended, err := runtime.RunTurn(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// reason is the reason of the Turn's condition Succeeded.
func reason(turn *v1alpha1.Turn) string {
	for _, c := range turn.Status.Conditions {
		if c.Type == v1alpha1.ConditionSucceeded {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "none"
}

func returns(text string) inprocess.JobRunner {
	return func(inprocess.Call) (string, string, int) { return text, "", 0 }
}
