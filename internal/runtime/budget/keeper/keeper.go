package keeper

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Keeper keeps the ledgers of Budgets. It is safe for concurrent use.
type Keeper struct {
	// Store has the Budgets.
	Store Store
	// Clock returns the current time.
	Clock func() time.Time

	// holder identifies the process in reservations.
	holder string
	// tries numbers its attempts, so that no key is used again.
	tries atomic.Int32

	mu    sync.Mutex
	books map[types.UID]*book
	// settled is closed and replaced whenever a writer has nothing to write.
	settled chan struct{}
}

// New returns a Keeper of the Budgets in a store.
func New(store Store, clock func() time.Time) *Keeper {
	return &Keeper{
		Store: store, Clock: clock, holder: strings.ReplaceAll(uuid.NewString(), "-", "")[:16],
		books: map[types.UID]*book{}, settled: make(chan struct{}),
	}
}

// Charge is the reservation of one attempt to call a model, in each of the Budgets that count for it.
type Charge struct {
	// Low are the names of the Budgets of which a fifth of the limit or less is left.
	Low []string

	keeper *Keeper
	price  *v1alpha1.ModelPrice
	parts  []part
}

// part is the reservation in one Budget.
type part struct {
	book   *book
	budget *v1alpha1.Budget
	key    budget.Key
	amount decimal.Decimal
}

// Reserve reserves the worst case of one attempt to call a Model in all Budgets that count for the payer, or in none.
// It returns when the reservations are stored; nil if no Budget counts. The error is a *budget.Refusal if a Budget has
// no room, and a *budget.NeedsPriceError if the Model cannot be used under one; nothing is reserved after any error.
func (k *Keeper) Reserve(
	ctx context.Context, payer budget.Payer, m *v1alpha1.Model, r model.Request,
) (*Charge, error) {
	matching, _, err := k.matching(ctx, payer)
	if err != nil || len(matching) == 0 {
		return nil, err
	}
	amounts := make([]decimal.Decimal, len(matching))
	for i, b := range matching {
		var unpriced *budget.NeedsPriceError
		if amounts[i], unpriced = budget.WorstCase(b, m, r); unpriced != nil {
			return nil, unpriced
		}
	}
	if refusal := k.check(payer, matching, amounts); refusal != nil {
		return nil, refusal
	}
	charge := &Charge{keeper: k, price: m.Spec.Price.DeepCopy()}
	for i, b := range matching {
		book := k.book(b)
		c := &change{
			reserve: &reserve{turn: payer.Turn, step: payer.Step, amount: amounts[i]}, done: make(chan struct{}),
		}
		book.submit(c)
		select {
		case <-c.done:
		case <-ctx.Done():
			go book.abandon(c)
			charge.Settle(Outcome{Free: true})
			return nil, fmt.Errorf("reserving in Budget %s: %w", b.Name, context.Cause(ctx))
		}
		switch {
		case c.err != nil:
			charge.Settle(Outcome{Free: true})
			return nil, c.err
		case c.refusal != nil:
			charge.Settle(Outcome{Free: true})
			return nil, c.refusal
		case c.gone:
			continue
		}
		charge.parts = append(charge.parts, part{book: book, budget: b, key: c.key, amount: amounts[i]})
		if c.low {
			charge.Low = append(charge.Low, b.Name)
		}
	}
	return charge, nil
}

// abandon removes a reservation that nothing waits for any more.
func (b *book) abandon(c *change) {
	<-c.done
	if c.err == nil && c.refusal == nil && !c.gone {
		zero := decimal.Zero
		b.submit(&change{key: c.key, actual: &zero, done: make(chan struct{})})
	}
}

// Outcome is how an attempt to call a model has ended.
type Outcome struct {
	// Free reports whether the attempt cost nothing: the request was not sent, or was refused.
	Free bool
	// Usage is that of the response; nil without one. An attempt without a usage that is not Free counts in full.
	Usage *model.Usage
	// Claimed reports whether the usage is that of a server which users have chosen. It counts at most what was reserved:
	// otherwise such a server could use up a Budget of others.
	Claimed bool
}

