package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// budgetWrite is a write of a Budget.
const budgetWrite = "PATCH budgets/status"

// pricedStage returns a namespace as newNamespace does, whose Model costs 1 USD for a million tokens: its worst case is
// a little more than 0.009 for 8192 tokens of a simulated response and 1000 additions of the provider.
func pricedStage(ctx context.Context, script v1alpha1.Simulation, tools ...*v1alpha1.Tool) string {
	GinkgoHelper()
	namespace := suite.Namespace(ctx, kit.Client, "turns-")
	create(ctx, priced(builder.Stage(namespace, script, tools...))...)
	return namespace
}

// priced gives the Models among objects a price.
func priced(objects []client.Object) []client.Object {
	for _, o := range objects {
		if m, ok := o.(*v1alpha1.Model); ok {
			m.Spec.Price = &v1alpha1.ModelPrice{
				Currency: "USD", InputPerMillionTokens: "1", OutputPerMillionTokens: "1",
			}
		}
	}
	return objects
}

// budgetOf returns the current Budget.
func budgetOf(ctx context.Context, namespace, name string) func() (*v1alpha1.Budget, error) {
	return func() (*v1alpha1.Budget, error) {
		b := &v1alpha1.Budget{}
		return b, kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
	}
}

// inForce creates a Budget and waits until the manager has seen it.
func inForce(ctx context.Context, b *v1alpha1.Budget) {
	GinkgoHelper()
	create(ctx, b)
	Eventually(budgetOf(ctx, b.Namespace, b.Name)).Should(HaveField("Status.ObservedGeneration", int64(1)))
}

// waitForBudget succeeds with a Turn that waits for a Budget for a reason.
func waitForBudget(reason string) OmegaMatcher {
	return HaveField("Status.TurnProgress", And(
		HaveField("Phase", v1alpha1.TurnPhaseWaiting),
		HaveField("WaitsFor", ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeBudget), HaveField("Reason", reason),
		))),
	))
}

