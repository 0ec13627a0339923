package session

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
)

// addTotals counts a Turn that has ended, by its summary, which may be nil.
func addTotals(totals *v1alpha1.SessionTotals, sum *v1alpha1.TurnSummary) {
	totals.Turns++
	if sum == nil {
		return
	}
	totals.Usage.InputTokens += sum.Usage.InputTokens
	totals.Usage.OutputTokens += sum.Usage.OutputTokens
	totals.Usage.TotalTokens += sum.Usage.TotalTokens
	totals.ToolCalls += int64(sum.ToolCalls)
	addCost(totals, sum)
}

// addCost adds up what the model calls of a Turn cost. A Turn that there is no room for is left out as a whole: how
// many of its calls were in which currency is not known, so that only all of them together can be counted as left out.
func addCost(totals *v1alpha1.SessionTotals, sum *v1alpha1.TurnSummary) {
	sums, ok := cost.Add(totals.Cost, sum.Cost...)
	if !ok {
		totals.UnpricedModelCalls += int64(sum.ModelCalls)
		return
	}
	totals.Cost = sums
	totals.UnpricedModelCalls += int64(sum.UnpricedModelCalls)
}
