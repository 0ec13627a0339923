package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// setPrice gives a Model another price, as JSON, and waits until the manager has seen it.
func setPrice(ctx context.Context, namespace, name, price string) {
	GinkgoHelper()
	model := &v1alpha1.Model{}
	model.Namespace, model.Name = namespace, name
	change(ctx, model, fmt.Sprintf(`{"spec":{"price":%s}}`, price))
	Eventually(func() (*v1alpha1.Model, error) {
		seen := &v1alpha1.Model{}
		return seen, kit.Client.Get(ctx, client.ObjectKeyFromObject(model), seen)
	}).Should(HaveField("Status.ObservedGeneration", model.Generation))
}

// priceOf is a price in JSON.
func priceOf(currency, input, output string) string {
	return fmt.Sprintf(`{"currency":%q,"inputPerMillionTokens":%q,"outputPerMillionTokens":%q}`, currency, input, output)
}

// ended waits until a Turn has ended and its Session is released.
func ended(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
	expectReleased(ctx, namespace, "demo")
	turn, err := kit.Turn(ctx, namespace, name)()
	Expect(err).NotTo(HaveOccurred())
	return turn
}

// spent returns the cost of so many tokens at a price for a million each, in the form that status has it.
func spent(u v1alpha1.Usage, input, output string) string {
	GinkgoHelper()
	sum := new(big.Rat)
	for tokens, price := range map[int64]string{u.InputTokens: input, u.OutputTokens: output} {
		each, ok := new(big.Rat).SetString(price)
		Expect(ok).To(BeTrue())
		sum.Add(sum, each.Mul(each, big.NewRat(tokens, 1e6)))
	}
	return strings.TrimSuffix(strings.TrimRight(sum.FloatString(12), "0"), ".")
}

// costsOf are the costs that the journal has of model calls, in order.
func costsOf(ctx context.Context, namespace string) []*v1alpha1.Cost {
	GinkgoHelper()
	var found []*v1alpha1.Cost
	for _, entry := range journalOf(ctx, namespace) {
		for _, e := range entry.Events {
			if e.Type != "llm.generation" {
				continue
			}
			var g struct {
				Cost *v1alpha1.Cost `json:"cost"`
			}
			Expect(json.Unmarshal(e.Data.Raw, &g)).To(Succeed())
			found = append(found, g.Cost)
		}
	}
	return found
}

// costMetric returns the value of the metric of a currency; nil without one.
func costMetric(currency string) *float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "capstan_model_cost_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == currency {
				value := m.GetCounter().GetValue()
				return &value
			}
		}
	}
	return nil
}

