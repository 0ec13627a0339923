package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// maxStatusBytes is the most that the status of a Turn may take (invariant 7).
const maxStatusBytes = 64 << 10

// maxEntryBytes is the most that one entry of the journal may take.
const maxEntryBytes = 512 << 10

// statusWatch sees every version of the Turns of a namespace.
type statusWatch struct {
	mu       sync.Mutex
	versions int
	largest  int
}

// watchStatus looks at every version of the Turns of a namespace until the spec ends.
func watchStatus(ctx context.Context, namespace string) *statusWatch {
	GinkgoHelper()
	watching, err := client.NewWithWatch(config, client.Options{Scheme: kit.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	stream, err := watching.Watch(ctx, &v1alpha1.TurnList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stream.Stop)
	seen := &statusWatch{}
	go func() {
		for event := range stream.ResultChan() {
			turn, ok := event.Object.(*v1alpha1.Turn)
			if !ok {
				continue
			}
			raw, err := json.Marshal(turn.Status)
			seen.mu.Lock()
			seen.versions++
			if seen.largest = max(seen.largest, len(raw)); err != nil {
				seen.largest = 1 << 30
			}
			seen.mu.Unlock()
		}
	}()
	return seen
}

func (w *statusWatch) seen() (versions, largest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.versions, w.largest
}

// withIterations bounds the model calls of the Turns of a Session.
func withIterations(session *v1alpha1.Session, n int32) *v1alpha1.Session {
	session.Spec.MaxIterations = &n
	return session
}

// advancing follows a Turn to its success. It may take as long as it likes, as long as it goes on.
func advancing(ctx context.Context, namespace string) *v1alpha1.Turn {
	GinkgoHelper()
	turn := &v1alpha1.Turn{}
	for last := int32(-1); turn.Status.Phase != v1alpha1.TurnPhaseSucceeded; last = turn.Status.Iteration {
		Eventually(func(g Gomega) {
			var err error
			turn, err = kit.Turn(ctx, namespace, "demo-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(turn.Status.Phase).
				NotTo(BeElementOf(v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled), "error %+v", turn.Status.Error)
			g.Expect(turn.Status.Phase == v1alpha1.TurnPhaseSucceeded || turn.Status.Iteration > last).
				To(BeTrue(), "the Turn stands at iteration %d", last)
		}).WithContext(ctx).WithPolling(200 * time.Millisecond).Should(Succeed())
	}
	Expect(turn).To(capstantest.HaveSucceeded())
	return turn
}

// They are the longest specs of the suite: the others run beside them in other processes.
var _ = Describe("A Turn of 1,000 iterations", SpecPriority(1), func() {
	const iterations = 1001

	// long runs a Turn whose model calls the tool in every iteration.
	long := func(ctx context.Context, name string, tools ...*v1alpha1.Tool) (*v1alpha1.Turn, string) {
		GinkgoHelper()
		script := v1alpha1.Simulation{
			Response:  builder.Fixed("never"),
			ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: builder.Calls(name)},
		}
		namespace := newNamespace(ctx, script, tools...)
		watched := watchStatus(ctx, namespace)
		session := withIterations(builder.Session("demo").In(namespace).Obj(), iterations)
		limit := resource.MustParse("64Mi")
		session.Spec.JournalLimit = &limit
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Input(strings.Repeat("Hello ", 1000)).Obj())
		began := time.Now()
		turn := advancing(ctx, namespace)
		Expect(turn.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonMaxTurnRequests))
		Expect(turn.Status.Iteration).To(BeEquivalentTo(iterations))
		Expect(turn.Status.Summary.ModelCalls).To(BeEquivalentTo(iterations))
		Expect(turn.Status.Summary.Calls).To(Equal("1000/1000"))
		versions, largest := watched.seen()
		AddReportEntry(
			"long Turn",
			fmt.Sprintf(
				"%s: %s, %d versions of the status, at most %d bytes",
				name,
				time.Since(began).Round(time.Second),
				versions,
				largest,
			),
		)
		Expect(versions).To(BeNumerically(">=", 2*iterations))
		Expect(largest).To(BeNumerically("<", maxStatusBytes))
		return turn, namespace
	}

	It("with refused calls keeps its status small and ends at the limit", func(ctx context.Context) {
		_, namespace := long(ctx, "unheard-of")
		Expect(completions(ctx, namespace)).To(HaveLen(1000))
	})

	It("with Jobs keeps its status small and ends at the limit", func(ctx context.Context) {
		_, namespace := long(ctx, "work", builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
		Expect(completions(ctx, namespace)).To(HaveLen(1000))
	})
})

var _ = Describe("Bulk", func() {
	It(
		"of 32 parallel results of 64 KiB goes through the log, in entries that fit, and the answer cites it",
		func(ctx context.Context) {
			const parallel, size = 32, 64 << 10
			var calls []v1alpha1.SimulatedToolCall
			var tools []*v1alpha1.Tool
			for i := range parallel {
				name := fmt.Sprintf("big-%02d", i)
				calls = append(calls, builder.Call(name))
				tools = append(tools, builder.JobTool(name, v1alpha1.SideEffectPure).Obj())
			}
			namespace := newNamespace(
				ctx,
				builder.Script("{{tool:big-00}} and {{tool:big-17}} and {{tool:big-31}}", calls),
				tools...)
			text := func(name string) string { return (name + strings.Repeat("<0123456789> ", size/12))[:size] }
			jobs.In(
				namespace,
				func(call capstantest.Call) (stdout, stderr string, exit int) { return text(call.Command[1]), "", 0 },
			)
			watched := watchStatus(ctx, namespace)
			create(ctx, builder.Session("demo").In(namespace).Obj())
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(2 * time.Minute).Should(capstantest.HaveSucceeded())

			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(len(turn.Status.Output)).To(BeNumerically("<=", 8<<10))
			Expect(turn.Status.Output).To(HavePrefix("big-00<0123456789>"))
			_, largest := watched.seen()
			Expect(largest).To(BeNumerically("<", maxStatusBytes))
			Expect(finalAnswer(ctx, namespace)).To(Equal(text("big-00") + " and " + text("big-17") + " and " + text("big-31")))
			written := entries(ctx, namespace, "demo")
			Expect(len(written)).To(BeNumerically(">", 4), "the results were not split")
			for _, entry := range written {
				raw, err := json.Marshal(entry)
				Expect(err).NotTo(HaveOccurred())
				Expect(len(raw)).To(BeNumerically("<=", maxEntryBytes))
			}
		},
	)

	It("of results that need escaping does not make the status grow", func(ctx context.Context) {
		const parallel = 64
		namespace := newNamespace(
			ctx,
			builder.Script("{{tool:work}}", works(parallel)),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		jobs.In(
			namespace,
			func(capstantest.Call) (stdout, stderr string, exit int) { return strings.Repeat("<", 20<<10), "", 0 },
		)
		watched := watchStatus(ctx, namespace)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(2 * time.Minute).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(HavePrefix("<<<<"))
		_, largest := watched.seen()
		Expect(largest).To(BeNumerically("<", maxStatusBytes))
	})
})

// works is n calls of the tool work.
func works(n int) []v1alpha1.SimulatedToolCall {
	calls := make([]v1alpha1.SimulatedToolCall, n)
	for i := range calls {
		calls[i] = builder.Call("work")
	}
	return calls
}

// finalAnswer is the whole text of the newest response in the journal of Session demo, joined from the parts of its
// entry.
func finalAnswer(ctx context.Context, namespace string) string {
	GinkgoHelper()
	var id string
	var parts []event.Event
	for _, event := range allEvents(ctx, namespace) {
		if event.Type != "output.message.completed" {
			continue
		}
		if event.ID != id {
			id, parts = event.ID, nil
		}
		parts = append(parts, event)
	}
	raw := parts[0].Data.Raw
	if len(parts) > 1 {
		raw = nil
		for _, part := range parts {
			var text string
			Expect(json.Unmarshal(part.Data.Raw, &text)).To(Succeed())
			raw = append(raw, text...)
		}
	}
	var data struct {
		Message struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"message"`
	}
	Expect(json.Unmarshal(raw, &data)).To(Succeed())
	var answer strings.Builder
	for _, part := range data.Message.Content {
		answer.WriteString(part.Text)
	}
	return answer.String()
}

var _ = Describe("A Turn whose model fails", func() {
	DescribeTable("reports the reason", func(ctx context.Context, code v1alpha1.ErrorCode, reason string) {
		const text = "says the provider"
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
				Type: v1alpha1.SimulatedResponseTypeError, Code: code, Text: text,
			}},
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(reason))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseFailed))
		Expect(turn.Status.Error.Code).To(Equal(code))
		Expect(
			turn.Status.Error.Message,
		).NotTo(Or(BeEmpty(), ContainSubstring(text)), "the provider's text may contain text that is not for users")
		stalled := conditionOf(turn, v1alpha1.ConditionStalled)
		Expect(string(stalled.Status) + " " + stalled.Reason).To(Equal("True " + reason))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
	},
		Entry("rate limit", v1alpha1.ErrorCodeProviderRateLimited, "ProviderRateLimited"),
		Entry("quota", v1alpha1.ErrorCodeProviderQuotaExhausted, "ProviderQuotaExhausted"),
		Entry("no access", v1alpha1.ErrorCodeProviderMisconfigured, "ProviderMisconfigured"),
		Entry("provider down", v1alpha1.ErrorCodeProviderUnavailable, "ProviderUnavailable"),
		Entry("too large", v1alpha1.ErrorCodeRequestTooLarge, "RequestTooLarge"),
		Entry("no such model", v1alpha1.ErrorCodeModelUnavailable, "ModelUnavailable"),
		Entry("anything else", v1alpha1.ErrorCodeProcessingError, "ProcessingError"),
	)

	// Rules: LIFE-06.
	It("leaves the Session to the next Turn, whose model does not see the failure", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{
					Type: v1alpha1.SimulatedResponseTypeError, Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "come back",
				},
			},
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("ProviderUnavailable"))
		setScript(ctx, namespace, builder.Script("fine"))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		// Two messages of the user, "Hello" and "Hello again", are what the model reads: 16 characters, 4 tokens.
		Expect(turn.Status.Summary.Usage.InputTokens).To(BeEquivalentTo(4))
	})

	It(
		"because the journal is full reports so, frees the Session, and fails every Turn until the limit is raised",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeEcho}},
			)
			session := builder.Session("demo").In(namespace).Obj()
			limit := resource.MustParse("64Ki")
			session.Spec.JournalLimit = &limit
			create(ctx, session)
			create(ctx, builder.Turn("demo-1").In(namespace).Input(strings.Repeat("long ", 12000)).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonJournalFull))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Error.Message).To(And(ContainSubstring("journalLimit"), ContainSubstring(`demo`)))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))

			create(ctx, builder.Turn("demo-2").In(namespace).Input(strings.Repeat("long ", 12000)).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveFailed(v1alpha1.ReasonJournalFull))
			raise := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"journalLimit":"1Mi"}}`))
			Expect(kit.Client.Patch(ctx, session, raise)).To(Succeed())
			create(ctx, builder.Turn("demo-3").In(namespace).Input("short").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-3")).Should(capstantest.HaveSucceeded())
		},
	)
})

