package step

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
)

// addCost adds the cost of the model call to the summary in the next status. The cost is calculated only here: a
// process that applies the entry later uses the recorded sum, whatever the price is by then (invariant 3). Calls with
// an unknown cost are counted, so that the sum is not mistaken for the total.
func (g generation) addCost(sum *v1alpha1.TurnSummary) {
	if answer := g.answer(); answer.Err == nil {
		addCost(sum, answer)
	}
}

// addCost adds the cost of a response.
func addCost(sum *v1alpha1.TurnSummary, answer modelcall.Result) {
	if c := answer.Cost(); c != nil {
		if sums, ok := cost.Add(sum.Cost, *c); ok {
			sum.Cost = sums
			return
		}
	}
	sum.UnpricedModelCalls++
}

// addPayments adds what the calls of an act step have paid to the summary of the progress after it.
func addPayments(sum *v1alpha1.TurnSummary, calls []v1alpha1.ToolCall, known *act.Step) {
	for _, call := range calls {
		outcome, _ := known.Outcome(call.ID)
		if outcome.Payment == nil {
			continue
		}
		paid := v1alpha1.Cost{Currency: outcome.Payment.Currency, Amount: outcome.Payment.Amount}
		if sums, ok := cost.Add(sum.Payments, paid); ok {
			sum.Payments = sums
		}
	}
}

// firstTokenMillis is the time to the first content of a response for an event; nil if the Model has not responded.
func firstTokenMillis(a modelcall.Result) *int64 {
	first, ok := a.TimeToFirst()
	if !ok {
		return nil
	}
	ms := first.Milliseconds()
	return &ms
}

// addFirstToken adds the time to the first content of the Turn's first response to its totals (TURN-15).
func (g generation) addFirstToken(sum *v1alpha1.TurnSummary) {
	if first, ok := g.answer().TimeToFirst(); ok && sum.TimeToFirstToken == nil {
		sum.TimeToFirstToken = &metav1.Duration{Duration: first}
	}
}
