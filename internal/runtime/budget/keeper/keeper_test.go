package keeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// worst is the worst case of a call of the model that tests call, in tokens.
const worst = 1000 + 500

// called is that Model.
func called() *v1alpha1.Model {
	return &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "m"},
		Spec:       v1alpha1.ModelSpec{Parameters: &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](500)}},
	}
}

// payer is a Turn that pays.
func payer(n int) budget.Payer {
	return budget.Payer{Namespace: "ns", Root: "s", RootUID: "s", Turn: types.UID(fmt.Sprintf("turn-%d", n)), Step: 1}
}

func newKeeper(s *store) *Keeper { return New(s, func() time.Time { return epoch }) }

func flush(t *testing.T, k *Keeper) {
	t.Helper()
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Rules: BUDGET-03.
func TestAReservationIsReplacedByWhatTheCallHasCost(t *testing.T) {
	for name, test := range map[string]struct {
		outcome Outcome
		want    string
	}{
		"a response":       {Outcome{Usage: &model.Usage{InputTokens: 10, OutputTokens: 5}}, "15"},
		"a refusal":        {Outcome{Free: true}, "0"},
		"an unknown end":   {Outcome{}, "1500"},
		"no usage is told": {Outcome{Usage: &model.Usage{}}, "1500"},
		"more than the worst case": {
			Outcome{Usage: &model.Usage{InputTokens: 3000, OutputTokens: 5}}, "3005",
		},
		"a claim": {Outcome{Usage: &model.Usage{InputTokens: 10, OutputTokens: 5}, Claimed: true}, "15"},
		"a claim of more than the worst case": {
			Outcome{Usage: &model.Usage{InputTokens: math.MaxInt64, OutputTokens: 5}, Claimed: true}, "1500",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(limited("b", "10000"))
			k := newKeeper(s)
			charge, err := k.Reserve(t.Context(), payer(1), called(), model.Request{})
			if err != nil {
				t.Fatal(err)
			}
			stored := s.get("b").Status
			if len(stored.Reservations) != 1 || stored.Reserved != "1500" || stored.Spent != "0" {
				t.Fatalf("stored %+v", stored)
			}
			charge.Settle(test.outcome)
			charge.Settle(test.outcome)
			flush(t, k)
			stored = s.get("b").Status
			if len(stored.Reservations) != 0 || stored.Reserved != "0" || stored.Spent != test.want {
				t.Fatalf("stored %+v, want %s spent", stored, test.want)
			}
			if s.writes != 2 {
				t.Errorf("%d writes", s.writes)
			}
		})
	}
}

func TestOneWriteHasAllThatHaveGathered(t *testing.T) {
	s := newStore(limited("b", "1000000"))
	k := newKeeper(s)
	s.held = make(chan struct{})
	var calls sync.WaitGroup
	reserve := func(n int) {
		calls.Go(func() {
			if _, err := k.Reserve(t.Context(), payer(n), called(), model.Request{}); err != nil {
				t.Error(err)
			}
		})
	}
	// The first write has the first reservation alone: however the threads run, the others gather behind it.
	reserve(0)
	for s.waiting.Load() == 0 {
		runtime.Gosched()
	}
	for n := 1; n < 100; n++ {
		reserve(n)
	}
	gathered := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		b := k.books["uid-b"]
		if b == nil {
			return 0
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.queue)
	}
	for gathered() < 99 {
		runtime.Gosched()
	}
	close(s.held)
	calls.Wait()
	if s.writes > 12 {
		t.Errorf("%d writes for 100 reservations", s.writes)
	}
	if got := len(s.get("b").Status.Reservations); got != 100 {
		t.Errorf("%d reservations", got)
	}
}

