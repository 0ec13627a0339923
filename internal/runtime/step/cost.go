package step

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
)

// cost returns the cost of the response, at the price of its Model; nil if the cost is unknown, or there is no price.
func (a asked) cost() *v1alpha1.Cost {
	if a.model == nil || a.response == nil || a.err != nil {
		return nil
	}
	return cost.Of(a.model.Spec.Price, a.response.Usage)
}

// addCost adds the cost of the model call to the summary in the next status. The cost is calculated only here: a
// process that applies the entry later uses the recorded sum, whatever the price is by then (invariant 3). Calls with
// an unknown cost are counted, so that the sum is not mistaken for the total.
func (g generation) addCost(sum *v1alpha1.TurnSummary) {
	answer := g.answer()
	if answer.err != nil {
		return
	}
	if c := answer.cost(); c != nil {
		if sums, ok := cost.Add(sum.Cost, *c); ok {
			sum.Cost = sums
			return
		}
	}
	sum.UnpricedModelCalls++
}
