package spending

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// BudgetLines is the table of Budgets.
func BudgetLines(budgets []v1alpha1.Budget) []text.Line {
	table := [][]string{{"BUDGET", "LIMIT", "UNIT", "WINDOW", "SPENT", "RESERVED", "BALANCE", "STATE"}}
	for i := range budgets {
		b := &budgets[i]
		unit := cmp.Or(b.Spec.Currency, string(b.Spec.Unit))
		table = append(table, []string{
			b.Name, string(b.Spec.Limit), unit, string(cmp.Or(b.Spec.Window, v1alpha1.BudgetWindowTotal)),
			cmp.Or(b.Status.Spent, "-"), cmp.Or(b.Status.Reserved, "-"), cmp.Or(b.Status.Balance, "-"), stateOf(b),
		})
	}
	return text.Table(table)
}

// stateOf is the state of a Budget in a word: the most severe of its conditions.
func stateOf(b *v1alpha1.Budget) string {
	switch {
	case meta.IsStatusConditionFalse(b.Status.Conditions, v1alpha1.ConditionReady):
		return "Invalid"
	case meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionExhausted):
		return v1alpha1.ConditionExhausted
	case meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionPaused):
		return v1alpha1.ConditionPaused
	case meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionLowBalance):
		return v1alpha1.ConditionLowBalance
	default:
		return "Active"
	}
}
