package budget

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Refusal is why a model call has no room in a Budget.
type Refusal struct {
	// Budget is the name of the Budget.
	Budget string
	// Reason is BudgetFull, BudgetPaused, BudgetExhausted, BudgetInvalid or BudgetNeedsPrice.
	Reason string
	// Message explains it, and what to do.
	Message string
	// Ends reports whether the Turn ends, and does not wait.
	Ends bool
	// Until is when the window ends; zero for none.
	Until time.Time
	// Amount is what the call needs.
	Amount decimal.Decimal
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// ErrorCode implements model.Coded.
func (r *Refusal) ErrorCode() v1alpha1.ErrorCode { return v1alpha1.ErrorCodeBudgetExhausted }

// refusal returns why an amount has no room.
func (l *Ledger) refusal(reason string, amount decimal.Decimal) *Refusal {
	b := l.budget
	r := &Refusal{Budget: b.Name, Reason: reason, Amount: amount}
	if end := b.Status.WindowEnd; end != nil {
		r.Until = end.Time
	}
	unit := unitOf(b)
	switch reason {
	case v1alpha1.ReasonBudgetInvalid:
		r.Until = time.Time{}
		r.Message = fmt.Sprintf("Budget %q cannot be used: %s. Correct or delete it.", b.Name, l.invalid)
	case v1alpha1.ReasonBudgetFull:
		r.Until = time.Time{}
		r.Message = fmt.Sprintf("The next model call, of up to %s %s, fits into Budget %q once other calls have ended. "+
			"Nothing needs to be done.", amount, unit, b.Name)
	case v1alpha1.ReasonBudgetPaused:
		r.Message = fmt.Sprintf("Budget %q has reached its softLimit of %s %s. Raise or remove softLimit to continue%s.",
			b.Name, b.Spec.SoftLimit, unit, untilText(r.Until))
	default:
		r.Ends = b.Spec.OnExhausted == v1alpha1.BudgetOnExhaustedEnd
		if amount.GreaterThan(l.limit) {
			r.Until = time.Time{} // No window has room for it.
		}
		r.Message = fmt.Sprintf("Budget %q is exhausted: the next model call may cost up to %s %s, which does not fit into "+
			"the rest of its limit of %s. Raise limit to continue%s.", b.Name, amount, unit, b.Spec.Limit, untilText(r.Until))
	}
	return r
}

// unitOf returns the unit of the amounts of a Budget, for people.
func unitOf(b *v1alpha1.Budget) string {
	if b.Spec.Unit == v1alpha1.BudgetUnitTokens {
		return "tokens"
	}
	return b.Spec.Currency
}

// untilText is the end of a sentence on what ends a wait.
func untilText(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return ", or wait for the next window at " + end.UTC().Format(time.RFC3339)
}
