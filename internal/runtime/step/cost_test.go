package step

import (
	"reflect"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// priced gives a Model a price, in a currency.
func priced(m *v1alpha1.Model, currency string, input, output v1alpha1.Price) *v1alpha1.Model {
	m.Spec.Price = &v1alpha1.ModelPrice{Currency: currency, InputPerMillionTokens: input, OutputPerMillionTokens: output}
	return m
}

// expectCost compares the costs in a status.
func expectCost(t *testing.T, sum *v1alpha1.TurnSummary, unpriced int32, want ...v1alpha1.Cost) {
	t.Helper()
	if !reflect.DeepEqual(sum.Cost, want) || sum.UnpricedModelCalls != unpriced {
		t.Errorf("cost %+v and %d unpriced calls, want %+v and %d", sum.Cost, sum.UnpricedModelCalls, want, unpriced)
	}
}

func usd(amount string) v1alpha1.Cost { return v1alpha1.Cost{Currency: "USD", Amount: amount} }
func eur(amount string) v1alpha1.Cost { return v1alpha1.Cost{Currency: "EUR", Amount: amount} }

func TestACallCostsWhatTheModelThatHasAnsweredTakes(t *testing.T) {
	b := newBench(t)
	b.pausing()
	b.answer = func(r model.Request) (*model.Response, error) {
		if r.Model != "third" {
			return nil, unavailable()
		}
		return &model.Response{
			Text:  "Hello.",
			Usage: model.Usage{InputTokens: 30, CacheReadTokens: 20, CacheWriteTokens: 4, OutputTokens: 2},
		}, nil
	}
	c := with()
	priced(c.Model, "USD", "1000", "10000")
	third := priced(named("third"), "EUR", "0.5", "2.5")
	third.Spec.Price.CachedInputPerMillionTokens, third.Spec.Price.CacheWritePerMillionTokens = "0.05", "0.625"
	c.Fallbacks = []*v1alpha1.Model{
		priced(named("other"), "CHF", "1", "1"),
		third,
		priced(named("fourth"), "USD", "1", "1"),
	}
	turn, closed := b.reason(newTurn("demo-1"), c)
	want := eur("0.0000115")
	expectCost(t, turn.Progress.Summary, 0, want)
	all := generations(t, closed)
	if len(all) != 3 || all[0].Cost != nil || all[1].Cost != nil || all[2].Cost == nil || *all[2].Cost != want {
		t.Fatalf("the journal has %+v", all)
	}
	used := event.Usage{InputTokens: 30, OutputTokens: 2, TotalTokens: 32, CacheReadTokens: 20, CacheWriteTokens: 4}
	if u := *all[2].Usage; u != used {
		t.Errorf("the journal has %+v", u)
	}
}

func TestACallWithoutAKnownCostIsCountedAndNotGuessed(t *testing.T) {
	responding := func(u model.Usage) func(model.Request) (*model.Response, error) {
		return func(model.Request) (*model.Response, error) { return &model.Response{Text: "Hello.", Usage: u}, nil }
	}
	refuses := func(model.Request) (*model.Response, error) { return nil, limited(0) }
	for name, test := range map[string]struct {
		price    *v1alpha1.ModelPrice
		answer   func(model.Request) (*model.Response, error)
		unpriced int32
	}{
		"no price":              {nil, responding(model.Usage{InputTokens: 3}), 1},
		"no tokens":             {price("USD", "15"), responding(model.Usage{}), 1},
		"no answer, no tokens":  {price("USD", "15"), refuses, 0},
		"no answer at no price": {nil, refuses, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.pausing()
			b.answer = test.answer
			c := with()
			c.Model.Spec.Price = test.price
			turn, closed := b.reason(newTurn("demo-1"), c)
			expectCost(t, turn.Progress.Summary, test.unpriced)
			if all := generations(t, closed); len(all) != 1 || all[0].Cost != nil {
				t.Errorf("the journal has %+v", all)
			}
		})
	}
}

