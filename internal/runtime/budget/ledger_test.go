package budget

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var start = time.Date(2026, 3, 31, 22, 30, 0, 0, time.UTC)

// dollars is a Budget in USD.
func dollars(limit v1alpha1.BudgetLimit, window v1alpha1.BudgetWindow) *v1alpha1.Budget {
	return &v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 1},
		Spec: v1alpha1.BudgetSpec{
			Unit: v1alpha1.BudgetUnitCurrency, Currency: "USD", Limit: limit, Window: window,
		},
	}
}

// of is an amount.
func of(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// spend reserves and settles an amount.
func spend(t *testing.T, b *v1alpha1.Budget, at time.Time, amount string) {
	t.Helper()
	l := Open(b, at)
	key, refusal := reserve(l, "t", 1, of(amount), decimal.Zero)
	if refusal != nil {
		t.Fatalf("refused: %v", refusal)
	}
	l.Settle(key, nil)
	l.Close()
}

// tries numbers the attempts of all tests.
var tries atomic.Int32

// reserve reserves an amount for one more attempt.
func reserve(l *Ledger, turn types.UID, step int32, amount, others decimal.Decimal) (Key, *Refusal) {
	key := Key{Turn: turn, Step: step, Try: tries.Add(1), Holder: "h"}
	return key, l.Reserve(key, amount, others)
}

func TestWindows(t *testing.T) {
	for name, test := range map[string]struct {
		window             v1alpha1.BudgetWindow
		zone, at, from, to string
	}{
		"a day":     {v1alpha1.BudgetWindowDay, "", "2026-03-31T23:59:59Z", "2026-03-31T00:00:00Z", "2026-04-01T00:00:00Z"},
		"its begin": {v1alpha1.BudgetWindowDay, "", "2026-04-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-04-02T00:00:00Z"},
		"a zone": {
			v1alpha1.BudgetWindowDay, "Asia/Tokyo", "2026-03-31T23:00:00Z", "2026-03-31T15:00:00Z",
			"2026-04-01T15:00:00Z",
		},
		"a Sunday": {v1alpha1.BudgetWindowWeek, "", "2026-03-29T12:00:00Z", "2026-03-23T00:00:00Z", "2026-03-30T00:00:00Z"},
		"a Monday": {v1alpha1.BudgetWindowWeek, "", "2026-03-30T00:00:00Z", "2026-03-30T00:00:00Z", "2026-04-06T00:00:00Z"},
		"a December": {
			v1alpha1.BudgetWindowMonth, "", "2026-12-31T23:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z",
		},
		"summer begins": {
			v1alpha1.BudgetWindowDay, "Europe/Berlin", "2026-03-29T10:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z",
		},
		"no midnight": {
			v1alpha1.BudgetWindowDay, "America/Sao_Paulo", "2018-11-04T12:00:00Z",
			"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, test.at)
			if err != nil {
				t.Fatal(err)
			}
			w, err := WindowAt(v1alpha1.BudgetSpec{Window: test.window, TimeZone: test.zone}, at)
			if err != nil || w.Start.Format(time.RFC3339) != test.from || w.End.Format(time.RFC3339) != test.to {
				t.Errorf("window %v, error %v", w, err)
			}
		})
	}
}

func TestAZoneThatCannotBeLoadedIsReported(t *testing.T) {
	for _, zone := range []string{"01:00", "Mars/Olympus", "Local"} {
		b := dollars("1", v1alpha1.BudgetWindowDay)
		b.Spec.TimeZone = zone
		l := Open(b, start)
		refusal := l.Check(of("0.1"), decimal.Zero)
		l.Close()
		ready := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady)
		if refusal == nil || refusal.Reason != v1alpha1.ReasonBudgetInvalid || ready == nil ||
			ready.Reason != v1alpha1.ReasonBudgetInvalid || !strings.Contains(ready.Message, zone) {
			t.Errorf("zone %s: refusal %v, condition %+v", zone, refusal, ready)
		}
	}
}

