package keeper

import (
	"slices"

	"github.com/shopspring/decimal"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
)

// Ticket is the wait of a Turn for a Budget. Its methods may be called on nil.
type Ticket struct {
	book *book
	turn types.UID
	// root is the Session whose labels decide.
	root types.UID
	wake func()
	// selected are the labels by which the Budget has selected the Session.
	selected labels.Set
	// generation is that of the spec that has refused the call.
	generation int64

	// The following fields are guarded by the lock of the book.

	// refusal is why the Turn waits; nil once there is room, which is kept for it until it reserves, or withdraws.
	refusal *budget.Refusal
	amount  decimal.Decimal
}

// Refusal returns why the Turn still waits; nil if it does not.
func (t *Ticket) Refusal() *budget.Refusal {
	if t == nil {
		return nil
	}
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	return t.refusal
}

// Granted returns the ticket if there is room for the Turn, which is kept for it; nil otherwise.
func (t *Ticket) Granted() *Ticket {
	if t == nil || t.Refusal() != nil {
		return nil
	}
	return t
}

// Withdraw ends the wait. What was kept for the Turn is there for others.
func (t *Ticket) Withdraw() {
	if t == nil {
		return
	}
	t.book.mu.Lock()
	i := slices.Index(t.book.tickets, t)
	if i >= 0 {
		t.book.tickets = slices.Delete(t.book.tickets, i, i+1)
	}
	t.book.mu.Unlock()
	if i >= 0 {
		t.book.review()
	}
}

// queueUp adds a ticket. One of a Turn that is in line already takes its place. The lock is held.
func (b *book) queueUp(t *Ticket) {
	i := slices.IndexFunc(b.tickets, func(is *Ticket) bool { return is.turn == t.turn })
	if i < 0 {
		b.tickets = append(b.tickets, t)
		return
	}
	b.tickets[i] = t
}

// expire ends the waits of some Turns without keeping room for them, and returns how to wake them. They check anew what
// they wait for.
func (b *book) expire(which func(*Ticket) bool) []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var woken []func()
	for _, t := range b.tickets {
		if t.refusal != nil && which(t) {
			t.refusal, t.amount = nil, decimal.Zero
			woken = append(woken, t.wake)
		}
	}
	return woken
}

// dropTicket ends the wait of a Turn that has its reservation. The lock is held.
func (b *book) dropTicket(turn types.UID) {
	b.tickets = slices.DeleteFunc(b.tickets, func(t *Ticket) bool { return t.turn == turn })
}

// promised is the amount that is kept for the Turns that were woken, other than the given one.
func (b *book) promised(except types.UID) decimal.Decimal {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := decimal.Zero
	for _, t := range b.tickets {
		if t.refusal == nil && t.turn != except {
			sum = sum.Add(t.amount)
		}
	}
	return sum
}

// review wakes the Turns that have room now, in the order in which they began to wait, and those whose reason to wait
// has changed.
func (b *book) review() {
	b.mu.Lock()
	var woken []func()
	if len(b.tickets) > 0 && (b.known != nil || b.gone) {
		woken = b.reviewed()
	}
	b.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

// reviewed updates the tickets, and returns how to wake those that have changed. The lock is held.
func (b *book) reviewed() []func() {
	var woken []func()
	var ledger *budget.Ledger
	promised := decimal.Zero
	if !b.gone {
		ledger = budget.Open(b.known.DeepCopy(), b.keeper.Clock())
		for _, t := range b.tickets {
			if t.refusal == nil {
				promised = promised.Add(t.amount)
			}
		}
	}
	for _, t := range b.tickets {
		if t.refusal == nil {
			continue
		}
		var now *budget.Refusal
		if !b.gone && budget.Selects(b.known, t.selected) {
			if t.refusal.Reason == v1alpha1.ReasonBudgetNeedsPrice && t.generation >= b.known.Generation {
				continue // It does not wait for room.
			}
			if now = ledger.Check(t.amount, promised); now == nil {
				promised = promised.Add(t.amount)
			}
		}
		if now != nil && now.Reason == t.refusal.Reason && now.Ends == t.refusal.Ends {
			continue
		}
		t.refusal = now
		woken = append(woken, t.wake)
	}
	return woken
}
