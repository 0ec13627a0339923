package inprocess_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
)

const realModel = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: real, annotations: {capstan.dev/is-default-model: "true"}}
spec: {provider: Anthropic, model: opus, secretKeyRef: {name: key, key: token}}
`

func TestAFunctionAnswersForAProvider(t *testing.T) {
	var asked []inprocess.Request
	runtime := start(
		t,
		inprocess.WithYAML(realModel),
		inprocess.WithPrompts(func(r inprocess.Request) { asked = append(asked, r) }),
		inprocess.WithAnswer(
			v1alpha1.ModelProviderAnthropic,
			func(_ context.Context, m *v1alpha1.Model, r inprocess.Request) (*inprocess.Response, error) {
				if r.Iteration > 1 {
					return &inprocess.Response{Text: m.Name + " has read: " + r.Messages[len(r.Messages)-1].PlainText()}, nil
				}
				return &inprocess.Response{
					ToolCalls: []inprocess.ModelToolCall{{ProviderID: "a", Name: "look", Arguments: "{}"}},
				}, nil
			},
		),
		inprocess.WithTools(returns("the sky")),
	)
	turn := run(t, runtime, message("demo-1", "Go."))
	if !strings.Contains(turn.Status.Output, "real has read: ") || !strings.Contains(turn.Status.Output, "the sky") {
		t.Errorf("the answer is %q", turn.Status.Output)
	}
	if len(asked) != 2 || asked[0].Model != "opus" || asked[0].Locale != "de-CH" ||
		!strings.HasPrefix(asked[0].SystemPrompt, "Be brief.") ||
		len(asked[0].Tools) != 4 {
		t.Errorf("requests %+v", asked)
	}
}

func TestAFunctionThatFailsOrPanicsFailsTheTurn(t *testing.T) {
	for name, test := range map[string]struct {
		answer inprocess.Answer
		reason string
	}{
		"an error": {func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
			return nil, fmt.Errorf(
				"asking: %w", &inprocess.ModelError{Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "out of order"},
			)
		}, "False ProviderUnavailable"},
		"a panic": {
			func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) { panic("no") },
			"False ProcessingError",
		},
		"no answer": {func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
			return nil, nil
		}, "False ProcessingError"},
		"an overrun": {func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
			return nil, &inprocess.ModelError{Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "too long"}
		}, "False RequestTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := start(
				t,
				inprocess.WithYAML(realModel),
				inprocess.WithAnswer(v1alpha1.ModelProviderAnthropic, test.answer),
			)
			if turn := run(t, runtime, message("demo-1", "Go.")); reason(turn) != test.reason {
				t.Errorf("the Turn ended with %s, want %s", reason(turn), test.reason)
			}
		})
	}
}

// Rules: RT-03, VEC-26.
func TestASimulationReplacesNoDefaultModel(t *testing.T) {
	explicit := []inprocess.Option{inprocess.WithYAML(realModel), inprocess.WithAnswer(v1alpha1.ModelProviderAnthropic,
		func(_ context.Context, m *v1alpha1.Model, _ inprocess.Request) (*inprocess.Response, error) {
			return &inprocess.Response{Text: "from " + m.Name}, nil
		})}
	simulation := inprocess.WithSimulation(calling())
	for name, options := range map[string][]inprocess.Option{
		"before it": append([]inprocess.Option{simulation}, explicit...), "after it": append(explicit, simulation),
	} {
		runtime := start(t, options...)
		if turn := run(t, runtime, message("demo-1", "Go.")); turn.Status.Output != "from real" {
			t.Errorf("%s, the Turn is %+v", name, turn.Status)
		}
		simulated := message("demo-2", "Go.")
		simulated.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "simulated"}}
		if turn := run(t, runtime, simulated); turn.Status.Output != "Done." {
			t.Errorf("%s, a Turn with the simulated Model is %+v", name, turn.Status)
		}
	}
}

// Rules: INSPECT-01, RT-04, VEC-27.
func TestLoadContext(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"look"})), inprocess.WithTools(returns("the sky")))
	if runtime.DefaultSession() != "demo" {
		t.Errorf("the default Session is %q", runtime.DefaultSession())
	}
	before, err := runtime.LoadContext(t.Context(), "")
	if err != nil || len(before.Messages) != 0 || len(before.Chain) != 1 || before.Agent != nil ||
		before.ModelName != "simulated" ||
		before.Locale != "de-CH" ||
		len(before.Tools) != 4 ||
		before.Effective.MaxIterations != 500 ||
		!strings.Contains(before.SystemPrompt, "Be brief.") ||
		!strings.Contains(before.SystemPrompt, "de-CH") {
		t.Errorf("before the first message: %+v, %v", before, err)
	}
	if _, err := runtime.RunText(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "input") {
		t.Errorf("a Turn without a message: %v", err)
	}
	run(t, runtime, message("demo-1", "Go."))
	after, err := runtime.LoadContext(t.Context(), "demo")
	if err != nil || len(after.Messages) != 4 || after.SystemPrompt != before.SystemPrompt ||
		!strings.Contains(after.Messages[2].PlainText(), "the sky") {
		t.Errorf("after it: %+v, %v", after, err)
	}
	if _, err := runtime.LoadContext(
		t.Context(),
		"other",
	); err == nil ||
		!strings.Contains(err.Error(), "session not found") {
		t.Errorf("another Session: %v", err)
	}
}

// Rules: RT-07.
func TestObjectsChangeWhileTurnsRun(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"ask"})))
	run(t, runtime, message("demo-1", "Go."))
	found, err := runtime.LoadContext(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	found.Chain[0].Spec.Lifecycle = v1alpha1.LifecycleArchived
	if err := runtime.Apply(found.Chain[0]); err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Await(t.Context(), "demo-1")
	if err == nil && turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults {
		turn = await(
			t,
			runtime,
			"demo-1",
			func(turn *v1alpha1.Turn) bool { return turn.Status.Phase == v1alpha1.TurnPhaseFailed },
		)
	}
	if reason(turn) != "False DependencyUnavailable" {
		t.Errorf("the Turn ended as %+v, %v", turn.Status, err)
	}
	moved := found.Session.DeepCopy()
	moved.Spec.HarnessRef.Name = "other"
	if err := runtime.Apply(moved); err == nil || !strings.Contains(err.Error(), "harnessRef") {
		t.Errorf("another Harness: %v", err)
	}
}

func TestTurnsOfTheManifestsCanBeRun(t *testing.T) {
	turn := message("demo-1", "Hello.")
	runtime := start(t, inprocess.WithSimulation(calling()), inprocess.WithObjects(turn))
	given := runtime.Turn("demo-1")
	if given == nil || given.Status.Phase != v1alpha1.TurnPhaseQueued {
		t.Fatalf("the Turn is %+v", given)
	}
	if ended := run(
		t,
		runtime,
		given,
	); reason(ended) != "True EndTurn" ||
		reason(runtime.Turn("demo-1")) != "True EndTurn" {
		t.Errorf("the Turn ended with %s", reason(ended))
	}
	if text, err := runtime.RunText(t.Context(), "", "Again."); err != nil || text.Status.Output != "Done." {
		t.Errorf("a text: %+v, %v", text, err)
	}
	if runtime.Turn("demo-2") != nil {
		t.Error("there is a Turn that was not submitted")
	}
}

func TestARealModelNeedsADriver(t *testing.T) {
	keyed := []inprocess.Option{
		inprocess.WithYAML(base), inprocess.WithYAML(realModel), inprocess.WithSecret("key", map[string]string{"token": "x"}),
	}
	_, err := inprocess.New(t.Context(), keyed...)
	if err == nil || !strings.Contains(err.Error(), `no driver for provider "Anthropic"`) ||
		!strings.Contains(err.Error(), "capstantest/providers") {
		t.Errorf("without drivers: %v", err)
	}
	if _, err = inprocess.New(t.Context(), append(keyed, inprocess.WithProviders(providers.All()))...); err != nil {
		t.Errorf("with drivers: %v", err)
	}
	if _, err = inprocess.New(t.Context(), append(keyed, inprocess.WithProviders(nil))...); err == nil {
		t.Error("WithProviders accepts nil")
	}
}

func TestAFunctionTakesPrecedenceOverADriver(t *testing.T) {
	function := inprocess.WithAnswer(v1alpha1.ModelProviderAnthropic,
		func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
			return &inprocess.Response{Text: "from the function"}, nil
		})
	drivers := inprocess.WithProviders(providers.All())
	for name, options := range map[string][]inprocess.Option{
		"first": {function, drivers}, "last": {drivers, function},
	} {
		runtime := start(t, append(options, inprocess.WithYAML(realModel))...)
		if turn := run(t, runtime, message("demo-1", "Go.")); turn.Status.Output != "from the function" {
			t.Errorf("with the function %s, the Turn is %+v", name, turn.Status)
		}
	}
}
