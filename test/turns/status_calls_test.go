package turns_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// overlap notes which calls run at the same time.
type overlap struct {
	mu      sync.Mutex
	running map[string]bool
	order   []string
	most    int
	// together are the pairs of calls that ran at the same time.
	together map[string]bool
}

func (o *overlap) enter(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == nil {
		o.running, o.together = map[string]bool{}, map[string]bool{}
	}
	for other := range o.running {
		o.together[other+" "+id] = true
	}
	o.running[id] = true
	o.order = append(o.order, id)
	o.most = max(o.most, len(o.running))
}

func (o *overlap) leave(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.running, id)
}

func (o *overlap) seen() (order []string, most int, together map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.order...), o.most, o.together
}

func (o *overlap) now() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.running)
}

// withArguments is a call whose arguments are given as text.
func withArguments(name, arguments string) v1alpha1.SimulatedToolCall {
	return v1alpha1.SimulatedToolCall{Name: name, RawArguments: &arguments}
}

var _ = Describe("A tool call", func() {
	It("that violates the schema goes back to the model as an error, and no Job is made", func(ctx context.Context) {
		tool := builder.JobTool("count", v1alpha1.SideEffectAtMostOnce).Obj()
		tool.Spec.InputSchema = &v1alpha1.JSON{
			Raw: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		}
		namespace := newNamespace(ctx, builder.Script("{{tool:count}}", []v1alpha1.SimulatedToolCall{
			withArguments(
				"count",
				`{"text":5}`,
			),
			withArguments("count", `{}`),
			withArguments("count", `not json`),
			withArguments("count", `{"text":"ok"}`),
		}), tool)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		for i, call := range turn.Status.ToolCalls[:3] {
			Expect(string(call.State)+" "+call.Reason).To(Equal("NotExecuted InvalidArguments"), "call %d", i)
			Expect(call.Executor).To(Equal(v1alpha1.ToolExecutorNone))
			Expect(kit.Starts(namespace, "demo-1", call.ID)).To(BeZero())
		}
		Expect(turn.Status.ToolCalls[3].State).To(Equal(v1alpha1.ToolCallStateSucceeded))
		Expect(jobNames(ctx, namespace)).To(HaveLen(1))
		ended := completions(ctx, namespace)
		Expect(ended).To(HaveLen(4))
		Expect(ended[0].Error).To(And(HavePrefix("The tool was not executed: "), ContainSubstring("text")))
		Expect(ended[1].Error).To(ContainSubstring("text"))
		Expect(ended[3].Error).To(BeEmpty())
		Expect(turn.Status.Output).To(Equal("result of 1-3"))
	})

	It("of a tool that was not offered is an error that names it", func(ctx context.Context) {
		hidden := builder.JobTool("hidden", v1alpha1.SideEffectPure).Obj()
		namespace := newNamespace(ctx, builder.Script("{{tool:hidden}}", builder.Calls("hidden")))
		hidden.Namespace = namespace
		create(ctx, hidden)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Tool definition not found: hidden"))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("beyond the 64th of a step is refused: the model reads so, and status does not list it", func(ctx context.Context) {
		const called = 70
		namespace := newNamespace(
			ctx,
			builder.Script("done", works(called)),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.ToolCalls).To(HaveLen(64))
		Expect(turn.Status.Summary.Calls).To(Equal("70/70"))
		ended := completions(ctx, namespace)
		Expect(ended).To(HaveLen(called))
		for i, data := range ended {
			Expect(data.ToolCallID).To(Equal(fmt.Sprintf("1-%d", i)))
			if i < 64 {
				Expect(data.Error).To(BeEmpty())
			} else {
				Expect(data.Error).To(And(ContainSubstring("at most 64"), ContainSubstring("not executed")))
			}
		}
		Expect(eventTypes(ctx, namespace, "demo")).NotTo(ContainElement("transcript.repaired"))
		Expect(jobNames(ctx, namespace)).To(HaveLen(64))
	})
})

