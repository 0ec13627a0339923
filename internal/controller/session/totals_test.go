package session

import (
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestTotalsAddUp(t *testing.T) {
	var totals v1alpha1.SessionTotals
	turn := turnWith("t", nil)
	turn.Status.Summary = &v1alpha1.TurnSummary{
		Usage: v1alpha1.Usage{InputTokens: 5, OutputTokens: 2, TotalTokens: 7}, ModelCalls: 3, ToolCalls: 3,
		Cost: []v1alpha1.Cost{{Currency: "USD", Amount: "0.75"}}, UnpricedModelCalls: 1,
	}
	addTotals(&totals, turn.Status.Summary)
	addTotals(&totals, turn.Status.Summary)
	addTotals(&totals, nil)
	want := v1alpha1.SessionTotals{
		Turns: 3, Usage: v1alpha1.Usage{InputTokens: 10, OutputTokens: 4, TotalTokens: 14}, ToolCalls: 6,
		Cost: []v1alpha1.Cost{{Currency: "USD", Amount: "1.5"}}, UnpricedModelCalls: 2,
	}
	if !reflect.DeepEqual(totals, want) {
		t.Errorf("totals %+v, want %+v", totals, want)
	}
	if got := turn.Status.Summary.Cost[0].Amount; got != "0.75" {
		t.Errorf("the Turn itself now costs %s", got)
	}
}

func TestATurnThatBringsTooManyCurrenciesIsLeftOutAsAWhole(t *testing.T) {
	of := func(calls, unpriced int32, currencies ...string) *v1alpha1.TurnSummary {
		sum := &v1alpha1.TurnSummary{ModelCalls: calls, UnpricedModelCalls: unpriced}
		for _, currency := range currencies {
			sum.Cost = append(sum.Cost, v1alpha1.Cost{Currency: currency, Amount: "1"})
		}
		return sum
	}
	var totals v1alpha1.SessionTotals
	addTotals(&totals, of(3, 0, "CHF", "EUR", "USD"))
	addTotals(&totals, of(5, 2, "EUR", "GBP", "JPY"))
	addTotals(&totals, of(4, 1, "EUR", "JPY", "USD"))
	want := v1alpha1.SessionTotals{Turns: 3, UnpricedModelCalls: 6, Cost: []v1alpha1.Cost{
		{
			Currency: "CHF",
			Amount:   "1",
		},
		{Currency: "EUR", Amount: "2"},
		{Currency: "JPY", Amount: "1"},
		{Currency: "USD", Amount: "2"},
	}}
	if !reflect.DeepEqual(totals, want) {
		t.Errorf("totals %+v, want %+v", totals, want)
	}
}
