package turns_test

import (
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
	chunk(`{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}`, "")
	chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
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

	// gather creates the Turns, each in a Session of its own.
	gather := func(ctx context.Context) (turns int, limit string) {
		turns, limit = crowd()
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
		create(ctx, model, builder.Harness("base").In(namespace).Obj())
		inForce(ctx, builder.Budget("crowd", v1alpha1.BudgetLimit(limit)).In(namespace).Obj())
		for n := range turns {
			session := builder.Session(fmt.Sprintf("s-%d", n)).In(namespace).Obj()
			turn := builder.Turn(fmt.Sprintf("t-%d", n)).In(namespace).Obj()
			turn.Spec.SessionRef.Name = session.Name
			create(ctx, session, turn)
		}
		return turns, limit
	}

	// settle waits until every Turn has succeeded or waits for the limit, and returns what the Budget shows as spent.
	settle := func(ctx context.Context, turns int) decimal.Decimal {
		Eventually(func(g Gomega) {
			var list v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(turns))
			succeeded := 0
			for _, turn := range list.Items {
				if turn.Status.Phase == v1alpha1.TurnPhaseSucceeded {
					succeeded++
					continue
				}
				g.Expect(turn).To(waitForBudget(v1alpha1.ReasonBudgetExhausted), turn.Name)
			}
			g.Expect(succeeded).To(And(BeNumerically(">", 0), BeNumerically("<", turns)))
			b, err := budgetOf(ctx, namespace, "crowd")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.Status.Reservations).To(BeEmpty())
		}).WithTimeout(3 * time.Minute).Should(Succeed())
		b, err := budgetOf(ctx, namespace, "crowd")()
		Expect(err).NotTo(HaveOccurred())
		return decimal.RequireFromString(b.Status.Spent)
	}

	It("uses all but one worst case of it", func(ctx context.Context) {
		kit = begin().kit
		turns, text := gather(ctx)
		spent := settle(ctx, turns)
		limit, billed := decimal.RequireFromString(text), decimal.New(double.billed.Load(), -6)
		AddReportEntry(fmt.Sprintf("%d Turns, %d calls, %s of %s billed, %s spent",
			turns, double.calls.Load(), billed, limit, spent), ReportEntryVisibilityAlways)
		Expect(billed).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent.Equal(billed)).To(BeTrue(), "%s spent, %s billed", spent, billed)
		Expect(limit.Sub(billed)).To(Satisfy(decimal.New(billedWorst, -6).GreaterThan))
		Expect(kit.Stop()).To(Succeed())
	})

	It("is never billed more than it, while two managers are killed again and again", func(ctx context.Context) {
		first, second := begin(), begin()
		kit = first.kit
		turns, text := gather(ctx)
		for range 6 {
			<-time.After(700 * time.Millisecond)
			first.kill()
			first, second = second, begin()
			kit = second.kit
		}
		first.kill()
		spent := settle(ctx, turns)
		limit, billed := decimal.RequireFromString(text), decimal.New(double.billed.Load(), -6)
		AddReportEntry(fmt.Sprintf("%d Turns, %d calls, %s of %s billed, %s spent",
			turns, double.calls.Load(), billed, limit, spent), ReportEntryVisibilityAlways)
		Expect(billed).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent).To(Satisfy(limit.GreaterThanOrEqual))
		Expect(spent).To(Satisfy(billed.LessThanOrEqual))
	})
})