var _ = Describe("The cost of model calls", func() {
	It("is added up in the Turn and in its Session, and costs no write", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("The answer has some tokens."))
		setPrice(ctx, namespace, "simulated", priceOf("XPT", "3", "15.25"))
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		first := ended(ctx, namespace, "demo-1")
		expectWrites(ctx, namespace, before, Equal(slices.Concat(beginning, ending)))
		u := first.Status.Summary.Usage
		Expect(u.InputTokens).NotTo(Equal(u.OutputTokens))
		cost := v1alpha1.Cost{Currency: "XPT", Amount: spent(u, "3", "15.25")}
		Expect(first.Status.Summary.Cost).To(Equal([]v1alpha1.Cost{cost}))
		Expect(first.Status.Summary.UnpricedModelCalls).To(BeZero())
		Expect(costsOf(ctx, namespace)).To(Equal([]*v1alpha1.Cost{&cost}))
		Expect(costMetric("XPT")).To(HaveValue(BeNumerically(">", 0)))

		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again, with a longer message").Obj())
		second := ended(ctx, namespace, "demo-2")
		totals := sessionOf(ctx, namespace, "demo").Status.Totals
		Expect(totals.Usage.InputTokens).To(Equal(u.InputTokens + second.Status.Summary.Usage.InputTokens))
		Expect(totals.Cost).To(Equal([]v1alpha1.Cost{{Currency: "XPT", Amount: spent(totals.Usage, "3", "15.25")}}))
		Expect(totals.UnpricedModelCalls).To(BeZero())
	})

	It("follows the price from call to call, and does not change recorded costs", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Yes."))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("One").Obj())
		unpriced := ended(ctx, namespace, "demo-1")
		Expect(unpriced.Status.Summary.Cost).To(BeNil())
		Expect(unpriced.Status.Summary.UnpricedModelCalls).To(BeEquivalentTo(1))

		setPrice(ctx, namespace, "simulated", priceOf("ABC", "1", "2"))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Two").Obj())
		second := ended(ctx, namespace, "demo-2")
		Expect(
			second.Status.Summary.Cost,
		).To(Equal([]v1alpha1.Cost{{Currency: "ABC", Amount: spent(second.Status.Summary.Usage, "1", "2")}}))
		Expect(costMetric("ABC")).To(BeNil(), "the currency is unknown")

		setPrice(ctx, namespace, "simulated", priceOf("ABB", "100", "0.000001"))
		create(ctx, builder.Turn("demo-3").In(namespace).Input("Three").Obj())
		third := ended(ctx, namespace, "demo-3")
		Expect(
			third.Status.Summary.Cost,
		).To(Equal([]v1alpha1.Cost{{Currency: "ABB", Amount: spent(third.Status.Summary.Usage, "100", "0.000001")}}))
		Expect(kit.Turn(ctx, namespace, "demo-2")()).To(HaveField("Status.Summary", Equal(second.Status.Summary)))
		totals := sessionOf(ctx, namespace, "demo").Status.Totals
		Expect(
			totals.Cost,
		).To(Equal(slices.Concat(third.Status.Summary.Cost, second.Status.Summary.Cost)), "in the order of the currencies")
		Expect(totals.UnpricedModelCalls).To(BeEquivalentTo(1))
	})

	It("is that of the Model that has answered", func(ctx context.Context) {
		s := newSite(refusing(http.StatusUnauthorized, "authentication_error"))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, func(m *v1alpha1.Model) {
			m.Spec.Price = &v1alpha1.ModelPrice{InputPerMillionTokens: "100", OutputPerMillionTokens: "100"}
			m.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "simulated"}}
		})
		create(ctx, keySecret(namespace))
		setPrice(ctx, namespace, "simulated", priceOf("EUR", "0.5", "2"))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		turn := ended(ctx, namespace, "demo-1")
		cost := v1alpha1.Cost{Currency: "EUR", Amount: spent(turn.Status.Summary.Usage, "0.5", "2")}
		Expect(turn.Status.Summary.Cost).To(Equal([]v1alpha1.Cost{cost}))
		Expect(costsOf(ctx, namespace)).To(Equal([]*v1alpha1.Cost{nil, &cost}))
	})

	It("has a separate price for input from a prompt cache", func(ctx context.Context) {
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, newSite(anthropicText("Hi.")), func(m *v1alpha1.Model) {
			m.Spec.Price = &v1alpha1.ModelPrice{
				InputPerMillionTokens:       "3",
				OutputPerMillionTokens:      "15",
				CachedInputPerMillionTokens: "0.3",
			}
		})
		create(ctx, keySecret(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		// Of 100 tokens 90 came from the cache, and five were written.
		Expect(
			ended(ctx, namespace, "demo-1").Status.Summary.Cost,
		).To(Equal([]v1alpha1.Cost{{Currency: "USD", Amount: "0.000132"}}))
	})
})

var _ = Describe("The cost of a Turn under a manager that ends", Serial, Ordered, func() {
	var separate *rest.Config

	// another starts controllers in the place of those that have ended.
	another := func() {
		GinkgoHelper()
		started, err := capstantest.Start(context.Background(), separate, capstantest.Options{NoJobPlayer: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })
		kit = started
	}

	BeforeAll(func() {
		separate = suite.Start().Config
	})

	It("counts once, also when the Turn is applied again at another price", func(ctx context.Context) {
		restore := kit
		DeferCleanup(func() { kit = restore })
		another()
		namespace := newNamespace(ctx, builder.Script("Yes."))
		setPrice(ctx, namespace, "simulated", priceOf("CHF", "2", "4"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		before := ended(ctx, namespace, "demo-1")
		totals := sessionOf(ctx, namespace, "demo").Status.Totals
		Expect(totals.Cost).To(Equal(before.Status.Summary.Cost))
		counted := costMetric("CHF")
		Expect(counted).NotTo(BeNil())

		Expect(kit.Stop()).To(Succeed())
		another()
		setPrice(ctx, namespace, "simulated", priceOf("CHF", "20", "40"))
		Expect(kit.Client.Delete(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj())).To(Succeed())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		again := ended(ctx, namespace, "demo-1")
		Expect(reasonOf(again, v1alpha1.ConditionSucceeded)).To(Equal(v1alpha1.ReasonAlreadyRan))
		Expect(again.Status.Summary.Cost).To(Equal(before.Status.Summary.Cost))
		Expect(sessionOf(ctx, namespace, "demo").Status.Totals).To(Equal(totals))
		Expect(costMetric("CHF")).To(Equal(counted))
	})
})
