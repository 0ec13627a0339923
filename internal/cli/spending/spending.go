// Package spending prints what model calls have cost. It is pure.
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
	Unpriced   int64
}

// OfSession returns the totals of the Turns of a Session that have ended.
func OfSession(s *v1alpha1.Session) Row {
	t := s.Status.Totals
	return Row{
		Name: s.Name, Turns: t.Turns, ToolCalls: t.ToolCalls, Usage: t.Usage, Cost: t.Cost, Unpriced: t.UnpricedModelCalls,
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
	row.Cost, row.Unpriced = s.Cost, int64(s.UnpricedModelCalls)
	if sub := s.SubAgents; sub != nil {
		row = row.Plus(Row{
			ModelCalls: int64(sub.ModelCalls), Usage: sub.Usage, Cost: sub.Cost, Unpriced: int64(sub.UnpricedModelCalls),
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
	for _, c := range o.Cost {
		sum, ok := cost.Add(r.Cost, c)
		if !ok { // more currencies than an object has: the amount stays one of its own
			sum = append(slices.Clone(r.Cost), c)
		}
		r.Cost = sum
	}
	return r
}

// Lines returns a table of rows, with their sum unless it is nil.
func Lines(what string, rows []Row, sum *Row) []text.Line {
	table := [][]string{{what, "TURNS", "TOOL CALLS", "INPUT", "OUTPUT", "TOKENS", "COST", "UNPRICED"}}
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
	amounts := make([]string, len(r.Cost))
	for i, c := range r.Cost {
		amounts[i] = c.Amount + " " + c.Currency
	}
	spent := strings.Join(amounts, ", ")
	if spent == "" {
		spent = "-"
	}
	return []string{
		r.Name, number(r.Turns), number(r.ToolCalls), number(r.Usage.InputTokens), number(r.Usage.OutputTokens),
		number(r.Usage.TotalTokens), spent, number(r.Unpriced),
	}
}
