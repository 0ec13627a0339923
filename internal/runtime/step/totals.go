package step

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// toFirst is the time from the beginning of the attempt that brought the response to its first content, in whole
// milliseconds; to its end if it came at once. It reports false if no model has responded.
func (a asked) toFirst() (time.Duration, bool) {
	if a.err != nil || a.tried.IsZero() {
		return 0, false
	}
	first := a.first
	if first.IsZero() {
		first = a.ended
	}
	return max(first.Sub(a.tried), 0).Truncate(time.Millisecond), true
}

// toFirstMS is toFirst for an event; nil if no model has responded.
func (a asked) toFirstMS() *int64 {
	first, ok := a.toFirst()
	if !ok {
		return nil
	}
	ms := first.Milliseconds()
	return &ms
}

// observe reports the time to the first content of a response.
func (run *Runner) observe(a asked) {
	if first, ok := a.toFirst(); ok && run.OnFirstToken != nil {
		run.OnFirstToken(a.model.Spec.Provider, first)
	}
}

// addFirstToken adds the time to the first content of the Turn's first response to its totals (TURN-15).
func (g generation) addFirstToken(sum *v1alpha1.TurnSummary) {
	if first, ok := g.answer().toFirst(); ok && sum.TimeToFirstToken == nil {
		sum.TimeToFirstToken = &metav1.Duration{Duration: first}
	}
}