// Settle replaces the reservations by the actual cost. It does not wait. It may be called on nil.
func (c *Charge) Settle(o Outcome) {
	if c == nil {
		return
	}
	for _, p := range c.parts {
		var actual *decimal.Decimal
		if o.Free {
			actual = &decimal.Decimal{}
		} else if o.Usage != nil {
			if amount, known := budget.Actual(p.budget, c.price, *o.Usage); known {
				if o.Claimed {
					amount = decimal.Min(amount, p.amount)
				}
				actual = &amount
			}
		}
		p.book.submit(&change{key: p.key, actual: actual, done: make(chan struct{})})
	}
	c.parts = nil
}

// Counts reports whether a Budget counts for a payer. It may be called on nil.
func (k *Keeper) Counts(ctx context.Context, payer budget.Payer) (bool, error) {
	if k == nil {
		return false, nil
	}
	matching, _, err := k.matching(ctx, payer)
	return len(matching) > 0, err
}

// Standing returns why no call of the payer can begin, whatever its request, as far as is known; nil if one may. It
// reserves nothing. A Model that lacks a price is such a reason if all Models lack one.
func (k *Keeper) Standing(
	ctx context.Context, payer budget.Payer, models []*v1alpha1.Model,
) (*budget.Refusal, error) {
	matching, _, err := k.matching(ctx, payer)
	if err != nil || len(matching) == 0 || len(models) == 0 {
		return nil, err
	}
	least := make([]decimal.Decimal, len(matching))
	usable := 0
	var first *budget.NeedsPriceError
	for _, m := range models {
		amounts, err := leastOf(matching, m)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		for i, amount := range amounts {
			if usable == 0 || amount.LessThan(least[i]) {
				least[i] = amount
			}
		}
		usable++
	}
	if usable == 0 {
		return first.Refusal(), nil
	}
	if refusal := k.check(payer, matching, least); refusal != nil && refusal.Reason != v1alpha1.ReasonBudgetFull {
		return refusal, nil
	}
	return nil, nil
}

// leastOf returns the least that any call of a Model reserves in each Budget.
func leastOf(budgets []*v1alpha1.Budget, m *v1alpha1.Model) ([]decimal.Decimal, *budget.NeedsPriceError) {
	amounts := make([]decimal.Decimal, len(budgets))
	for i, b := range budgets {
		var err *budget.NeedsPriceError
		if amounts[i], err = budget.WorstCase(b, m, model.Request{}); err != nil {
			return nil, err
		}
	}
	return amounts, nil
}

// ranks order the reasons of refusals: the one that a user has to act on comes first.
var ranks = map[string]int{
	v1alpha1.ReasonBudgetInvalid: 1, v1alpha1.ReasonBudgetExhausted: 2, v1alpha1.ReasonBudgetPaused: 3,
	v1alpha1.ReasonBudgetFull: 4,
}

// check returns the most severe refusal of Budgets, as far as is known.
func (k *Keeper) check(
	payer budget.Payer, budgets []*v1alpha1.Budget, amounts []decimal.Decimal,
) *budget.Refusal {
	var worst *budget.Refusal
	rank := func(r *budget.Refusal) int {
		if r.Ends {
			return 0
		}
		return ranks[r.Reason]
	}
	for i, b := range budgets {
		refusal := k.book(b).check(payer, amounts[i])
		if refusal != nil && (worst == nil || rank(refusal) < rank(worst)) {
			worst = refusal
		}
	}
	return worst
}

// Wait returns the Ticket of a Turn whose call was refused. wake is called when it has room, or another reason to wait.
// A Turn that has a Ticket for the Budget keeps its place in line.
func (k *Keeper) Wait(
	ctx context.Context, payer budget.Payer, refusal *budget.Refusal, wake func(),
) (*Ticket, error) {
	matching, selected, err := k.matching(ctx, payer)
	if err != nil {
		return nil, err
	}
	for _, b := range matching {
		if b.Name != refusal.Budget {
			continue
		}
		book := k.book(b)
		t := &Ticket{
			book: book, turn: payer.Turn, root: payer.RootUID, wake: wake, refusal: refusal, amount: refusal.Amount,
			selected: selected, generation: b.Generation,
		}
		book.mu.Lock()
		book.queueUp(t)
		book.mu.Unlock()
		book.review()
		return t, nil
	}
	return nil, nil
}