func TestAnotherWindowBeginsAtZeroAndKeepsOpenReservationsOut(t *testing.T) {
	b := dollars("1", v1alpha1.BudgetWindowMonth)
	spend(t, b, start, "0.5")
	l := Open(b, start)
	key, refusal := reserve(l, "t", 2, of("0.4"), decimal.Zero)
	if refusal != nil {
		t.Fatal(refusal)
	}
	l.Close()
	l = Open(b, start.Add(2*time.Hour))
	if refusal := l.Check(of("1"), decimal.Zero); refusal != nil {
		t.Errorf("April has no room: %v", refusal)
	}
	if !l.Settle(key, nil) {
		t.Error("the reservation of March is gone")
	}
	l.Close()
	if b.Status.Spent != "0" || b.Status.WindowStart.Format(time.RFC3339) != "2026-04-01T00:00:00Z" {
		t.Errorf("April has %+v", b.Status)
	}
	Open(b, start).Close()
	if b.Status.WindowStart.Month() != time.April {
		t.Error("a clock that went back has begun March again")
	}
}

func TestAChangeOfTheWindowKeepsWhatWasSpent(t *testing.T) {
	b := dollars("1", v1alpha1.BudgetWindowMonth)
	spend(t, b, start, "0.75")
	b.Spec.Window, b.Generation = v1alpha1.BudgetWindowDay, 2
	Open(b, start).Close()
	if b.Status.Spent != "0.75" || !b.Status.WindowStart.Equal(&metav1.Time{Time: start.Truncate(24 * time.Hour)}) {
		t.Errorf("status %+v", b.Status)
	}
}