// Rules: BUDGET-01, BUDGET-03, SM-09, LIFE-08.
var _ = Describe("A Budget", func() {
	It("is charged the actual cost of a call, for a plan, a reservation and a settlement", func(ctx context.Context) {
		namespace := pricedStage(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "1").In(namespace).Obj())
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		turn := ended(ctx, namespace, "demo-1")
		Expect(turn.Status.Summary.Cost).To(HaveLen(1))
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status", And(
			HaveField("Spent", turn.Status.Summary.Cost[0].Amount), HaveField("Reserved", "0"),
			HaveField("Reservations", BeEmpty()),
		)))
		expectWrites(ctx, namespace, before, ConsistOf(slices.Concat(
			beginning, []string{turnWrite}, times(2, budgetWrite), ending)))
	})

	It("pauses a Turn that does not fit, which continues when the limit is raised", func(ctx context.Context) {
		namespace := pricedStage(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "0.005").In(namespace).Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(waitForBudget(v1alpha1.ReasonBudgetExhausted))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhasePaused))
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", v1alpha1.ConditionExhausted), HaveField("Status", BeEquivalentTo("True")),
		))))
		waiting := len(requests.in(namespace))
		Consistently(func() int { return len(requests.in(namespace)) }).Should(Equal(waiting), "a wait costs writes")
		b, err := budgetOf(ctx, namespace, "team")()
		Expect(err).NotTo(HaveOccurred())
		change(ctx, b, `{"spec":{"limit":"1"}}`)
		ended(ctx, namespace, "demo-1")
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		Expect(budgetEvents(ctx, namespace)).To(Equal([]string{"budget.exhausted", "budget.resumed"}))
	})

	It("pauses a Turn above its softLimit, and continues when that is removed", func(ctx context.Context) {
		namespace := pricedStage(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "1").In(namespace).Soft("0").Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj(), builder.Turn("demo-2").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(waitForBudget(v1alpha1.ReasonBudgetPaused))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhasePaused))
		b, err := budgetOf(ctx, namespace, "team")()
		Expect(err).NotTo(HaveOccurred())
		change(ctx, b, `{"spec":{"softLimit":null}}`)
		ended(ctx, namespace, "demo-2")
		Expect(budgetEvents(ctx, namespace)).To(Equal([]string{"budget.paused", "budget.resumed"}))
	})

	It("makes a Turn wait for the price of its Model", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "1").In(namespace).Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(waitForBudget(v1alpha1.ReasonBudgetNeedsPrice))
		setPrice(ctx, namespace, "simulated", priceOf("EUR", "1", "1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.WaitsFor", ContainElement(
			HaveField("Message", ContainSubstring("EUR")))))
		setPrice(ctx, namespace, "simulated", priceOf("USD", "1", "1"))
		ended(ctx, namespace, "demo-1")
	})

	It("lets a Turn continue that waits for a price, when the Budget is deleted", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		team := builder.Budget("team", "1").In(namespace).Obj()
		inForce(ctx, team)
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(waitForBudget(v1alpha1.ReasonBudgetNeedsPrice))
		Expect(kit.Client.Delete(ctx, team)).To(Succeed())
		ended(ctx, namespace, "demo-1")
	})

	It("lets a sub-agent continue when the Session at the top of its tree has other labels", func(ctx context.Context) {
		helper := builder.AgentTool("helper", "helping").Obj()
		namespace := pricedStage(ctx, builder.Script("It found {{tool:helper}}.", builder.Calls("helper")), helper)
		dear := builder.Model("helping").In(namespace).Simulated(builder.Script("gold")).Obj()
		dear.Spec.Price = &v1alpha1.ModelPrice{
			Currency: "USD", InputPerMillionTokens: "1000", OutputPerMillionTokens: "1000",
		}
		create(ctx, dear, builder.Harness("helping").In(namespace).Model("helping").Obj())
		inForce(ctx, builder.Budget("team", "1").In(namespace).Labelled("team", "x").Obj())
		session := builder.Session("demo").In(namespace).Obj()
		session.Labels = map[string]string{"team": "x"}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		agents := func() ([]v1alpha1.Turn, error) {
			var list v1alpha1.TurnList
			err := kit.Client.List(ctx, &list, client.InNamespace(namespace))
			return slices.DeleteFunc(list.Items, func(t v1alpha1.Turn) bool { return t.Name == "demo-1" }), err
		}
		Eventually(agents).Should(ConsistOf(waitForBudget(v1alpha1.ReasonBudgetExhausted)))
		change(ctx, session, `{"metadata":{"labels":{"team":"y"}}}`)
		ended(ctx, namespace, "demo-1")
	})

	It("charges a call at the price that its Model had when it began", func(ctx context.Context) {
		script := builder.Script("Hello to you too.")
		script.Latency = seconds(2)
		namespace := pricedStage(ctx, script)
		inForce(ctx, builder.Budget("team", "1").In(namespace).Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status.Reservations", HaveLen(1)))
		setPrice(ctx, namespace, "simulated", priceOf("USD", "1000", "1000"))
		turn := ended(ctx, namespace, "demo-1")
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status", And(
			HaveField("Reservations", BeEmpty()), HaveField("Spent", spent(turn.Status.Summary.Usage, "1", "1")))))
	})

	It("counts sub-agents for the Session at the top of their tree", func(ctx context.Context) {
		helper := builder.AgentTool("helper", "helping").Obj()
		namespace := pricedStage(ctx, builder.Script("It found {{tool:helper}}.", builder.Calls("helper")), helper)
		create(ctx, priced([]client.Object{
			builder.Model("helping").In(namespace).Simulated(builder.Script("gold")).Obj(),
			builder.Harness("helping").In(namespace).Model("helping").Obj(),
		})...)
		inForce(ctx, builder.Budget("team", "1").In(namespace).Labelled("team", "x").Obj())
		inForce(ctx, builder.Budget("others", "1").In(namespace).Labelled("team", "y").Obj())
		session := builder.Session("demo").In(namespace).Obj()
		session.Labels = map[string]string{"team": "x"}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		turn := ended(ctx, namespace, "demo-1")
		own, agents := turn.Status.Summary.Usage, turn.Status.Summary.SubAgents.Usage
		all := v1alpha1.Usage{
			InputTokens: own.InputTokens + agents.InputTokens, OutputTokens: own.OutputTokens + agents.OutputTokens,
		}
		Expect(agents.OutputTokens).To(BeNumerically(">", 0))
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status.Spent", spent(all, "1", "1")))
		Expect(budgetOf(ctx, namespace, "others")()).To(HaveField("Status.Spent", "0"))
	})

	It("ends a Turn that does not fit, if it says so", func(ctx context.Context) {
		namespace := pricedStage(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "0.005").In(namespace).Ends().Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonBudgetExhausted))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		Expect(budgetEvents(ctx, namespace)).To(Equal([]string{"budget.exhausted"}))
	})
})

// budgetEvents are the types of the events of Budgets in the journal, in order.
func budgetEvents(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var found []string
	for _, entry := range journalOf(ctx, namespace) {
		for _, e := range entry.Events {
			switch e.Type {
			case "budget.warning", "budget.paused", "budget.exhausted", "budget.resumed":
				found = append(found, e.Type)
			}
		}
	}
	return found
}

// Rules: BUDGET-03.
var _ = Describe("The window of a Budget", Ordered, func() {
	clock := capstantest.NewClock(time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC))
	another := onOwnServer(capstantest.Options{Clock: clock})

	It("turns at the end of the month, and a Turn that waits continues", func(ctx context.Context) {
		kit = another()
		namespace := pricedStage(ctx, builder.Script("Hello to you too."))
		inForce(ctx, builder.Budget("team", "1").In(namespace).Soft("0").Each(v1alpha1.BudgetWindowMonth).Obj())
		startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj(), builder.Turn("demo-2").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(waitForBudget(v1alpha1.ReasonBudgetPaused))
		clock.Advance(time.Hour)
		Consistently(kit.Turn(ctx, namespace, "demo-2")).Should(waitForBudget(v1alpha1.ReasonBudgetPaused))
		clock.Advance(time.Hour)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Eventually(budgetOf(ctx, namespace, "team")).Should(HaveField("Status", And(
			HaveField("WindowStart.Time", BeTemporally("==", time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))),
			HaveField("Reservations", BeEmpty()))))
	})
})