var _ = Describe("The calls of one step", func() {
	run := func(
		ctx context.Context, change func(*v1alpha1.Session), simulation v1alpha1.Simulation, tools ...*v1alpha1.Tool,
	) (string, *overlap) {
		GinkgoHelper()
		namespace := newNamespace(ctx, simulation, tools...)
		seen := &overlap{}
		jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
			seen.enter(call.ID)
			defer seen.leave(call.ID)
			return call.ID, "", 0
		})
		session := builder.Session("demo").In(namespace).Obj()
		change(session)
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		return namespace, seen
	}

	It("run one after another in the order of the model when toolConcurrency is Sequential", func(ctx context.Context) {
		sequential := func(session *v1alpha1.Session) { session.Spec.ToolConcurrency = v1alpha1.ToolConcurrencySequential }
		_, seen := run(
			ctx,
			sequential,
			builder.Script("done", works(5)),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		order, most, _ := seen.seen()
		Expect(order).To(Equal([]string{"1-0", "1-1", "1-2", "1-3", "1-4"}))
		Expect(most).To(Equal(1))
	})

	It(
		"run in the order of the model within a concurrency class, and beside those of no class",
		func(ctx context.Context) {
			classed, other := builder.JobTool("classed", v1alpha1.SideEffectIdempotent).
				Obj(),
				builder.JobTool("also-classed", v1alpha1.SideEffectAtMostOnce).
					Obj()
			classed.Spec.ConcurrencyClass, other.Spec.ConcurrencyClass = "database", "database"
			_, seen := run(
				ctx,
				func(*v1alpha1.Session) {},
				builder.Script("done", builder.Calls("classed", "work", "also-classed", "classed")),
				classed,
				other,
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			order, _, together := seen.seen()
			classes := []string{}
			for _, id := range order {
				if id != "1-1" {
					classes = append(classes, id)
				}
			}
			Expect(classes).To(Equal([]string{"1-0", "1-2", "1-3"}))
			for pair := range together {
				Expect(pair).To(ContainSubstring("1-1"), "two calls of one class ran at the same time")
			}
		},
	)

	It("run beside one another, 32 at most", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", works(40)),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		seen, proceed := &overlap{}, make(chan struct{})
		jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
			seen.enter(call.ID)
			defer seen.leave(call.ID)
			select {
			case <-proceed:
			case <-call.Context.Done():
			}
			return call.ID, "", 0
		})
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(seen.now).Should(Equal(32))
		Expect(jobNames(ctx, namespace)).To(HaveLen(32))
		close(proceed)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		order, most, _ := seen.seen()
		Expect(most).To(Equal(32))
		Expect(order).To(HaveLen(40))
	})

	It(
		"give their results to the model in its own order, whatever the order in which they end",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("done", works(3)),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			first := make(chan struct{})
			jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
				if call.ID == "1-0" {
					<-first
				}
				if call.ID == "1-2" {
					defer close(first)
				}
				return strings.Repeat(call.ID, 2), "", 0
			})
			create(ctx, builder.Session("demo").In(namespace).Obj())
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(completedCalls(ctx, namespace)).To(Equal([]string{"1-0 success", "1-1 success", "1-2 success"}))
		},
	)
})

var _ = Describe("A Turn that reaches the limit of its iterations", func() {
	always := v1alpha1.Simulation{
		Response:  builder.Fixed("never"),
		ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: builder.Calls("unheard-of")},
	}

	It("succeeds with MaxTurnRequests, and the calls of its last answer are not made", func(ctx context.Context) {
		namespace := newNamespace(ctx, always)
		create(ctx, withIterations(builder.Session("demo").In(namespace).Obj(), 3))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonMaxTurnRequests))
		Expect(conditionOf(turn, v1alpha1.ConditionSucceeded).Reason).To(Equal("MaxTurnRequests"))
		Expect(turn.Status.Summary.ModelCalls).To(BeEquivalentTo(3))
		Expect(completions(ctx, namespace)).To(HaveLen(2))
	})

	It("and answers in the last one, succeeds with EndTurn", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("unheard-of"), builder.Calls("unheard-of")),
		)
		create(ctx, withIterations(builder.Session("demo").In(namespace).Obj(), 3))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonEndTurn))
		Expect(turn.Status.Output).To(Equal("done"))
	})
})
