package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// metered is a model provider that refuses more than a number of requests within a minute of a clock.
type metered struct {
	billing
	clock *capstantest.Clock
	limit int

	mu      sync.Mutex
	at      []time.Time
	refused int
}

// ServeHTTP implements http.Handler.
func (m *metered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := m.clock.Now()
	m.mu.Lock()
	m.at = slices.DeleteFunc(m.at, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	within := len(m.at) < m.limit
	if within {
		m.at = append(m.at, now)
	} else {
		m.refused++
	}
	m.mu.Unlock()
	if !within {
		http.Error(w, `{"error":{"message":"too many requests"}}`, http.StatusTooManyRequests)
		return
	}
	m.billing.ServeHTTP(w, r)
}

// modelAt returns a Model at a provider, with the key of the namespace.
func (m *metered) modelAt(namespace, name, url string) *v1alpha1.Model {
	model := builder.Model(name).In(namespace).Obj()
	model.Spec.Provider, model.Spec.Model = v1alpha1.ModelProviderOpenAI, "m"
	model.Spec.API, model.Spec.BaseURL = v1alpha1.ModelAPIChatCompletions, url+"/v1"
	model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "provider", Key: "api-key"}
	return model
}

// waitForRoom succeeds with a Turn that waits for the limits of its Model.
func waitForRoom() OmegaMatcher {
	return And(
		HaveField("Status.TurnProgress", And(
			HaveField("Phase", v1alpha1.TurnPhaseWaiting),
			HaveField("WaitsFor", ConsistOf(And(
				HaveField("Type", v1alpha1.WaitTypeRateLimit), HaveField("Reason", v1alpha1.ReasonRateLimited),
				HaveField("Until", Not(BeNil())),
			))),
		)),
		HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", v1alpha1.ConditionSucceeded), HaveField("Reason", v1alpha1.ReasonRateLimited),
		))),
	)
}

var _ = Describe("The limits of Models", Ordered, func() {
	clock := capstantest.NewClock(time.Now())
	begin := onOwnServer(capstantest.Options{
		Clock: clock, Providers: providers.All(), EgressAllow: loopback, EgressRoots: testRoots(),
		Transport: func(next http.RoundTripper) http.RoundTripper { return requests.wrap(next) },
	})

	// stage returns a namespace with a provider, which accepts so many requests in a minute, and two Models with one key,
	// of which the first states that limit.
	stage := func(ctx context.Context, limit int) (string, *metered) {
		GinkgoHelper()
		namespace := emptyNamespace(ctx)
		double := &metered{clock: clock, limit: limit}
		server := newSite(double.ServeHTTP)
		first, second := double.modelAt(namespace, "first", server.URL), double.modelAt(namespace, "second", server.URL)
		first.Spec.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To(int32(limit))}
		create(ctx, keySecret(namespace), first, second, builder.Harness("base").In(namespace).Model("first").Obj())
		return namespace, double
	}

	// run creates a Turn in a Session of its own, with one of the Models.
	run := func(ctx context.Context, namespace string, n int) {
		GinkgoHelper()
		session := builder.Session(fmt.Sprintf("s-%d", n)).In(namespace).Obj()
		session.Spec.ModelRef = &v1alpha1.LocalReference{Name: []string{"first", "second"}[n%2]}
		turn := builder.Turn(fmt.Sprintf("t-%d", n)).In(namespace).Obj()
		turn.Spec.SessionRef.Name = session.Name
		create(ctx, session, turn)
	}

	// phases are the Turns of a namespace by phase.
	phases := func(ctx context.Context, namespace string) map[v1alpha1.TurnPhase]int {
		var list v1alpha1.TurnList
		Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		found := map[v1alpha1.TurnPhase]int{}
		for _, turn := range list.Items {
			found[turn.Status.Phase]++
		}
		return found
	}

	It("let no request be refused that two Models send with one credential, and a wait costs one write",
		func(ctx context.Context) {
			kit = begin()
			namespace, double := stage(ctx, 3)
			for n := range 8 {
				run(ctx, namespace, n)
			}
			for _, done := range []int{3, 6} {
				Eventually(func() map[v1alpha1.TurnPhase]int { return phases(ctx, namespace) }).Should(Equal(
					map[v1alpha1.TurnPhase]int{v1alpha1.TurnPhaseSucceeded: done, v1alpha1.TurnPhaseWaiting: 8 - done}))
				Eventually(func(g Gomega) {
					var list v1alpha1.TurnList
					g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
					for _, turn := range list.Items {
						if turn.Status.Phase == v1alpha1.TurnPhaseWaiting {
							g.Expect(turn).To(waitForRoom())
						}
					}
				}).Should(Succeed())
				waiting := len(requests.in(namespace))
				Consistently(func() int { return len(requests.in(namespace)) }).Should(Equal(waiting), "a wait costs writes")
				clock.Advance(62 * time.Second)
			}
			Eventually(func() map[v1alpha1.TurnPhase]int { return phases(ctx, namespace) }).Should(Equal(
				map[v1alpha1.TurnPhase]int{v1alpha1.TurnPhaseSucceeded: 8}))
			Expect(double.calls.Load()).To(BeEquivalentTo(8))
			Expect(double.refused).To(BeZero())
			Expect(kit.Stop()).To(Succeed())
		})

	It("are counted anew by another manager", func(ctx context.Context) {
		kit = begin()
		namespace, double := stage(ctx, 1)
		double.limit = 2
		run(ctx, namespace, 1)
		Eventually(kit.Turn(ctx, namespace, "t-1")).Should(capstantest.HaveSucceeded())
		run(ctx, namespace, 2)
		Eventually(kit.Turn(ctx, namespace, "t-2")).Should(waitForRoom())
		Expect(kit.Stop()).To(Succeed())
		kit = begin()
		Eventually(kit.Turn(ctx, namespace, "t-2")).Should(capstantest.HaveSucceeded())
		Expect(double.calls.Load()).To(BeEquivalentTo(2))
	})
})

