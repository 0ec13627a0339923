package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shopspring/decimal"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
)

const (
	// requestTimeout bounds one read or write of a Budget.
	requestTimeout = 10 * time.Second
	// failuresOfReserve is how often a write may fail before the reservations in it fail. Settlements are tried on.
	failuresOfReserve = 3
)

// pauses are those between failed reads and writes of one Budget.
var pauses = backoff.Exponential{First: 50 * time.Millisecond, Factor: 2, Longest: 15 * time.Second}

// book is the writer of one Budget.
type book struct {
	keeper *Keeper
	key    types.NamespacedName
	uid    types.UID

	mu sync.Mutex
	// known is the newest known version; nil before the first read. gone reports whether the Budget does not exist.
	known *v1alpha1.Budget
	gone  bool
	// queue are the changes for the next write, and running reports whether a goroutine writes.
	queue   []*change
	running bool
	// ghosts are reservations that failed after a write with an unknown outcome. They are removed if they ever appear.
	ghosts []budget.Key
	// tickets are the Turns that wait, in the order in which they began to.
	tickets []*Ticket
}

// change is one reservation or settlement on its way to the store.
type change struct {
	// reserve is the reservation to make; nil for a settlement of key. A change with neither removes ghosts.
	reserve *reserve
	// actual is what a call has cost; nil if that is unknown, so that it counts in full.
	key    budget.Key
	actual *decimal.Decimal
	// attempts are the keys under which earlier writes, with unknown outcomes, may have stored the reservation.
	attempts []budget.Key
	failures int

	// done is closed when the following are decided. gone reports whether the Budget does not exist, low whether a
	// fifth of its limit or less is left.
	done    chan struct{}
	refusal *budget.Refusal
	err     error
	gone    bool
	low     bool
}

// reserve is a reservation to be made.
type reserve struct {
	turn   types.UID
	step   int32
	amount decimal.Decimal
}

// submit adds a change to the next write.
func (b *book) submit(c *change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, c)
	if !b.running {
		b.running = true
		go b.run()
	}
}

// run writes until the queue is empty.
func (b *book) run() {
	ctx := context.Background() // A settlement outlives the call that it is about.
	for failures := 0; ; {
		b.mu.Lock()
		group := b.queue
		b.queue = nil
		if len(group) == 0 {
			b.running = false
			b.mu.Unlock()
			b.keeper.idle()
			return
		}
		base, gone := b.known, b.gone
		b.mu.Unlock()
		again, err := b.commit(ctx, base, gone, group)
		b.mu.Lock()
		b.queue = append(again, b.queue...)
		b.mu.Unlock()
		b.review()
		if err == nil {
			failures = 0
			continue
		}
		failures++
		_ = backoff.Wait(ctx, pauses.After(failures))
	}
}

// commit writes one group of changes, and returns those that are not decided. After an error it is tried again after a
// pause; a conflict is none.
func (b *book) commit(
	ctx context.Context, base *v1alpha1.Budget, gone bool, group []*change,
) (again []*change, err error) {
	if base == nil && !gone {
		if base, err = b.read(ctx); err != nil {
			return b.failed(group, fmt.Errorf("reading Budget %s: %w", b.key.Name, err)), err
		}
	}
	if base == nil {
		for _, c := range group {
			c.gone = true
			close(c.done)
		}
		return nil, nil
	}
	next := base.DeepCopy()
	b.apply(next, group)
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = b.keeper.Store.Write(limited, base, next)
	switch {
	case err == nil:
		if next.ResourceVersion != base.ResourceVersion {
			b.mu.Lock()
			b.ghosts = nil // No earlier write can be stored after this one.
			b.mu.Unlock()
		}
		b.learn(next)
		b.decided(group)
		return nil, nil
	case errors.Is(err, ErrConflict):
		b.forget(base)
		return group, nil
	default:
		b.forget(base)
		// Nothing is decided before the Budget was read again.
		if _, readErr := b.read(ctx); readErr != nil {
			return group, err
		}
		return b.failed(group, fmt.Errorf("writing Budget %s: %w", b.key.Name, err)), err
	}
}

