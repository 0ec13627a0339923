package budget

import (
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Key identifies a reservation. It is never used again, also after the reservation is settled: what becomes of an
// earlier write cannot be taken for that of a later one.
type Key struct {
	Turn types.UID
	Step int32
	// Try numbers the attempts of the holder.
	Try int32
	// Holder is the process that has made it.
	Holder string
}

// Ledger is a Budget whose status changes by reservations and settlements. It changes the Budget that it is opened
// with.
type Ledger struct {
	budget *v1alpha1.Budget
	// now is the time of all changes.
	now time.Time

	limit, spent, reserved decimal.Decimal
	soft                   *decimal.Decimal
	// invalid is why the Budget cannot be used; empty if it can.
	invalid string
}

// Open returns the ledger of a Budget at a time. It begins the window that the time is in, if that has not begun yet.
func Open(b *v1alpha1.Budget, now time.Time) *Ledger {
	l := &Ledger{budget: b, now: now}
	if err := l.read(); err != nil {
		l.invalid = err.Error()
	}
	return l
}

// read reads the amounts of the Budget, and those of the current window from its reservations.
func (l *Ledger) read() error {
	spec, status := &l.budget.Spec, &l.budget.Status
	if _, err := Selector(spec.SessionSelector); err != nil {
		return err
	}
	var ok bool
	if l.limit, ok = parse(string(spec.Limit)); !ok {
		return fmt.Errorf("invalid limit %q", spec.Limit)
	}
	if spec.SoftLimit != "" {
		soft, ok := parse(string(spec.SoftLimit))
		if !ok {
			return fmt.Errorf("invalid softLimit %q", spec.SoftLimit)
		}
		l.soft = &soft
	}
	if status.Spent == "" {
		status.Spent = "0"
	}
	if l.spent, ok = parse(status.Spent); !ok {
		return fmt.Errorf("invalid amount %q in status.spent", status.Spent)
	}
	if err := l.roll(); err != nil {
		return err
	}
	for i := range status.Reservations {
		amount, ok := parse(status.Reservations[i].Amount)
		if !ok {
			return fmt.Errorf("invalid amount %q in status.reservations", status.Reservations[i].Amount)
		}
		if l.current(&status.Reservations[i]) {
			l.reserved = l.reserved.Add(amount)
		}
	}
	return nil
}

// roll begins the window of the time. A clock that went back begins none. A change of the spec begins none either: the
// amount that is spent counts for the window of the new spec, so that nobody spends it twice.
func (l *Ledger) roll() error {
	spec, status := &l.budget.Spec, &l.budget.Status
	window, err := WindowAt(*spec, l.now)
	if err != nil {
		return err
	}
	if status.WindowEnd != nil && !l.now.Before(status.WindowEnd.Time) {
		l.spent = decimal.Zero
		status.WindowStart, status.WindowEnd = timeOf(window.Start), timeOf(window.End)
		return nil
	}
	if status.WindowStart != nil && status.ObservedGeneration == l.budget.Generation {
		return nil
	}
	for i := range status.Reservations {
		if r := &status.Reservations[i]; l.current(r) {
			r.WindowStart = timeOf(window.Start)
		}
	}
	status.WindowStart, status.WindowEnd = timeOf(window.Start), timeOf(window.End)
	return nil
}

// timeOf returns a time of a status; nil for the zero time.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t)
	return &at
}

// current reports whether a reservation counts for the current window.
func (l *Ledger) current(r *v1alpha1.BudgetReservation) bool {
	return r.WindowStart.Equal(l.budget.Status.WindowStart)
}

// Selects reports whether the Budget is for a Session with the labels. One whose selector is invalid may be for any.
func Selects(b *v1alpha1.Budget, session labels.Set) bool {
	selector, err := Selector(b.Spec.SessionSelector)
	return err != nil || selector.Matches(session)
}

// Check returns why an amount cannot be reserved now; nil if it can. others is the amount that is promised to others.
func (l *Ledger) Check(amount, others decimal.Decimal) *Refusal {
	switch {
	case l.invalid != "":
		return l.refusal(v1alpha1.ReasonBudgetInvalid, amount)
	case l.soft != nil && l.spent.GreaterThan(*l.soft):
		return l.refusal(v1alpha1.ReasonBudgetPaused, amount)
	case l.spent.Add(amount).GreaterThan(l.limit):
		return l.refusal(v1alpha1.ReasonBudgetExhausted, amount)
	case len(l.budget.Status.Reservations) >= v1alpha1.MaxBudgetReservations,
		l.spent.Add(l.reserved).Add(others).Add(amount).GreaterThan(l.limit):
		return l.refusal(v1alpha1.ReasonBudgetFull, amount)
	default:
		return nil
	}
}

// Reserve reserves an amount under a new key, if it fits. A refusal because the limit is reached is part of the status.
func (l *Ledger) Reserve(key Key, amount, others decimal.Decimal) *Refusal {
	if refusal := l.Check(amount, others); refusal != nil {
		if refusal.Reason == v1alpha1.ReasonBudgetExhausted {
			l.exhaust(refusal)
		}
		return refusal
	}
	status := &l.budget.Status
	status.Reservations = append(status.Reservations, v1alpha1.BudgetReservation{
		TurnUID: key.Turn, Step: key.Step, Try: key.Try, Holder: key.Holder, Amount: amount.String(),
		WindowStart: status.WindowStart,
	})
	l.reserved = l.reserved.Add(amount)
	return nil
}

// Has reports whether the ledger has a reservation.
func (l *Ledger) Has(key Key) bool {
	return slices.ContainsFunc(l.budget.Status.Reservations, key.Is)
}

// Is reports whether a reservation has the key.
func (k Key) Is(r v1alpha1.BudgetReservation) bool {
	return r.TurnUID == k.Turn && r.Step == k.Step && r.Try == k.Try && r.Holder == k.Holder
}

// Settle replaces a reservation by the actual amount; by all that was reserved if that is nil. A reservation of an
// earlier window counts for that one, and is only removed. It reports whether the ledger had the reservation.
func (l *Ledger) Settle(key Key, actual *decimal.Decimal) bool {
	status := &l.budget.Status
	i := slices.IndexFunc(status.Reservations, key.Is)
	if i < 0 {
		return false
	}
	r := status.Reservations[i]
	status.Reservations = slices.Delete(status.Reservations, i, i+1)
	if len(status.Reservations) == 0 {
		status.Reservations = nil
	}
	amount, ok := parse(r.Amount)
	if !l.current(&r) || !ok {
		return true
	}
	l.reserved = l.reserved.Sub(amount)
	if actual != nil {
		amount = *actual
	}
	l.spent = l.spent.Add(amount)
	return true
}

// Room is the amount that can be reserved now.
func (l *Ledger) Room() decimal.Decimal {
	return l.limit.Sub(l.spent).Sub(l.reserved)
}

// Foreign returns the reservations of other processes than the holder.
func (l *Ledger) Foreign(holder string) []Key {
	var keys []Key
	for _, r := range l.budget.Status.Reservations {
		if r.Holder != holder {
			keys = append(keys, Key{Turn: r.TurnUID, Step: r.Step, Try: r.Try, Holder: r.Holder})
		}
	}
	return keys
}