// Rules: TOOL-14, VEC-28.
var _ = Describe("A tool with callsPerMinute", func() {
	It("does not run more often, and the model is told when to call it again", func(ctx context.Context) {
		s := newSite(responds("clear"))
		tool := s.tool("ask", v1alpha1.SideEffectAtMostOnce)
		tool.Spec.CallsPerMinute = ptr.To[int32](2)
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}", []v1alpha1.SimulatedToolCall{
			builder.Call("ask"), builder.Call("ask"), builder.Call("ask"),
		}), tool)
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
		turn := answered(ctx, namespace)
		Expect(s.requests()).To(HaveLen(2))
		states := map[v1alpha1.ToolCallState]int{}
		refused := ""
		for _, call := range turn.Status.ToolCalls {
			states[call.State]++
			if call.State == v1alpha1.ToolCallStateNotExecuted {
				refused = call.ID
				Expect(call.Reason).To(Equal(v1alpha1.ToolCallReasonRateLimited))
			}
		}
		Expect(states).To(Equal(map[v1alpha1.ToolCallState]int{
			v1alpha1.ToolCallStateSucceeded: 2, v1alpha1.ToolCallStateNotExecuted: 1,
		}))
		told, claimed := "", 0
		for _, entry := range journalOf(ctx, namespace) {
			if claim := entry.Claimed; claim != nil {
				Expect(claim.ID).NotTo(Equal(refused), "a refused call was claimed")
				claimed++
			}
			for _, e := range entry.Events {
				switch e.Type {
				case event.TypeToolStarted, event.TypeToolCompleted:
					Expect(string(e.Data.Raw)).NotTo(ContainSubstring(`"` + refused + `"`))
				case event.TypeToolRateLimited:
					var data event.ToolRateLimited
					Expect(json.Unmarshal(e.Data.Raw, &data)).To(Succeed())
					Expect(data.ToolCallID).To(Equal(refused))
					told = data.Error
				case event.TypeActCompleted:
					var data event.ActCompleted
					Expect(json.Unmarshal(e.Data.Raw, &data)).To(Succeed())
					Expect(data.ErrorCount).To(BeEquivalentTo(1))
				}
			}
		}
		Expect(claimed).To(Equal(2))
		Expect(told).To(MatchRegexp(`^The tool was not executed: it may be called 2 times per minute, and was\. .*` +
			`Wait at least \d+ seconds before you call it again\.$`))
		last := prompts.of(ctx, namespace, "demo-1")
		Expect(strings.Join(last[len(last)-1].Messages, "")).To(ContainSubstring("it may be called 2 times per minute"))
	})

	It("creates no Job and no pod for a call that is refused", func(ctx context.Context) {
		tool := builder.JobTool("wc", v1alpha1.SideEffectAtMostOnce).Obj()
		tool.Spec.CallsPerMinute = ptr.To[int32](1)
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:wc}}", []v1alpha1.SimulatedToolCall{
			builder.Call("wc"), builder.Call("wc"),
		}), tool)
		jobs.In(namespace, func(capstantest.Call) (stdout, stderr string, exit int) { return "2", "", 0 })
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
		turn := answered(ctx, namespace)
		Expect(turn).To(capstantest.HaveToolCall("wc", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		Expect(turn).To(capstantest.HaveToolCall("wc", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonRateLimited))
		Expect(jobNames(ctx, namespace)).To(HaveLen(1))
	})
})