func TestTheCostOfAResponseThatWasCutOffIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		c := finalizing()
		c.Model.Spec.Price = price("USD", "1")
		first := newProcess(t, store)
		first.respondsAndDies(6*time.Second, model.Partial{Text: "The answer"}, model.Partial{Text: "The answer is"})
		first.run(newTurn("demo-1"), c)
		turn, _ := onStore(t, store).reason(newTurn("demo-1"), c)
		if turn.Progress.Recovered == "" || turn.Progress.Summary.ModelCalls != 1 {
			t.Fatalf("progress %+v, summary %+v", turn.Progress, turn.Progress.Summary)
		}
		expectCost(t, turn.Progress.Summary, 1)
	})
}

// iterate responds with a tool call each time, at another price, and returns the Turn when the calls are settled.
func (b *bench) iterate(turn turnstate.Turn, prices ...*v1alpha1.ModelPrice) turnstate.Turn {
	b.t.Helper()
	c := with(jobTool("look"))
	b.responds("I look.", calls(1, "look")...)
	for _, price := range prices {
		c.Model.Spec.Price = price
		turn, _ = b.reason(turn, c)
		done := "done"
		acted, err := b.Act(b.t.Context(), turn, facts{Outcomes: map[string]tool.Outcome{
			turn.Progress.ToolCalls[0].ID: {
				State:  v1alpha1.ToolCallStateSucceeded,
				Reason: v1alpha1.ToolCallReasonCompleted,
				Result: &done,
			},
		}}.step())
		if err != nil {
			b.t.Fatalf("acting: %v", err)
		}
		turn = after(turn, acted)
	}
	return turn
}

func price(currency string, output v1alpha1.Price) *v1alpha1.ModelPrice {
	return &v1alpha1.ModelPrice{Currency: currency, InputPerMillionTokens: "0", OutputPerMillionTokens: output}
}

func TestCostsOfIterationsAddUpByCurrency(t *testing.T) {
	b := newBench(t)
	// Each response has two tokens.
	turn := b.iterate(newTurn("demo-1"), price("USD", "1"), nil, price("EUR", "5"), price("USD", "7"))
	expectCost(t, turn.Progress.Summary, 1, eur("0.00001"), usd("0.000016"))
	b.fails("(400) no")
	turn, _ = b.reason(turn, with())
	expectCost(t, turn.Progress.Summary, 1, eur("0.00001"), usd("0.000016"))
	if turn.Progress.Phase != v1alpha1.TurnPhaseFailed || turn.Progress.Summary.ModelCalls != 4 {
		t.Errorf("phase %s, summary %+v", turn.Progress.Phase, turn.Progress.Summary)
	}
}

func TestAFifthCurrencyHasNoRoom(t *testing.T) {
	b := newBench(t)
	turn := b.iterate(
		newTurn("demo-1"),
		price("USD", "1"),
		price("EUR", "1"),
		price("CHF", "1"),
		price("GBP", "1"),
		price("JPY", "1"),
		price("USD", "1"),
	)
	expectCost(
		t,
		turn.Progress.Summary,
		1,
		v1alpha1.Cost{
			Currency: "CHF",
			Amount:   "0.000002",
		},
		eur("0.000002"),
		v1alpha1.Cost{Currency: "GBP", Amount: "0.000002"},
		usd("0.000004"),
	)
}

func TestALaterPriceChangesNothingThatIsRecorded(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	c := with()
	priced(c.Model, "USD", "1", "1")
	b.reason(newTurn("demo-1"), c)
	other := onStore(t, store)
	priced(c.Model, "EUR", "1000", "1000")
	turn, closed := other.reason(newTurn("demo-1"), c)
	if !closed.Adopted {
		t.Fatal("the step was closed twice")
	}
	expectCost(t, turn.Progress.Summary, 0, usd("0.000005"))
}
