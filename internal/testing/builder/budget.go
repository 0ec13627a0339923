package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// BudgetWrapper wraps a Budget.
type BudgetWrapper struct{ object v1alpha1.Budget }

// Budget begins a Budget in USD, with this limit, for every Session of its namespace.
func Budget(name string, limit v1alpha1.BudgetLimit) *BudgetWrapper {
	return &BudgetWrapper{v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.BudgetSpec{Unit: v1alpha1.BudgetUnitCurrency, Currency: "USD", Limit: limit},
	}}
}

// In sets the namespace.
func (w *BudgetWrapper) In(namespace string) *BudgetWrapper {
	w.object.Namespace = namespace
	return w
}

// Tokens makes it count tokens.
func (w *BudgetWrapper) Tokens() *BudgetWrapper {
	w.object.Spec.Unit, w.object.Spec.Currency = v1alpha1.BudgetUnitTokens, ""
	return w
}

// Labelled makes it select the Sessions with a label.
func (w *BudgetWrapper) Labelled(key string, value v1alpha1.BudgetSelectorValue) *BudgetWrapper {
	w.object.Spec.SessionSelector.MatchLabels = map[string]v1alpha1.BudgetSelectorValue{key: value}
	return w
}

// Soft sets the soft limit.
func (w *BudgetWrapper) Soft(limit v1alpha1.BudgetLimit) *BudgetWrapper {
	w.object.Spec.SoftLimit = limit
	return w
}

// Each sets the window.
func (w *BudgetWrapper) Each(window v1alpha1.BudgetWindow) *BudgetWrapper {
	w.object.Spec.Window = window
	return w
}

// Ends makes it end Turns.
func (w *BudgetWrapper) Ends() *BudgetWrapper {
	w.object.Spec.OnExhausted = v1alpha1.BudgetOnExhaustedEnd
	return w
}

// Obj returns the Budget.
func (w *BudgetWrapper) Obj() *v1alpha1.Budget { return &w.object }
