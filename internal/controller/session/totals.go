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
	addPayments(totals, sum)
}

// addPayments adds the payments of a Turn, and of its sub-agents: their Sessions are deleted with the Turn.
func addPayments(totals *v1alpha1.SessionTotals, sum *v1alpha1.TurnSummary) {
	paid := sum.Payments
	if sum.SubAgents != nil {
		if all, ok := cost.Add(paid, sum.SubAgents.Payments...); ok {
			paid = all
		}
	}
	if sums, ok := cost.Add(totals.Payments, paid...); ok {
		totals.Payments = sums
	}
}

// addCost adds the cost of a Turn's model calls. A Turn with one currency too many is left out as a whole: the number
// of its calls per currency is unknown, so that all of them count as unpriced.
func addCost(totals *v1alpha1.SessionTotals, sum *v1alpha1.TurnSummary) {
	sums, ok := cost.Add(totals.Cost, sum.Cost...)
	if !ok {
		totals.UnpricedModelCalls += int64(sum.ModelCalls)
		return
	}
	totals.Cost = sums
	totals.UnpricedModelCalls += int64(sum.UnpricedModelCalls)
}
