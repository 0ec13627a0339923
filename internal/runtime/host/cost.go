package host

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
)

// cost is what the answer costs, at the price of the Model that has given it; nil when that is not known, or there is
// none.
func (a asked) cost() *v1alpha1.Cost {
	if a.model == nil || a.response == nil || a.err != nil {
		return nil
	}
	return cost.Of(a.model.Spec.Price, a.response.Usage)
}

// addCost adds what the model call costs to the summary of the status that follows from it. It is reckoned here and
// nowhere else: whoever applies the entry later takes the sum as it is, whatever the price is by then (invariant 3).
// What is not known is counted, so that nobody takes the sum for whole.
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