var _ = Describe("A Session", func() {
	// Rules: TURN-15.
	It("adds up its Turns and shows the size of its journal before compression", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{
			Response: builder.Fixed("done"),
			ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
				{
					Contains: "work",
					Sequence: []v1alpha1.SimulatedStep{{Calls: builder.Calls("work", "work")}},
				},
			}},
		}, builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		want := v1alpha1.SessionTotals{}
		for i, input := range []string{"Hello", "please work", "Hello again"} {
			name := fmt.Sprintf("demo-%d", i+1)
			create(ctx, builder.Turn(name).In(namespace).Input(input).Obj())
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
			turn, err := kit.Turn(ctx, namespace, name)()
			Expect(err).NotTo(HaveOccurred())
			want.Turns++
			want.Usage.InputTokens += turn.Status.Summary.Usage.InputTokens
			want.Usage.OutputTokens += turn.Status.Summary.Usage.OutputTokens
			want.Usage.TotalTokens += turn.Status.Summary.Usage.TotalTokens
			want.ToolCalls += int64(turn.Status.Summary.ToolCalls)
			want.UnpricedModelCalls += int64(turn.Status.Summary.ModelCalls)
		}
		Expect(want.ToolCalls).To(BeEquivalentTo(2))
		Expect(want.Usage.TotalTokens).To(BeNumerically(">", 0))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		Expect(session.Status.Totals).To(Equal(want))
		size := int64(0)
		var stored v1alpha1.JournalEntryList
		Expect(kit.Client.List(ctx, &stored, client.InNamespace(namespace))).To(Succeed())
		for i := range stored.Items {
			plain, err := format.Unpack(&stored.Items[i].Spec)
			Expect(err).NotTo(HaveOccurred())
			raw, err := json.Marshal(plain)
			Expect(err).NotTo(HaveOccurred())
			size += int64(len(raw))
		}
		Expect(session.Status.Journal).To(Equal(v1alpha1.JournalStatus{Head: 5, Bytes: size}))
		Expect(stored.Items).To(HaveLen(5))
	})
})

// setScript gives the model of a namespace another script.
func setScript(ctx context.Context, namespace string, simulation v1alpha1.Simulation) {
	GinkgoHelper()
	model := &v1alpha1.Model{}
	Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "simulated"}, model)).To(Succeed())
	changed := model.DeepCopy()
	changed.Spec.Simulation = &simulation
	Expect(kit.Client.Patch(ctx, changed, client.MergeFrom(model))).To(Succeed())
}
