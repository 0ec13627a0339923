package spending

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: BUDGET-02.
func TestTheStateOfABudget(t *testing.T) {
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status}
	}
	low := is(v1alpha1.ConditionLowBalance, metav1.ConditionTrue)
	paused, exhausted := is(
		v1alpha1.ConditionPaused,
		metav1.ConditionTrue,
	), is(
		v1alpha1.ConditionExhausted,
		metav1.ConditionTrue,
	)
	for want, conditions := range map[string][]metav1.Condition{
		"Active":     {is(v1alpha1.ConditionReady, metav1.ConditionTrue)},
		"LowBalance": {low},
		"Paused":     {low, paused},
		"Exhausted":  {low, paused, exhausted},
		"Invalid":    {exhausted, is(v1alpha1.ConditionReady, metav1.ConditionFalse)},
	} {
		if got := stateOf(&v1alpha1.Budget{Status: v1alpha1.BudgetStatus{Conditions: conditions}}); got != want {
			t.Errorf("state %s of %+v, want %s", got, conditions, want)
		}
	}
	lines := BudgetLines([]v1alpha1.Budget{{Spec: v1alpha1.BudgetSpec{Unit: v1alpha1.BudgetUnitTokens, Limit: "5"}}})
	if len(lines) != 2 {
		t.Errorf("%d lines", len(lines))
	}
}
