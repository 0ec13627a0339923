package inprocess_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// One function serves both.
var _ capstantest.JobRunner = inprocess.JobRunner(nil)

// Rules: EVT-05, MSG-04, RT-04, SM-05, VEC-26.
func TestATurnWithoutTools(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling()))
	turn := run(t, runtime, message("demo-1", "Hello."))
	if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded || reason(turn) != "True EndTurn" ||
		turn.Status.Output != "Done." ||
		turn.Status.SessionUID == "" {
		t.Errorf("the Turn ended as %+v", turn.Status)
	}
	messages, err := runtime.Messages(t.Context(), "")
	if err != nil || len(messages) != 2 || messages[0].PlainText() != "Hello." || messages[1].PlainText() != "Done." {
		t.Errorf("the messages are %+v, %v", messages, err)
	}
	events, err := runtime.Events(t.Context(), "demo")
	if err != nil || len(events) == 0 || events[0].Type != "input.message" ||
		events[len(events)-1].Type != "session.idled" {
		t.Errorf("the events are %+v, %v", events, err)
	}
}

// Rules: SM-07.
func TestToolsAreAnsweredByFunctions(t *testing.T) {
	var got inprocess.Call
	runtime := start(t, inprocess.WithSimulation(calling([]string{"look", "pay"})),
		inprocess.WithTool("pay", func(call inprocess.Call) (string, string, int) {
			got = call
			return "", "no money", 3
		}),
		inprocess.WithTools(returns("seen")))
	turn := run(t, runtime, message("demo-1", "Go."))
	if reason(turn) != "True EndTurn" || turn.Status.Summary.Calls != "2/2, 1 failed" {
		t.Fatalf("the Turn ended as %+v", turn.Status)
	}
	if got.Turn != "demo-1" || got.Session != "demo" || got.Tool != "pay" || got.ID != "1-1" || got.Attempt != 1 ||
		got.Namespace != "default" ||
		got.Locale != "de-CH" ||
		len(got.IdempotencyKey) != 64 ||
		got.Arguments != "{}" ||
		got.Command[0] != "/pay" ||
		got.Context == nil {
		t.Errorf("the call is %+v", got)
	}
	look, pay := turn.Status.ToolCalls[0], turn.Status.ToolCalls[1]
	if look.State != v1alpha1.ToolCallStateSucceeded || look.Preview != "seen" {
		t.Errorf("look: %+v", look)
	}
	if pay.State != v1alpha1.ToolCallStateFailed || pay.Reason != v1alpha1.ToolCallReasonExitCode ||
		!strings.Contains(pay.Preview, "exit code 3") {
		t.Errorf("pay: %+v", pay)
	}
}

// Rules: TOOL-19.
func TestALongResultIsCut(t *testing.T) {
	runtime := start(
		t,
		inprocess.WithSimulation(calling([]string{"look"})),
		inprocess.WithTools(returns(strings.Repeat("x", 70_000))),
	)
	run(t, runtime, message("demo-1", "Go."))
	messages, err := runtime.Messages(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if text := m.PlainText(); len(text) > 64*1024 {
			t.Errorf("a message has %d bytes", len(text))
		}
	}
}

// Rules: RT-01, RT-02, RT-03, VEC-26.
func TestWhatKeepsARuntimeFromBeingBuilt(t *testing.T) {
	model := `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: some, annotations: {capstan.dev/is-default-model: "true"}}
spec: {provider: Simulated, simulation: {response: {type: Fixed, text: Hi.}}}
`
	for name, test := range map[string]struct {
		options []inprocess.Option
		message string
	}{
		"no model":        {[]inprocess.Option{inprocess.WithYAML(base)}, "WithSimulation"},
		"no model at all": {nil, "capstan.dev/is-default-model"},
		"an unknown field": {
			[]inprocess.Option{inprocess.WithYAML(strings.Replace(base, "systemPrompt:", "prompt:", 1))},
			`unknown field "prompt"`,
		},
		"an unknown kind": {
			[]inprocess.Option{inprocess.WithYAML("{apiVersion: apps/v1, kind: Deployment}")}, "capstantest",
		},
		"a broken document": {[]inprocess.Option{inprocess.WithYAML("a: b: c")}, "document 1"},
		"against the schema": {
			[]inprocess.Option{inprocess.WithYAML(strings.Replace(base, "sideEffect: Pure", "sideEffect: None", 1))},
			"spec.sideEffect",
		},
		"an invalid Tool": {
			[]inprocess.Option{inprocess.WithYAML(model + "---" + base), inprocess.WithTool("lok", returns(""))},
			`Tool "lok" with a job does not exist`,
		},
		"a client's Tool": {
			[]inprocess.Option{inprocess.WithYAML(model + "---" + base), inprocess.WithTool("ask", returns(""))}, "with a job",
		},
		"a missing Harness": {
			[]inprocess.Option{
				inprocess.WithYAML(
					model + "---" + strings.Replace(base, "harnessRef: {name: base}", "harnessRef: {name: other}", 1),
				),
			},
			`Harness "other" does not exist`,
		},
		"a default Session": {
			[]inprocess.Option{inprocess.WithYAML(model + "---" + base), inprocess.WithDefaultSession("other")},
			`Session "other" does not exist`,
		},
		"an empty directory": {[]inprocess.Option{inprocess.WithManifests(fstest.MapFS{})}, "no manifests"},
		"a file": {
			[]inprocess.Option{inprocess.WithManifests(fstest.MapFS{"x.yaml": {Data: []byte("kind: 1")}})}, "x.yaml: document 1",
		},
		"a ToolResult":       {[]inprocess.Option{inprocess.WithObjects(&v1alpha1.ToolResult{})}, "Answer"},
		"no function":        {[]inprocess.Option{inprocess.WithTool("look", nil)}, "WithTool"},
		"no functions":       {[]inprocess.Option{inprocess.WithTools(nil)}, "WithTools"},
		"no prompt function": {[]inprocess.Option{inprocess.WithPrompts(nil)}, "WithPrompts"},
		"no namespace":       {[]inprocess.Option{inprocess.WithNamespace("")}, "WithNamespace"},
		"a nameless Secret":  {[]inprocess.Option{inprocess.WithSecret("", nil)}, "the Secret has no name"},
		"no clock":           {[]inprocess.Option{inprocess.WithClock(nil)}, "WithClock"},
		"no Store":           {[]inprocess.Option{inprocess.WithStore(nil)}, "WithStore"},
		"no answer":          {[]inprocess.Option{inprocess.WithAnswer(v1alpha1.ModelProviderOpenAI, nil)}, "WithAnswer"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := inprocess.New(
				t.Context(),
				test.options...); err == nil ||
				!strings.Contains(err.Error(), test.message) {
				t.Errorf("New = %v, want an error with %q", err, test.message)
			}
		})
	}
}
