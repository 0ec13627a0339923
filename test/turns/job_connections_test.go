package turns_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// shop is a connection that a Job needs.
type shop struct {
	exists atomic.Bool
	mu     sync.Mutex
	pods   []string
}

// ran are the attempts that have run.
func (s *shop) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods
}

// needing starts a Turn whose model calls a Job tool that exits with 75 until a connection to shop exists, and waits
// until it needs it.
func needing(ctx context.Context, class v1alpha1.SideEffect) (played, *shop) {
	GinkgoHelper()
	tool := builder.JobTool("rent", class).Obj()
	tool.Spec.Job.Connections = []v1alpha1.JobConnection{{ExitCode: 75, Provider: "shop"}}
	namespace := newNamespace(ctx, builder.Script("Told: {{tool:rent}}", builder.Calls("rent")), tool)
	s := &shop{}
	jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pods = append(s.pods, strconv.Itoa(call.Attempt))
		if !s.exists.Load() {
			return `{"capstan.dev/connection-required":"bank"}`, "no key", 75
		}
		return "rented", "", 0
	})
	p := played{namespace: namespace, before: startedSession(ctx, namespace)}
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput("rent"))
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
	return p, s
}

// setUp reports that the connection to shop exists.
func (s *shop) setUp(ctx context.Context, namespace string) {
	GinkgoHelper()
	s.exists.Store(true)
	Expect(kit.AnswerInput(ctx, namespace, "demo-1", "rent", v1alpha1.InputAnswer{
		ID: "shop", Action: v1alpha1.InputActionAccept,
	})).To(Succeed())
}

var _ = Describe("A Job that needs a connection", func() {
	// Rules: TOOL-16, LIFE-07.
	DescribeTable("runs again, in another pod, once that exists", func(ctx context.Context, class v1alpha1.SideEffect) {
		p, s := needing(ctx, class)
		turn, err := kit.Turn(ctx, p.namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(conditionOf(turn, v1alpha1.ConditionWaitingForToolResults).Reason).To(Equal(v1alpha1.ReasonConnection))
		Expect(turn.Status.WaitsFor).To(ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeConnection), HaveField("Message", ContainSubstring(`a connection to "shop"`)))))
		first := turn.Status.ToolCalls[0]
		Expect(first.Attempt).To(BeEquivalentTo(1))
		s.setUp(ctx, p.namespace)
		Expect(answered(ctx, p.namespace).Status.Output).To(Equal("Told: rented"))
		Expect(s.ran()).To(Equal([]string{"1", "2"}))
		turn, err = kit.Turn(ctx, p.namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.ToolCalls).To(ConsistOf(And(
			HaveField("Attempt", BeEquivalentTo(2)), HaveField("PodName", Not(Equal(first.PodName))),
			HaveField("Input", BeNil()))))
	},
		Entry("of a Pure tool", v1alpha1.SideEffectPure),
		Entry("of an AtMostOnce tool", v1alpha1.SideEffectAtMostOnce),
	)

	It("does not run again when its Turn is cancelled", func(ctx context.Context) {
		p, s := needing(ctx, v1alpha1.SideEffectAtMostOnce)
		cancelled(ctx, p.namespace)
		Expect(kit.Turn(ctx, p.namespace, "demo-1")()).To(
			capstantest.HaveToolCall("rent", v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonTurnEnded))
		Expect(s.ran()).To(Equal([]string{"1"}))
	})

	// The phase changes in the middle of the step, which one status write shows at once.
	DescribeTable("costs nothing while it waits, and in all",
		func(ctx context.Context, class v1alpha1.SideEffect, want ...[]string) {
			p, s := needing(ctx, class)
			waiting := requests.in(p.namespace)
			Consistently(func() []string { return requests.in(p.namespace) }).WithTimeout(seconds(2).Duration).Should(
				Equal(waiting), "a Turn that waits costs writes")
			s.setUp(ctx, p.namespace)
			Expect(answered(ctx, p.namespace).Status.Output).To(Equal("Told: rented"))
			Eventually(phaseOf(ctx, p.namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			Consistently(func() []string {
				counted, _ := requests.budgeted(p.namespace)
				return counted[p.before:]
			}).WithTimeout(seconds(1).Duration).Should(ConsistOf(slices.Concat(want...)))
			_, progress := requests.budgeted(p.namespace)
			Expect(len(phases(progress))).To(BeNumerically("<=", 2), "the wait begins, and ends")
			Expect(requests.hasty(p.namespace)).To(BeEmpty(), "progress is shown more than once a second")
		},
		Entry("1 entry for it, 1 for the answer, 1 Turn status and 1 Job more, 1 to accept the answer, and 2 on the Session",
			v1alpha1.SideEffectPure,
			beginning,
			[]string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite},
			times(2, entryWrite), []string{turnWrite, jobWrite},
			[]string{acceptWrite},
			times(2, sessionWrite),
			ending,
		),
		Entry("1 Turn status and 1 pod more for each run if the call is AtMostOnce",
			v1alpha1.SideEffectAtMostOnce,
			beginning,
			[]string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite},
			times(2, entryWrite), []string{turnWrite, jobWrite},
			times(2, turnWrite), times(2, gateWrite),
			[]string{acceptWrite},
			times(2, sessionWrite),
			ending,
		),
	)
})