func TestAllBudgetsReserveOrNone(t *testing.T) {
	s := newStore(limited("a", "10000"), limited("b", "10000"), limited("c", "1000"))
	k := newKeeper(s)
	_, err := k.Reserve(t.Context(), payer(1), called(), model.Request{})
	var refusal *budget.Refusal
	if !errors.As(err, &refusal) || refusal.Budget != "c" || refusal.Reason != v1alpha1.ReasonBudgetExhausted {
		t.Fatalf("error %v", err)
	}
	flush(t, k)
	for _, name := range []string{"a", "b", "c"} {
		if stored := s.get(name).Status; len(stored.Reservations) > 0 || stored.Spent != "0" {
			t.Errorf("Budget %s has %+v", name, stored)
		}
	}
	writes := s.writes
	if _, err := k.Reserve(t.Context(), payer(2), called(), model.Request{}); !errors.As(err, &refusal) {
		t.Fatalf("error %v", err)
	}
	flush(t, k)
	if s.writes != writes {
		t.Errorf("a further refusal has cost %d writes", s.writes-writes)
	}
}

// TestNoFaultLetsTheLimitPass has two processes reserve and settle under every fault, and compares what each call that
// began has cost with the limit, and with what the Budget shows.
//
// Rules: BUDGET-03.
func TestNoFaultLetsTheLimitPass(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newStore(limited("a", "40000"), limited("b", "30000"))
			s.fault = random(seed)
			keepers := []*Keeper{newKeeper(s), newKeeper(s)}
			var billed atomic.Int64
			var calls sync.WaitGroup
			for n := range 60 {
				calls.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // Reproducible.
					k := keepers[n%2]
					charge, err := k.Reserve(t.Context(), payer(n), called(), model.Request{})
					if err != nil {
						return
					}
					if charge == nil {
						t.Error("no Budget counts")
						return
					}
					// The call begins.
					cost := r.Int64N(worst)
					billed.Add(cost)
					if n%5 == 0 {
						s.deliver()
					}
					charge.Settle(Outcome{Usage: &model.Usage{InputTokens: cost, OutputTokens: 0}})
				})
			}
			calls.Wait()
			for _, k := range keepers {
				flush(t, k)
			}
			s.deliver()
			if got := billed.Load(); got > 30000 {
				t.Errorf("%d tokens were billed", got)
			}
			for name, limit := range map[string]int64{"a": 40000, "b": 30000} {
				if s.most[name].GreaterThan(decimal.NewFromInt(limit)) {
					t.Errorf("Budget %s had %s spent and reserved", name, s.most[name])
				}
				spent := decimal.RequireFromString(s.get(name).Status.Spent)
				if spent.LessThan(decimal.NewFromInt(billed.Load())) {
					t.Errorf("Budget %s shows %s, %d were billed", name, spent, billed.Load())
				}
			}
		})
	}
}

