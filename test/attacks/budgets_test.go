package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// budgetAt is a Budget, and the time of its calls.
var budgetAt = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

func newBudget(unit v1alpha1.BudgetUnit) *v1alpha1.Budget {
	b := &v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: "b", Generation: 1},
		Spec:       v1alpha1.BudgetSpec{Unit: unit, Limit: "100", Window: v1alpha1.BudgetWindowDay},
	}
	if unit == v1alpha1.BudgetUnitCurrency {
		b.Spec.Currency = "USD"
	}
	return b
}

// spends reserves 60 of 100 for a call, settles it, and then reserves 60 for another one: which is refused, unless the
// settlement has made room that it must not.
func spends(b *v1alpha1.Budget, settle func(l *budget.Ledger, key budget.Key)) string {
	l := budget.Open(b, budgetAt)
	amount := decimal.NewFromInt(60)
	first := budget.Key{Turn: "turn", Step: 1, Try: 1, Holder: "manager"}
	if refusal := l.Reserve(first, amount, decimal.Zero); refusal != nil {
		return "the first call: " + refusal.Message
	}
	settle(l, first)
	if l.Room().GreaterThan(decimal.NewFromInt(100)) {
		return success
	}
	second := budget.Key{Turn: "turn", Step: 1, Try: 2, Holder: "manager"}
	if refusal := l.Reserve(second, amount, decimal.Zero); refusal != nil {
		return refused + refusal.Message
	}
	return success
}

// budgets are attempts of Sessions, of writers of Models and of hostile providers to use more than a Budget permits.
func budgets(*testing.T) subject {
	reported := func(name string, usage model.Usage) attempt {
		return attempt{name: name, run: func(context.Context) string {
			b := newBudget(v1alpha1.BudgetUnitTokens)
			return spends(b, func(l *budget.Ledger, key budget.Key) {
				var actual *decimal.Decimal
				if amount, known := budget.Actual(b, nil, usage); known {
					actual = &amount
				}
				l.Settle(key, actual)
			})
		}}
	}
	settled := func(name string, change func(key *budget.Key)) attempt {
		return attempt{name: name, run: func(context.Context) string {
			return spends(newBudget(v1alpha1.BudgetUnitTokens), func(l *budget.Ledger, key budget.Key) {
				change(&key)
				nothing := decimal.Zero
				l.Settle(key, &nothing)
			})
		}}
	}
	priced := func(name string, change func(m *v1alpha1.Model)) attempt {
		return attempt{name: name, run: func(context.Context) string {
			m := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.ModelSpec{
				Provider: v1alpha1.ModelProviderOpenAI, Price: &v1alpha1.ModelPrice{
					Currency: "USD", InputPerMillionTokens: "1", OutputPerMillionTokens: "1",
				},
			}}
			tokens := int32(1000)
			m.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: &tokens}
			change(m)
			worst, err := budget.WorstCase(newBudget(v1alpha1.BudgetUnitCurrency), m, model.Request{})
			if err == nil && worst.Sign() <= 0 {
				return success
			}
			return shown(worst.String(), err)
		}}
	}
	selected := func(name string, session labels.Set) attempt {
		return attempt{name: name, run: func(context.Context) string {
			b := newBudget(v1alpha1.BudgetUnitTokens)
			if !budget.Selects(b, session) {
				return success
			}
			return refused + "the Budget counts the Session"
		}}
	}
	return subject{
		name: "Budgets",
		classes: []class{
			{name: "what a hostile provider reports", refused: true, attempts: []attempt{
				reported("no tokens", model.Usage{}),
				reported("tokens below zero", model.Usage{InputTokens: -1000, OutputTokens: -1000}),
				reported("the least number of tokens", model.Usage{InputTokens: math.MinInt64, OutputTokens: math.MinInt64}),
				reported("the largest number of tokens", model.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}),
				reported("tokens that add up to less than nothing", model.Usage{
					InputTokens: math.MaxInt64, OutputTokens: 1,
				}),
			}},
			{name: "the reservation of another call, settled", refused: true, attempts: []attempt{
				settled("of another Turn", func(k *budget.Key) { k.Turn = "another" }),
				settled("of another step", func(k *budget.Key) { k.Step++ }),
				settled("of another attempt", func(k *budget.Key) { k.Try++ }),
				settled("of another manager", func(k *budget.Key) { k.Holder = "impostor" }),
			}},
			{name: "the price of a Model", refused: true, attempts: []attempt{
				priced("none", func(m *v1alpha1.Model) { m.Spec.Price = nil }),
				priced("in another currency", func(m *v1alpha1.Model) { m.Spec.Price.Currency = "XXX" }),
				priced("without a limit of the response", func(m *v1alpha1.Model) { m.Spec.Parameters = nil }),
				priced("that is no number", func(m *v1alpha1.Model) { m.Spec.Price.InputPerMillionTokens = "NaN" }),
				priced("below zero", func(m *v1alpha1.Model) {
					m.Spec.Price.InputPerMillionTokens, m.Spec.Price.OutputPerMillionTokens = "-1", "-1"
				}),
			}},
			{name: "labels of a Session, against a Budget for all", refused: true, attempts: []attempt{
				selected("none", nil), selected("of another tenant", labels.Set{"tenant": bystander}),
				selected("that exclude it", labels.Set{"capstan.dev/budget": "none"}),
			}},
		},
		other: func(context.Context) error {
			l := budget.Open(newBudget(v1alpha1.BudgetUnitTokens), budgetAt)
			for n := range 10 {
				key := budget.Key{Turn: types.UID(fmt.Sprint(n)), Step: 1, Try: 1, Holder: "manager"}
				if refusal := l.Reserve(key, decimal.NewFromInt(60), decimal.Zero); refusal != nil {
					return errors.New(refusal.Message)
				}
				actual := decimal.NewFromInt(1)
				l.Settle(key, &actual)
			}
			return nil
		},
	}
}