// matching returns the Budgets that count for a payer, by name, and the labels of its Session, which are not read if
// every Budget selects all.
func (k *Keeper) matching(ctx context.Context, payer budget.Payer) ([]*v1alpha1.Budget, labels.Set, error) {
	all, err := k.Store.Budgets(ctx, payer.Namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the Budgets of namespace %s: %w", payer.Namespace, err)
	}
	var matching []*v1alpha1.Budget
	var session labels.Set
	for i := range all {
		b := &all[i]
		if !budget.Everything(b.Spec.SessionSelector) {
			if session == nil {
				if session, err = k.Store.Labels(ctx, payer); err != nil {
					return nil, nil, fmt.Errorf("reading the labels of Session %s for Budgets: %w", payer.Root, err)
				}
				session = labels.Merge(session, nil) // Never nil.
			}
			if !budget.Selects(b, session) {
				continue
			}
		}
		matching = append(matching, b)
	}
	slices.SortFunc(matching, func(a, b *v1alpha1.Budget) int { return cmp.Compare(a.Name, b.Name) })
	return matching, session, nil
}

// book returns the writer of a Budget.
func (k *Keeper) book(b *v1alpha1.Budget) *book {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.books[b.UID]
	if found == nil {
		found = &book{
			keeper: k, key: types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, uid: b.UID,
		}
		k.books[b.UID] = found
	}
	return found
}

// Observe learns a version of a Budget that a watch has shown.
func (k *Keeper) Observe(b *v1alpha1.Budget) {
	book := k.book(b)
	book.learn(b.DeepCopy())
	book.review()
}

// Relabelled learns that the labels of a Session have changed: another Budget may count for the Turns of its tree.
// Those that wait are woken to find out.
func (k *Keeper) Relabelled(root types.UID) {
	k.mu.Lock()
	books := slices.Collect(maps.Values(k.books))
	k.mu.Unlock()
	for _, b := range books {
		for _, wake := range b.expire(func(t *Ticket) bool { return t.root == root }) {
			wake()
		}
	}
}

// Gone learns that the Budgets of a name do not exist, but for the one with the given UID; empty for none.
func (k *Keeper) Gone(key types.NamespacedName, except types.UID) {
	k.mu.Lock()
	var gone []*book
	for uid, b := range k.books {
		if b.key == key && uid != except {
			gone = append(gone, b)
			delete(k.books, uid)
		}
	}
	k.mu.Unlock()
	for _, b := range gone {
		b.mu.Lock()
		b.known, b.gone = nil, true
		b.mu.Unlock()
		b.review()
	}
}

// Foreign returns the reservations of a Budget that other processes have made.
func (k *Keeper) Foreign(b *v1alpha1.Budget) []budget.Key {
	return budget.Open(b.DeepCopy(), k.Clock()).Foreign(k.holder)
}

// Forfeit counts a reservation of another process in full. It does not wait.
func (k *Keeper) Forfeit(b *v1alpha1.Budget, key budget.Key) {
	k.book(b).submit(&change{key: key, done: make(chan struct{})})
}

// Refresh writes the status of a Budget if it is not up to date. It does not wait.
func (k *Keeper) Refresh(b *v1alpha1.Budget) {
	k.book(b).submit(&change{done: make(chan struct{})})
}

// idle reports that a writer has nothing to write.
func (k *Keeper) idle() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.settled)
	k.settled = make(chan struct{})
}

// Flush waits until all changes are stored.
func (k *Keeper) Flush(ctx context.Context) error {
	for {
		k.mu.Lock()
		changed, writing := k.settled, false
		for _, b := range k.books {
			b.mu.Lock()
			writing = writing || b.running
			b.mu.Unlock()
		}
		k.mu.Unlock()
		if !writing {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