// apply applies a group to a version of the Budget: settlements first, because they make room.
func (b *book) apply(next *v1alpha1.Budget, group []*change) {
	ledger := budget.Open(next, b.keeper.Clock())
	b.mu.Lock()
	ghosts := slices.Clone(b.ghosts)
	b.mu.Unlock()
	zero := decimal.Zero
	for _, key := range ghosts {
		ledger.Settle(key, &zero)
	}
	for _, c := range group {
		if c.reserve == nil {
			ledger.Settle(c.key, c.actual)
		}
	}
	for _, c := range group {
		if c.reserve == nil {
			continue
		}
		if i := slices.IndexFunc(c.attempts, ledger.Has); i >= 0 {
			// An earlier write has stored it after all.
			c.key, c.refusal = c.attempts[i], nil
		} else {
			// A call of an ended process, of which nothing more will be known, was for the same step.
			for _, key := range foreign(ledger.Foreign(b.keeper.holder), c.reserve.turn, c.reserve.step) {
				ledger.Settle(key, nil)
			}
			c.key = budget.Key{
				Turn: c.reserve.turn, Step: c.reserve.step, Try: b.keeper.tries.Add(1), Holder: b.keeper.holder,
			}
			c.refusal = ledger.Reserve(c.key, c.reserve.amount, b.promised(c.reserve.turn))
			if c.refusal == nil {
				c.attempts = append(c.attempts, c.key)
			}
		}
	}
	ledger.Close()
	for _, c := range group {
		c.low = ledger.Low()
	}
}

// foreign returns the keys that are of a step.
func foreign(keys []budget.Key, turn types.UID, step int32) []budget.Key {
	return slices.DeleteFunc(keys, func(key budget.Key) bool { return key.Turn != turn || key.Step != step })
}

// decided ends the changes of a group that is stored.
func (b *book) decided(group []*change) {
	b.mu.Lock()
	for _, c := range group {
		if c.reserve != nil && c.refusal == nil {
			b.dropTicket(c.reserve.turn)
		}
	}
	b.mu.Unlock()
	for _, c := range group {
		close(c.done)
	}
}

// failed counts a failure of each change, and returns those to try again. The Budget was read since the write: what an
// earlier write has stored of a reservation that fails now is removed by a later one.
func (b *book) failed(group []*change, err error) []*change {
	var again []*change
	ghosts := false
	for _, c := range group {
		c.failures++
		if c.reserve == nil || c.failures < failuresOfReserve {
			again = append(again, c)
			continue
		}
		b.mu.Lock()
		b.ghosts = append(b.ghosts, c.attempts...)
		b.mu.Unlock()
		ghosts = ghosts || len(c.attempts) > 0
		c.err = err
		close(c.done)
	}
	if ghosts {
		again = append(again, &change{done: make(chan struct{})}) // It removes what was stored after all.
	}
	return again
}

// read reads the Budget past the cache.
func (b *book) read(ctx context.Context) (*v1alpha1.Budget, error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := b.keeper.Store.Read(limited, b.key)
	if err != nil {
		return nil, err
	}
	if found == nil || found.UID != b.uid {
		b.mu.Lock()
		b.known, b.gone = nil, true
		b.mu.Unlock()
		return nil, nil
	}
	b.learn(found)
	return found, nil
}

// learn keeps a version of the Budget if it is newer than the known one.
func (b *book) learn(version *v1alpha1.Budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || b.keeper.Store.Newer(version.ResourceVersion, b.known.ResourceVersion) {
		b.known = version
		b.exorcise()
	}
}

// exorcise submits a write if the known version has a reservation that failed. The lock is held.
func (b *book) exorcise() {
	known := b.known.Status.Reservations
	if len(b.queue) > 0 || !slices.ContainsFunc(b.ghosts, func(key budget.Key) bool {
		return slices.ContainsFunc(known, key.Is)
	}) {
		return
	}
	b.queue = append(b.queue, &change{done: make(chan struct{})})
	if !b.running {
		b.running = true
		go b.run()
	}
}

// forget drops a version that is not known to be the newest.
func (b *book) forget(version *v1alpha1.Budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == version {
		b.known = nil
	}
}

// check returns why an amount has no room as far as is known; nil if it may have, or if only a write can tell.
func (b *book) check(payer budget.Payer, amount decimal.Decimal) *budget.Refusal {
	b.mu.Lock()
	known := b.known
	b.mu.Unlock()
	if known == nil {
		return nil
	}
	known = known.DeepCopy()
	ledger := budget.Open(known, b.keeper.Clock())
	if len(foreign(ledger.Foreign(b.keeper.holder), payer.Turn, payer.Step)) > 0 {
		return nil
	}
	refusal := ledger.Check(amount, b.promised(payer.Turn))
	if refusal != nil && refusal.Reason == v1alpha1.ReasonBudgetExhausted && !exhausted(known) {
		return nil
	}
	return refusal
}

// exhausted reports whether the status shows that the limit is reached.
func exhausted(b *v1alpha1.Budget) bool {
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionExhausted)
	return c != nil && c.Status == "True" && c.ObservedGeneration == b.Generation
}
