package inprocess_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// inherited is a Session whose Harness inherits from base, with an Agent.
const inherited = realModel + `
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: sum}
spec: {description: Sums., sideEffect: Pure, job: {image: i, command: [/sum]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: leaf}
spec: {parentRef: {name: base}, systemPrompt: Be kind., tools: [{name: sum}, {name: look}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {systemPrompt: Help.}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: heir}
spec: {harnessRef: {name: leaf}, agentRef: {name: helper}, systemPrompt: In German.}
`

// Rules: RT-02.
func TestATurnOnAnInheritedHarnessRunsWithAllLayersInOrder(t *testing.T) {
	var asked []inprocess.Request
	runtime := start(
		t,
		inprocess.WithYAML(inherited),
		inprocess.WithPrompts(func(r inprocess.Request) { asked = append(asked, r) }),
		inprocess.WithAnswer(
			v1alpha1.ModelProviderAnthropic,
			func(_ context.Context, _ *v1alpha1.Model, r inprocess.Request) (*inprocess.Response, error) {
				if r.Iteration > 1 {
					return &inprocess.Response{Text: r.Messages[len(r.Messages)-1].PlainText()}, nil
				}
				return &inprocess.Response{
					ToolCalls: []inprocess.ModelToolCall{{ProviderID: "a", Name: "pay", Arguments: "{}"}},
				}, nil
			},
		),
		inprocess.WithTools(returns("a tool of the parent")),
	)
	turn := message("demo-1", "Go.")
	turn.Spec.SessionRef.Name = "heir"
	if ended := run(
		t,
		runtime,
		turn,
	); reason(ended) != "True EndTurn" ||
		!strings.Contains(ended.Status.Output, "a tool of the parent") {
		t.Fatalf("the Turn ended as %+v", ended.Status)
	}
	if len(asked) != 2 {
		t.Fatalf("the model was called %d times", len(asked))
	}
	for _, r := range asked {
		var tools []string
		for _, definition := range r.Tools {
			tools = append(tools, definition.Name)
		}
		if got := strings.Join(
			tools,
			" ",
		); got != "look pay guarded ask sum" ||
			!strings.HasPrefix(r.SystemPrompt, "Be brief.\n\nBe kind.\n\nHelp.\n\nIn German.") {
			t.Errorf("the model is given the tools %s and the prompt %q", got, r.SystemPrompt)
		}
	}
}
