// Package spending prints what model calls have cost and what tool calls have paid. It is pure.
package spending

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
)

// Row is what one object has used.
type Row struct {
	Name       string
	Turns      int64
	ModelCalls int64
	ToolCalls  int64
	Usage      v1alpha1.Usage
	Cost       []v1alpha1.Cost
	Paid       []v1alpha1.Cost
	Unpriced   int64
}

// OfSession returns the totals of the Turns of a Session that have ended.
func OfSession(s *v1alpha1.Session) Row {
	t := s.Status.Totals
	return Row{
		Name: s.Name, Turns: t.Turns, ToolCalls: t.ToolCalls, Usage: t.Usage, Cost: t.Cost, Unpriced: t.UnpricedModelCalls,
		Paid: t.Payments,
	}
}

// OfTurn returns the totals of a Turn with its sub-agents.
func OfTurn(t *v1alpha1.Turn) Row {
	row := Row{Name: t.Name, Turns: 1}
	s := t.Status.Summary
	if s == nil {
		return row
	}
	row.ModelCalls, row.ToolCalls, row.Usage = int64(s.ModelCalls), int64(s.ToolCalls), s.Usage
	row.Cost, row.Paid, row.Unpriced = s.Cost, s.Payments, int64(s.UnpricedModelCalls)
	if sub := s.SubAgents; sub != nil {
		row = row.Plus(Row{
			ModelCalls: int64(sub.ModelCalls), Usage: sub.Usage, Cost: sub.Cost, Unpriced: int64(sub.UnpricedModelCalls),
			Paid: sub.Payments,
		})
	}
	return row
}

// Plus returns the sum of two rows under the name of the first.
func (r Row) Plus(o Row) Row {
	r.Turns += o.Turns
	r.ModelCalls += o.ModelCalls
	r.ToolCalls += o.ToolCalls
	r.Unpriced += o.Unpriced
	r.Usage.InputTokens += o.Usage.InputTokens
	r.Usage.OutputTokens += o.Usage.OutputTokens
	r.Usage.TotalTokens += o.Usage.TotalTokens
	r.Cost, r.Paid = plus(r.Cost, o.Cost), plus(r.Paid, o.Paid)
	return r
}

func plus(sums, more []v1alpha1.Cost) []v1alpha1.Cost {
	for _, c := range more {
		sum, ok := cost.Add(sums, c)
		if !ok { // more currencies than an object has: the amount stays one of its own
			sum = append(slices.Clone(sums), c)
		}
		sums = sum
	}
	return sums
}

// Lines returns a table of rows, with their sum unless it is nil.
func Lines(what string, rows []Row, sum *Row) []text.Line {
	table := [][]string{{what, "TURNS", "TOOL CALLS", "INPUT", "OUTPUT", "TOKENS", "COST", "UNPRICED", "PAID"}}
	for _, r := range rows {
		table = append(table, r.cells())
	}
	if sum != nil {
		table = append(table, sum.cells())
	}
	return text.Table(table)
}

func (r Row) cells() []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		r.Name, number(r.Turns), number(r.ToolCalls), number(r.Usage.InputTokens), number(r.Usage.OutputTokens),
		number(r.Usage.TotalTokens), written(r.Cost), number(r.Unpriced), written(r.Paid),
	}
}

func written(costs []v1alpha1.Cost) string {
	if len(costs) == 0 {
		return "-"
	}
	amounts := make([]string, len(costs))
	for i, c := range costs {
		amounts[i] = c.Amount + " " + c.Currency
	}
	return strings.Join(amounts, ", ")
}
