package inprocess_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// pricedModel is a Model that costs 1 USD for a million tokens that it reads and 10,000 for a million that it writes,
// of which it writes 100 at most: its worst case is a little more than a dollar.
const pricedModel = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: real, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Anthropic
  model: opus
  secretKeyRef: {name: key, key: token}
  parameters: {maxOutputTokens: 100}
  price: {currency: USD, inputPerMillionTokens: "1", outputPerMillionTokens: "10000"}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo, labels: {team: support}}
spec: {harnessRef: {name: base}}
`

// spending is a Runtime under a Budget whose model bills 50 cents for each call.
func spending(t *testing.T, c *clock.Clock, b *v1alpha1.Budget) (*inprocess.Runtime, *atomic.Int32) {
	t.Helper()
	calls := &atomic.Int32{}
	return start(
		t,
		inprocess.WithClock(c),
		inprocess.WithYAML(pricedModel),
		inprocess.WithObjects(b),
		inprocess.WithAnswer(
			v1alpha1.ModelProviderAnthropic,
			func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
				calls.Add(1)
				return &inprocess.Response{Text: "Hello.", Usage: inprocess.ModelUsage{OutputTokens: 50}}, nil
			}),
	), calls
}

// budgetWait is the reason for which a Turn waits for a Budget.
func budgetWait(turn *v1alpha1.Turn) string {
	if len(turn.Status.WaitsFor) != 1 || turn.Status.WaitsFor[0].Type != v1alpha1.WaitTypeBudget {
		return ""
	}
	return turn.Status.WaitsFor[0].Reason
}

// sample is the Budget of the document.
func sample(t *testing.T) *v1alpha1.Budget {
	t.Helper()
	page, err := os.ReadFile("../../docs/budgets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	b := &v1alpha1.Budget{}
	if err := yaml.UnmarshalStrict([]byte(text), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Rules: BUDGET-03, LIFE-08.
func TestATurnWaitsForABudgetInProcess(t *testing.T) {
	runtime, calls := spending(t, &clock.Clock{}, builder.Budget("team", "1.5").Obj())
	if turn := run(t, runtime, message("one", "Hi")); reason(turn) != "True EndTurn" {
		t.Fatalf("the first Turn ended as %+v", turn.Status)
	}
	turn := run(t, runtime, message("two", "Hi"))
	if budgetWait(turn) != v1alpha1.ReasonBudgetExhausted || calls.Load() != 1 {
		t.Fatalf("the second Turn is %+v, after %d calls", turn.Status, calls.Load())
	}
	if err := runtime.Apply(builder.Budget("team", "3").Obj()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for reason(turn) != "True EndTurn" {
		var err error
		if turn, err = runtime.Await(ctx, "two"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := runtime.Budget(ctx, "team")
	if err != nil || b.Status.Spent != "1" || len(b.Status.Reservations) > 0 {
		t.Errorf("the Budget is %+v, %v", b, err)
	}
}

// Rules: SM-09.
func TestABudgetEndsATurnInProcess(t *testing.T) {
	runtime, calls := spending(t, &clock.Clock{}, builder.Budget("team", "0.5").Ends().Obj())
	turn := run(t, runtime, message("one", "Hi"))
	if reason(turn) != "False BudgetExhausted" || calls.Load() != 0 ||
		turn.Status.Error.Fields[v1alpha1.ErrorFieldBudget] != "team" {
		t.Errorf("the Turn ended as %+v, after %d calls", turn.Status, calls.Load())
	}
}

// An attempt that has failed counts, and is not repeated, when a Budget has no room for the next one.
func TestACallThatWaitsForABudgetBetweenItsTriesContinuesInProcess(t *testing.T) {
	calls := &atomic.Int32{}
	runtime := start(t, inprocess.WithYAML(pricedModel), inprocess.WithObjects(builder.Budget("team", "1.5").Obj()),
		inprocess.WithoutPauses(), inprocess.WithAnswer(v1alpha1.ModelProviderAnthropic,
			func(context.Context, *v1alpha1.Model, inprocess.Request) (*inprocess.Response, error) {
				if calls.Add(1) == 1 {
					return nil, provider.StatusError("Anthropic", "opus", 500, 0, "")
				}
				return &inprocess.Response{Text: "Hello.", Usage: inprocess.ModelUsage{OutputTokens: 50}}, nil
			}))
	turn := run(t, runtime, message("one", "Hi"))
	if budgetWait(turn) == "" || calls.Load() != 1 {
		t.Fatalf("the Turn is %+v, after %d calls", turn.Status, calls.Load())
	}
	if err := runtime.Apply(builder.Budget("team", "5").Obj()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for reason(turn) != "True EndTurn" {
		var err error
		if turn, err = runtime.Await(ctx, "one"); err != nil {
			t.Fatal(err)
		}
	}
	events, err := runtime.Events(ctx, "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type != event.TypeLLMGeneration {
			continue
		}
		if call, err := event.Decode[event.LLMGeneration](e); err != nil || call.Tries != 2 {
			t.Errorf("the response came in try %d: %v", call.Tries, err)
		}
	}
}

func TestTheBudgetOfTheDocument(t *testing.T) {
	runtime, _ := spending(t, &clock.Clock{}, builder.Budget("other", "9").Labelled("team", "sales").Obj())
	if err := runtime.Apply(sample(t)); err != nil {
		t.Fatal(err)
	}
	run(t, runtime, message("one", "Hi"))
	for name, want := range map[string]string{"support": "0.5", "other": "0"} {
		b, err := runtime.Budget(t.Context(), name)
		if spent := b.Status.Spent; err != nil || spent != want && (want != "0" || spent != "") {
			t.Errorf("Budget %s is %+v, %v", name, b, err)
		}
	}
}
