package turns_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/shopspring/decimal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// crowd is how many Turns share a Budget, and crowdLimit its limit. CAPSTAN_CROWD=300 is the whole of it.
func crowd() (turns int, limit string) {
	if n, err := strconv.Atoi(os.Getenv("CAPSTAN_CROWD")); err == nil && n > 0 {
		return n, "1.00"
	}
	return 40, "0.25"
}

// billing is a model provider that bills every request when it arrives, in millionths of a dollar: 1 for a token that
// it reads, and 100 for one that it writes.
type billing struct {
	billed, calls atomic.Int64
}

// delegates is the tool that the model calls in its first response, by the tools that it is offered; empty for none.
func (b *billing) delegates(body []byte) string {
	if bytes.Contains(body, []byte(`"role":"tool"`)) {
		return ""
	}
	for _, tool := range []string{"research", "look"} {
		if bytes.Contains(body, []byte(`"name":"`+tool+`"`)) {
			return tool
		}
	}
	return ""
}

const (
	// billedOutput is the most that the model writes, and billedWorst the worst case of a call, in millionths of a
	// dollar: its request has fewer bytes than that.
	billedOutput = 200
	billedWorst  = 100*billedOutput + 1000 + 4000
)

// ServeHTTP implements http.Handler.
func (b *billing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n := b.calls.Add(1)
	read, wrote := int64(len(body)/4), 50+n*37%(billedOutput-50)
	b.billed.Add(read + 100*wrote)
	select {
	case <-r.Context().Done():
		return
	case <-time.After(time.Duration(20+n*13%80) * time.Millisecond):
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices, more string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}`+
			"\n\n", choices, more)
	}
	if tool := b.delegates(body); tool != "" {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d",`+
			`"type":"function","function":{"name":%q,"arguments":"{}"}}]},"finish_reason":null}`, n, tool), "")
		chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`, "")
	} else {
		chunk(`{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}`, "")
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	}
	chunk(
		"",
		fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, read, wrote, read+wrote),
	)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// Rules: BUDGET-03.
var _ = Describe("A crowd of Turns under one Budget", Ordered, func() {
	var separate *rest.Config
	var namespace string
	var double *billing
	BeforeAll(func() { separate = suite.Start().Config })
	BeforeEach(func() {
		restore := kit
		DeferCleanup(func() { kit = restore })
	})

	begin := func() *mortalManager {
		GinkgoHelper()
		return startMortal(separate, kitOptions())
	}

	// gather creates the Turns, each in a Session of its own; or a third of them, each of which has a sub-agent, which has
	// one itself. Only the Sessions of these Turns have the label that the Budget selects.
	gather := func(ctx context.Context, trees bool) (turns int, limit string) {
		if turns, limit = crowd(); trees {
			turns, limit = turns/3, decimal.RequireFromString(limit).Mul(decimal.NewFromInt(2)).String()
		}
		double = &billing{}
		server := newSite(double.ServeHTTP)
		namespace = suite.Namespace(ctx, kit.Client, "crowd-")
		model := builder.Model("billing").In(namespace).Default().Obj()
		model.Spec.Provider, model.Spec.Model = v1alpha1.ModelProviderOpenAI, "m"
		model.Spec.API, model.Spec.BaseURL = v1alpha1.ModelAPIChatCompletions, server.URL+"/v1"
		model.Spec.Price = &v1alpha1.ModelPrice{
			Currency: "USD", InputPerMillionTokens: "1", OutputPerMillionTokens: "100",
		}
		model.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](billedOutput)}
		root := builder.Harness("base").In(namespace)
		if trees {
			for _, of := range [][2]string{{"research", "researcher"}, {"look", "reader"}} {
				tool := builder.AgentTool(of[0], of[1]).In(namespace).Obj()
				tool.Spec.Agent.Timeout = &metav1.Duration{Duration: time.Hour}
				create(ctx, tool)
			}
			create(ctx, builder.Harness("researcher").In(namespace).Tools("look").Obj(),
				builder.Harness("reader").In(namespace).Obj())
			root.Tools("research")
		}
		create(ctx, model, root.Obj())
		b := builder.Budget("crowd", v1alpha1.BudgetLimit(limit)).In(namespace).Obj()
		b.Spec.SessionSelector.MatchLabels = map[string]v1alpha1.BudgetSelectorValue{"crowd": "yes"}
		inForce(ctx, b)
		for n := range turns {
			session := builder.Session(fmt.Sprintf("s-%d", n)).In(namespace).Obj()
			session.Labels = map[string]string{"crowd": "yes"}
			turn := builder.Turn(fmt.Sprintf("t-%d", n)).In(namespace).Obj()
			turn.Spec.SessionRef.Name = session.Name
			create(ctx, session, turn)
		}
		return turns, limit
	}

	// settle waits until every Turn has succeeded, waits for the limit, or waits for a sub-agent that does, and returns
	// what the Budget shows as spent.
	settle := func(ctx context.Context, turns int, trees bool) decimal.Decimal {
		Eventually(func(g Gomega) {
			var list v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			g.Expect(len(list.Items)).To(BeNumerically(">=", turns))
			succeeded := 0
			for _, turn := range list.Items {
				if turn.Status.Phase == v1alpha1.TurnPhaseSucceeded {
					succeeded++
					continue
				}
				g.Expect(turn).To(Or(waitForBudget(v1alpha1.ReasonBudgetExhausted), waitForAgent()), turn.Name)
			}
			// The first calls of trees, and those that kills have cut off, may use up the Budget before a Turn has ended.
			g.Expect(trees || succeeded > 0).To(BeTrue(), "no Turn has succeeded")
			g.Expect(succeeded).To(BeNumerically("<", len(list.Items)))
			b, err := budgetOf(ctx, namespace, "crowd")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.Status.Reservations).To(BeEmpty())
		}).WithTimeout(3 * time.Minute).Should(Succeed())
		b, err := budgetOf(ctx, namespace, "crowd")()
		Expect(err).NotTo(HaveOccurred())
		return decimal.RequireFromString(b.Status.Spent)
	}

	report := func(turns int, limit, billed, spent decimal.Decimal) {
		AddReportEntry(fmt.Sprintf("%d Turns, %d calls, %s of %s billed, %s spent",
			turns, double.calls.Load(), billed, limit, spent), ReportEntryVisibilityAlways)
	}

	DescribeTable("is used up but for one worst case", func(ctx context.Context, trees bool) {
		kit = begin().kit
		turns, text := gather(ctx, trees)
		spent := settle(ctx, turns, trees)
		limit, billed := decimal.RequireFromString(text), decimal.New(double.billed.Load(), -6)
		report(turns, limit, billed, spent)
		Expect(billed).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent.Equal(billed)).To(BeTrue(), "%s spent, %s billed", spent, billed)
		Expect(limit.Sub(billed)).To(Satisfy(decimal.New(billedWorst, -6).GreaterThan))
		Expect(kit.Stop()).To(Succeed())
	},
		Entry("by Turns", false),
		Entry("by trees of sub-agents", true),
	)

	DescribeTable("is never billed more than it, while two managers are killed again and again", func(
		ctx context.Context, trees bool,
	) {
		first, second := begin(), begin()
		kit = first.kit
		turns, text := gather(ctx, trees)
		for range 6 {
			<-time.After(700 * time.Millisecond)
			first.kill()
			first, second = second, begin()
			kit = second.kit
		}
		first.kill()
		spent := settle(ctx, turns, trees)
		limit, billed := decimal.RequireFromString(text), decimal.New(double.billed.Load(), -6)
		report(turns, limit, billed, spent)
		Expect(billed).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent).To(Satisfy(billed.LessThanOrEqual))
		Expect(billed).To(Satisfy(limit.Div(decimal.NewFromInt(4)).LessThan), "the Turns have called the model")
	},
		Entry("for Turns", false),
		Entry("for trees of sub-agents", true),
	)
})

// waitForAgent succeeds with a Turn that waits for nothing but sub-agents.
func waitForAgent() OmegaMatcher {
	return HaveField("Status.WaitsFor", And(
		Not(BeEmpty()), HaveEach(HaveField("Type", v1alpha1.WaitTypeSubAgent))))
}