func TestAReservationThatFailedIsRemovedIfItArrivesLate(t *testing.T) {
	s := newStore(limited("b", "2000"))
	k := newKeeper(s)
	failures := 0
	s.fault = func() fault {
		failures++
		if failures <= failuresOfReserve {
			return lateRequest
		}
		return none
	}
	if _, err := k.Reserve(t.Context(), payer(1), called(), model.Request{}); !errors.Is(err, errCut) {
		t.Fatalf("error %v", err)
	}
	s.deliver()
	if got := s.get("b").Status.Reserved; got != "1500" {
		t.Fatalf("%s reserved", got)
	}
	charge, err := k.Reserve(t.Context(), payer(2), called(), model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	charge.Settle(Outcome{Free: true})
	flush(t, k)
	if got := s.get("b").Status; got.Spent != "0" || got.Reserved != "0" {
		t.Errorf("stored %+v", got)
	}
}

func TestACallThatIsAbandonedWhileItReservesHoldsNothing(t *testing.T) {
	s := newStore(limited("b", "2000"))
	k := newKeeper(s)
	s.held = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := k.Reserve(ctx, payer(1), called(), model.Request{})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	close(s.held)
	for {
		flush(t, k)
		if got := s.get("b").Status; got.Spent == "0" && got.Reserved == "0" {
			break
		}
	}
}

// waitFor makes a Turn wait after its refusal, and counts how often it is woken.
func waitFor(t *testing.T, k *Keeper, n int) (*Ticket, *atomic.Int32) {
	t.Helper()
	_, err := k.Reserve(t.Context(), payer(n), called(), model.Request{})
	var refusal *budget.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v", err)
	}
	woken := &atomic.Int32{}
	ticket, err := k.Wait(t.Context(), payer(n), refusal, func() { woken.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	return ticket, woken
}

func TestRoomWakesThoseThatHaveIt(t *testing.T) {
	s := newStore(limited("b", "3000"))
	k := newKeeper(s)
	var charges []*Charge
	for n := range 2 {
		charge, err := k.Reserve(t.Context(), payer(n), called(), model.Request{})
		if err != nil {
			t.Fatal(err)
		}
		charges = append(charges, charge)
	}
	first, firstWoken := waitFor(t, k, 10)
	second, secondWoken := waitFor(t, k, 11)
	charges[0].Settle(Outcome{Free: true})
	flush(t, k)
	if first.Refusal() != nil || firstWoken.Load() != 1 {
		t.Fatalf("the first still waits: %v", first.Refusal())
	}
	if second.Refusal() == nil || secondWoken.Load() != 0 {
		t.Fatal("the second was woken for room that is kept for the first")
	}
	if _, err := k.Reserve(t.Context(), payer(12), called(), model.Request{}); err == nil {
		t.Error("another call took the room that is kept for the first")
	}
	first.Withdraw()
	if second.Refusal() != nil || secondWoken.Load() != 1 {
		t.Error("the second was not woken")
	}
	if _, err := k.Reserve(t.Context(), payer(11), called(), model.Request{}); err != nil {
		t.Error(err)
	}
}

func TestAChangeOfTheBudgetWakes(t *testing.T) {
	for name, change := range map[string]func(*store, *Keeper){
		"a higher limit": func(s *store, k *Keeper) {
			b := s.get("b")
			b.Spec.Limit, b.Generation, b.ResourceVersion = "9000", 2, after(b.ResourceVersion)
			k.Observe(b)
		},
		"another selector": func(s *store, k *Keeper) {
			b := s.get("b")
			b.Spec.SessionSelector.MatchLabels = map[string]v1alpha1.BudgetSelectorValue{"team": "x"}
			b.Generation, b.ResourceVersion = 2, after(b.ResourceVersion)
			k.Observe(b)
		},
		"its deletion": func(_ *store, k *Keeper) {
			k.Gone(types.NamespacedName{Namespace: "ns", Name: "b"}, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(limited("b", "1000"))
			k := newKeeper(s)
			ticket, woken := waitFor(t, k, 1)
			change(s, k)
			if ticket.Refusal() != nil || woken.Load() != 1 {
				t.Errorf("still waits: %v, woken %d", ticket.Refusal(), woken.Load())
			}
		})
	}
}

func TestATurnThatWaitsForAPriceIsWokenByItsBudget(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*store, *Keeper)
		woken  int32
	}{
		"its deletion": {func(_ *store, k *Keeper) {
			k.Gone(types.NamespacedName{Namespace: "ns", Name: "b"}, "")
		}, 1},
		"a change": {func(s *store, k *Keeper) {
			b := s.get("b")
			b.Spec.SessionSelector.MatchLabels = map[string]v1alpha1.BudgetSelectorValue{"team": "x"}
			b.Generation, b.ResourceVersion = 2, after(b.ResourceVersion)
			k.Observe(b)
		}, 1},
		"its status": {func(s *store, k *Keeper) {
			b := s.get("b")
			b.ResourceVersion = after(b.ResourceVersion)
			k.Observe(b)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := limited("b", "1000")
			b.Spec.Unit, b.Spec.Currency = v1alpha1.BudgetUnitCurrency, "USD"
			s := newStore(b)
			k := newKeeper(s)
			k.Observe(s.get("b"))
			refusal, err := k.Standing(t.Context(), payer(1), []*v1alpha1.Model{called()})
			if err != nil || refusal == nil || refusal.Budget != "b" {
				t.Fatalf("refusal %+v, error %v", refusal, err)
			}
			woken := &atomic.Int32{}
			ticket, err := k.Wait(t.Context(), payer(1), refusal, func() { woken.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			test.change(s, k)
			if woken.Load() != test.woken || (ticket.Refusal() == nil) != (test.woken > 0) {
				t.Errorf("woken %d times, refusal %v", woken.Load(), ticket.Refusal())
			}
		})
	}
}

func TestOtherLabelsWakeTheTurnsOfTheirTreeAndKeepNoRoom(t *testing.T) {
	s := newStore(limited("b", "2000"))
	k := newKeeper(s)
	charge, err := k.Reserve(t.Context(), payer(0), called(), model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	first, firstWoken := waitFor(t, k, 1)
	second, secondWoken := waitFor(t, k, 2)
	k.Relabelled("another")
	if first.Refusal() == nil || firstWoken.Load() != 0 {
		t.Fatal("the labels of another Session have woken the Turn")
	}
	k.Relabelled(payer(1).RootUID)
	if first.Refusal() != nil || firstWoken.Load() != 1 || second.Refusal() != nil || secondWoken.Load() != 1 {
		t.Fatal("a Turn was not woken")
	}
	// The Budget still counts for the first, and its place in line is the earlier one.
	second, _ = waitFor(t, k, 2)
	first, _ = waitFor(t, k, 1)
	charge.Settle(Outcome{Free: true})
	flush(t, k)
	if first.Refusal() != nil || second.Refusal() == nil {
		t.Errorf("the first waits for %v, the second for %v", first.Refusal(), second.Refusal())
	}
}

func TestLabelsSelect(t *testing.T) {
	b := limited("b", "1000")
	b.Spec.SessionSelector.MatchLabels = map[string]v1alpha1.BudgetSelectorValue{"team": "x"}
	s := newStore(b)
	k := newKeeper(s)
	s.labels = labels.Set{"team": "y"}
	if charge, err := k.Reserve(t.Context(), payer(1), called(), model.Request{}); charge != nil || err != nil {
		t.Errorf("charge %v, error %v", charge, err)
	}
	if s.writes+s.reads > 0 {
		t.Error("a Budget that does not count has cost requests")
	}
	s.labels = labels.Set{"team": "x"}
	if _, err := k.Reserve(t.Context(), payer(1), called(), model.Request{}); err == nil {
		t.Error("the Budget does not count")
	}
}

func TestAModelWithoutAPriceCannotBeUsed(t *testing.T) {
	b := limited("b", "1000")
	b.Spec.Unit, b.Spec.Currency = v1alpha1.BudgetUnitCurrency, "USD"
	k := newKeeper(newStore(b))
	var unpriced *budget.NeedsPriceError
	if _, err := k.Reserve(t.Context(), payer(1), called(), model.Request{}); !errors.As(err, &unpriced) {
		t.Errorf("error %v", err)
	}
	refusal, err := k.Standing(t.Context(), payer(1), []*v1alpha1.Model{called()})
	if err != nil || refusal == nil || refusal.Reason != v1alpha1.ReasonBudgetNeedsPrice {
		t.Errorf("refusal %v, error %v", refusal, err)
	}
}

func TestWhatEarlierProcessesHaveLeftCountsInFull(t *testing.T) {
	s := newStore(limited("b", "10000"))
	if _, err := newKeeper(s).Reserve(t.Context(), payer(1), called(), model.Request{}); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(s)
	keys := k.Foreign(s.get("b"))
	if len(keys) != 1 {
		t.Fatalf("foreign %v", keys)
	}
	charge, err := k.Reserve(t.Context(), payer(2), called(), model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if open := s.get("b").Status.Reservations; len(open) != 2 {
		t.Fatalf("reservations %+v", open)
	}
	k.Forfeit(s.get("b"), keys[0])
	charge.Settle(Outcome{Usage: &model.Usage{InputTokens: 7}})
	flush(t, k)
	if got := s.get("b").Status.Spent; got != "1507" {
		t.Errorf("%s spent", got)
	}
}