func TestWhyACallHasNoRoom(t *testing.T) {
	for name, test := range map[string]struct {
		spent, reserved, amount, soft, limit string
		ends                                 v1alpha1.BudgetOnExhausted
		want                                 string
		stops                                bool
	}{
		"room":             {spent: "0.5", reserved: "0.25", amount: "0.25"},
		"after others":     {spent: "0.5", reserved: "0.25", amount: "0.26", want: v1alpha1.ReasonBudgetFull},
		"exhausted":        {spent: "0.5", reserved: "0.25", amount: "0.51", want: v1alpha1.ReasonBudgetExhausted},
		"ends":             {spent: "0.5", amount: "0.51", ends: "End", want: v1alpha1.ReasonBudgetExhausted, stops: true},
		"at the softLimit": {spent: "0.5", amount: "0.1", soft: "0.5"},
		"above it":         {spent: "0.5", amount: "0.1", soft: "0.49", want: v1alpha1.ReasonBudgetPaused},
		"above, and ends":  {spent: "0.5", amount: "0.1", soft: "0.49", ends: "End", want: v1alpha1.ReasonBudgetPaused},
		"invalid":          {limit: "much", amount: "0.1", want: v1alpha1.ReasonBudgetInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := dollars("1", "")
			for _, step := range []struct {
				amount  string
				settles bool
			}{{test.spent, true}, {test.reserved, false}} {
				if step.amount == "" {
					continue
				}
				l := Open(b, start)
				key, _ := reserve(l, "t", 1, of(step.amount), decimal.Zero)
				if step.settles {
					l.Settle(key, nil)
				}
				l.Close()
			}
			b.Spec.SoftLimit, b.Spec.OnExhausted = v1alpha1.BudgetLimit(test.soft), test.ends
			if test.limit != "" {
				b.Spec.Limit = v1alpha1.BudgetLimit(test.limit)
			}
			refusal := Open(b, start).Check(of(test.amount), decimal.Zero)
			switch {
			case refusal == nil && test.want != "", refusal != nil && refusal.Reason != test.want:
				t.Errorf("refusal %v, want %q", refusal, test.want)
			case refusal != nil && (refusal.Ends != test.stops || refusal.Message == ""):
				t.Errorf("refusal %+v", refusal)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	b := dollars("1", v1alpha1.BudgetWindowDay)
	is := func(kind string) bool { return meta.IsStatusConditionTrue(b.Status.Conditions, kind) }
	spend(t, b, start, "0.79")
	if is(v1alpha1.ConditionLowBalance) || is(v1alpha1.ConditionExhausted) || !is(v1alpha1.ConditionReady) {
		t.Errorf("conditions %+v", b.Status.Conditions)
	}
	spend(t, b, start, "0.01")
	if !is(v1alpha1.ConditionLowBalance) || b.Status.Balance != "0.2" {
		t.Errorf("conditions %+v", b.Status)
	}
	l := Open(b, start)
	if _, refusal := reserve(l, "t", 1, of("0.21"), decimal.Zero); refusal == nil {
		t.Fatal("not refused")
	}
	l.Close()
	if !is(v1alpha1.ConditionExhausted) {
		t.Error("not exhausted")
	}
	spend(t, b, start, "0.1")
	if !is(v1alpha1.ConditionExhausted) {
		t.Error("a smaller call has ended the exhaustion")
	}
	Open(b, start.Add(2*time.Hour)).Close()
	if is(v1alpha1.ConditionExhausted) || is(v1alpha1.ConditionLowBalance) {
		t.Errorf("the next window has %+v", b.Status.Conditions)
	}
}

func TestAtMostSoManyCallsAreOpen(t *testing.T) {
	b := dollars("1000", "")
	l := Open(b, start)
	for n := range v1alpha1.MaxBudgetReservations {
		if _, refusal := reserve(l, types.UID(fmt.Sprint(n)), 1, of("1"), decimal.Zero); refusal != nil {
			t.Fatalf("call %d: %v", n, refusal)
		}
	}
	if _, refusal := reserve(l, "x", 1, of("1"), decimal.Zero); refusal == nil ||
		refusal.Reason != v1alpha1.ReasonBudgetFull {
		t.Errorf("refusal %v", refusal)
	}
}

// FuzzLedger runs any operations, with a crash between any two: each begins with the stored status. What is spent and
// reserved never passes the limit while no call costs more than its reservation, and all but one worst case can be
// used.
//
// Rules: BUDGET-03.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(300))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // Reproducible.
		b, limit := dollars("1", ""), of("1")
		Open(b, start).Close()
		worst := decimal.New(int64(1+r.IntN(200_000)), -6)
		var calls []Key
		billed := decimal.Zero
		refused := false
		for range steps % 2000 {
			stored := b.DeepCopy()
			l := Open(b, start)
			// After a crash before the write nothing has changed: a call did not begin, or is not settled yet.
			crash := r.IntN(4) == 0
			if r.IntN(2) == 0 || len(calls) == 0 {
				key, refusal := reserve(l, types.UID(fmt.Sprint(r.IntN(3))), 1, worst, decimal.Zero)
				if refusal == nil && !crash {
					calls = append(calls, key)
				}
				refused = refused || refusal != nil && len(calls) == 0
			} else {
				i := r.IntN(len(calls))
				cost := worst.Mul(decimal.New(int64(r.IntN(11)), -1))
				actual := &cost
				if r.IntN(5) == 0 {
					actual = nil
				}
				if !l.Settle(calls[i], actual) || l.Settle(calls[i], actual) {
					t.Fatal("a reservation is not settled once")
				}
				if !crash {
					billed = billed.Add(cost)
					calls = append(calls[:i], calls[i+1:]...)
				}
			}
			l.Close()
			if crash {
				b = stored
			}
			if total := of(b.Status.Spent).Add(of(b.Status.Reserved)); billed.GreaterThan(total) || total.GreaterThan(limit) {
				t.Fatalf("%s is billed, spent %s, reserved %s", billed, b.Status.Spent, b.Status.Reserved)
			}
		}
		Open(b, start).Close()
		spent := of(b.Status.Spent)
		if spent.Add(of(b.Status.Reserved)).GreaterThan(limit) {
			t.Fatalf("spent %s, reserved %s", b.Status.Spent, b.Status.Reserved)
		}
		if refused && limit.Sub(spent).GreaterThanOrEqual(worst) && len(calls) == 0 {
			t.Fatalf("%s is left of the limit, a call needs %s", limit.Sub(spent), worst)
		}
	})
}
