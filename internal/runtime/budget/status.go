package budget

import (
	"fmt"
	"time"

	"github.com/shopspring/decimal"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// lowBalance is the part of the limit at which a balance is low.
var lowBalance = decimal.RequireFromString("0.2")

// Close writes the amounts and the conditions of the ledger into the status of the Budget.
func (l *Ledger) Close() {
	b := l.budget
	status := &b.Status
	if l.invalid != "" {
		l.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBudgetInvalid,
			fmt.Sprintf("The Budget cannot be used: %s. Model calls of the Sessions that it may select wait.", l.invalid))
		status.ObservedGeneration = b.Generation
		return
	}
	if l.spentAnew() {
		l.set(v1alpha1.ConditionExhausted, metav1.ConditionFalse, v1alpha1.ReasonWithinLimit,
			"No model call was refused because of the limit.")
	}
	status.Spent, status.Reserved = l.spent.String(), l.reserved.String()
	balance := l.limit.Sub(l.spent)
	status.Balance = balance.String()
	l.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "The Budget is in force.")
	l.choose(v1alpha1.ConditionPaused, l.soft != nil && l.spent.GreaterThan(*l.soft),
		v1alpha1.ReasonSoftLimitReached, "More than softLimit is spent. Turns wait before their next model call.",
		v1alpha1.ReasonWithinLimit, "No more than softLimit is spent.")
	l.choose(v1alpha1.ConditionLowBalance, l.Low(),
		v1alpha1.ReasonBalanceLow, "A fifth of the limit or less is left.",
		v1alpha1.ReasonWithinLimit, "More than a fifth of the limit is left.")
	status.ObservedGeneration = b.Generation
}

// Low reports whether a fifth of the limit or less is left.
func (l *Ledger) Low() bool {
	return l.invalid == "" && l.limit.Sub(l.spent).LessThanOrEqual(l.limit.Mul(lowBalance))
}

// spentAnew reports whether an earlier refusal does not count any more: there was none, it was about another spec, or
// in an earlier window.
func (l *Ledger) spentAnew() bool {
	exhausted := meta.FindStatusCondition(l.budget.Status.Conditions, v1alpha1.ConditionExhausted)
	if exhausted == nil || exhausted.Status != metav1.ConditionTrue {
		return true
	}
	start := l.budget.Status.WindowStart
	return exhausted.ObservedGeneration != l.budget.Generation ||
		start != nil && exhausted.LastTransitionTime.Before(start)
}

// exhaust records that a call did not fit into the rest of the limit.
func (l *Ledger) exhaust(*Refusal) {
	l.set(v1alpha1.ConditionExhausted, metav1.ConditionTrue, v1alpha1.ReasonLimitReached,
		"A model call did not fit into the rest of the limit. Raise limit to continue"+
			untilText(timeIn(l.budget.Status.WindowEnd))+".")
}

// timeIn returns a time of a status; the zero time for none.
func timeIn(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// choose sets a condition to True or to False.
func (l *Ledger) choose(kind string, is bool, reason, message, otherwise, otherMessage string) {
	if is {
		l.set(kind, metav1.ConditionTrue, reason, message)
		return
	}
	l.set(kind, metav1.ConditionFalse, otherwise, otherMessage)
}

// set sets a condition.
func (l *Ledger) set(kind string, value metav1.ConditionStatus, reason, message string) {
	at := metav1.NewTime(l.now.Truncate(time.Second))
	condition.Set(&l.budget.Status.Conditions, l.budget.Generation, at, kind, value, reason, message)
}
