package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// The writes that a Turn is made of.
const (
	sessionWrite = "PATCH sessions/status"
	turnWrite    = "PATCH turns/status"
	entryWrite   = "POST journalentries"
	accountWrite = "POST serviceaccounts"
	jobWrite     = "POST jobs"
	gateWrite    = "PATCH pods"
	acceptWrite  = "PATCH toolresults/status"
	cleanUpWrite = "DELETE jobs"

	agentSessionWrite = "POST sessions"
	agentTurnWrite    = "POST turns"
)

// times repeats a write.
func times(n int, write string) []string { return slices.Repeat([]string{write}, n) }

// beginning is the cost of a Turn up to its first response: admission and entry. A late plan comes on top.
var beginning = []string{sessionWrite, entryWrite}

// ending is the cost of the last response behind its entry: status and release.
var ending = []string{turnWrite, sessionWrite}

// acting is the cost of an act step of k Jobs, from the status that plans it to the next response's entry: 4 + k, and
// 1 + k more when the calls are AtMostOnce.
func acting(k int, class v1alpha1.SideEffect) []string {
	writes := slices.Concat([]string{turnWrite}, times(k, jobWrite))
	if class == v1alpha1.SideEffectAtMostOnce {
		writes = slices.Concat(writes, []string{turnWrite}, times(k, gateWrite))
	}
	return append(writes, entryWrite, turnWrite, entryWrite)
}

// actingFirst is the cost of the first act step of a namespace: 1 more, for the account that the pods of tools run as.
func actingFirst(k int, class v1alpha1.SideEffect) []string {
	return slices.Insert(acting(k, class), 1, accountWrite)
}

var _ = Describe("The write budget of a Turn", func() {
	DescribeTable("with Jobs", func(ctx context.Context, class v1alpha1.SideEffect, steps ...int) {
		script := [][]v1alpha1.SimulatedToolCall{}
		want := slices.Clone(beginning)
		for i, k := range steps {
			script = append(script, slices.Repeat(builder.Calls("work"), k))
			if i == 0 {
				want = append(want, actingFirst(k, class)...)
			} else {
				want = append(want, acting(k, class)...)
			}
		}
		want = append(want, ending...)
		namespace := newNamespace(ctx, builder.Script("done", script...), builder.JobTool("work", class).Obj())
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectCost(ctx, namespace, before, want)
		size := 4 + 1
		for _, k := range steps {
			size += 4 + k
			if class == v1alpha1.SideEffectAtMostOnce {
				size += 1 + k
			}
		}
		Expect(want).To(HaveLen(size), "the sequence is not the budget")
	},
		Entry("one Pure", v1alpha1.SideEffectPure, 1),
		Entry("three Pure", v1alpha1.SideEffectPure, 3),
		Entry("eight Pure", v1alpha1.SideEffectPure, 8),
		Entry("one Idempotent", v1alpha1.SideEffectIdempotent, 1),
		Entry("three Idempotent", v1alpha1.SideEffectIdempotent, 3),
		Entry("one AtMostOnce", v1alpha1.SideEffectAtMostOnce, 1),
		Entry("three AtMostOnce", v1alpha1.SideEffectAtMostOnce, 3),
		Entry("two steps", v1alpha1.SideEffectPure, 2, 1),
		Entry("two steps of AtMostOnce", v1alpha1.SideEffectAtMostOnce, 1, 2),
	)

	It(
		"is 1 more for the first Job of a namespace, and no more for those of later Turns and other Sessions",
		func(ctx context.Context) {
			work := builder.Calls("work")
			namespace := newNamespace(ctx, builder.Script("done", work), builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
			before := startedSession(ctx, namespace)
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			expectCost(ctx, namespace, before, slices.Concat(beginning, actingFirst(1, v1alpha1.SideEffectPure), ending))

			create(ctx, builder.Session("other").In(namespace).Obj())
			create(ctx, builder.Turn("other-1").In(namespace).Session("other").Obj())
			create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
			for _, name := range []string{"other-1", "demo-2"} {
				Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
			}
			Expect(countOf(requests.in(namespace), jobWrite)).To(Equal(3))
			Expect(countOf(requests.in(namespace), accountWrite)).To(Equal(1))
		},
	)

	It("adds nothing for calls that are refused", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("unheard-of", "unheard-of")))
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectCost(ctx, namespace, before, slices.Concat(beginning, acting(0, v1alpha1.SideEffectPure), ending))
	})

	It("adds nothing for calls of built-in tools", func(ctx context.Context) {
		now := builder.Calls("get_current_time")
		namespace := newNamespace(ctx, builder.Script("done", slices.Concat(now, now), now))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "current_time"}}
		create(ctx, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		step := acting(0, v1alpha1.SideEffectPure)
		expectCost(ctx, namespace, before, slices.Concat(beginning, step, step, ending))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Summary.Calls).To(Equal("3/3"))
		Expect(turn).To(capstantest.HaveToolCall(
			"get_current_time", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
	})

	// A step of client tools costs what every act step costs, 4, and besides: 1 to accept each ToolResult, 1 entry for
	// each result that comes before the step is complete, and 2 Session writes, because the Session shows that it
	// waits. While it waits it costs nothing.
	It("is 4 + 1 for a step of one client tool, and 2 to show the wait on the Session", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		waiting := slices.Concat(beginning, []string{turnWrite, sessionWrite})
		Consistently(
			func() []string { return requests.in(namespace)[before:] },
		).WithTimeout(time.Second).
			Should(Equal(waiting))

		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		// The Session's write, that it goes on, is one among the Turn's: no process waits for it.
		expectWrites(
			ctx,
			namespace,
			before,
			ConsistOf(
				slices.Concat(waiting, []string{entryWrite, acceptWrite, turnWrite, entryWrite}, ending, times(1, sessionWrite)),
			),
		)
	})

	It("is 1 entry and 1 status more for a client's result that comes before the others", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("ask-ann", "ask-bob")),
			builder.ClientTool("ask-ann").Obj(),
			builder.ClientTool("ask-bob").Obj(),
		)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann", "ask-bob"))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		partial := slices.Concat(beginning, []string{turnWrite, sessionWrite, entryWrite, acceptWrite})
		counted, progress := requests.budgeted(namespace)
		Expect(counted[before:]).To(Equal(partial))
		Expect(progress).To(HaveLen(1), "the write that shows only ann's result as missing")
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectWrites(
			ctx,
			namespace,
			before,
			ConsistOf(
				slices.Concat(partial, []string{entryWrite, acceptWrite, turnWrite, entryWrite}, ending, times(1, sessionWrite)),
			),
		)
	})

	It("is 1 for the next Turn's admission and the last one's release together", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("done"), Latency: seconds(1)})
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		expectCost(ctx, namespace, before, slices.Concat(beginning, ending, beginning[1:], ending))
	})
})

var _ = Describe("A manager with settings of its own", Serial, Ordered, func() {
	var (
		own      *capstantest.Kit
		requests = &requestLog{}
	)

	BeforeAll(func() {
		var err error
		own, err = capstantest.Start(context.Background(), suite.Start().Config, capstantest.Options{
			Transport: requests.wrap, JobRetention: 2 * time.Second, MaxActiveTurns: 1,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(own.Stop()).To(Succeed()) })
	})

	BeforeEach(func() {
		restore := kit
		kit = own
		DeferCleanup(func() { kit = restore })
	})

	It(
		"gives a free slot to a waiting Session, not to the one that had it",
		func(ctx context.Context) {
			slow := v1alpha1.Simulation{Response: builder.Fixed("done"), Latency: seconds(1)}
			rich, poor := newNamespace(ctx, slow), newNamespace(ctx, slow)
			for _, namespace := range []string{rich, poor} {
				create(ctx, builder.Session("demo").In(namespace).Obj())
				Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			}
			create(ctx, builder.Turn("demo-1").In(rich).Obj())
			Eventually(phaseOf(ctx, rich, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
			create(ctx, builder.Turn("demo-2").In(rich).Obj())
			create(ctx, builder.Turn("demo-3").In(rich).Obj())
			create(ctx, builder.Turn("demo-1").In(poor).Obj())
			began := func(namespace, name string) time.Time {
				GinkgoHelper()
				Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
				turn, err := kit.Turn(ctx, namespace, name)()
				Expect(err).NotTo(HaveOccurred())
				return turn.Status.Summary.StartedAt.Time
			}
			Expect(
				began(poor, "demo-1"),
			).To(And(BeTemporally(">", began(rich, "demo-1")), BeTemporally("<", began(rich, "demo-2"))))
			Expect(began(rich, "demo-2")).To(BeTemporally("<", began(rich, "demo-3")))
		},
	)

	It(
		"lets other Turns begin while one waits for a person, which continues once a slot is free",
		func(ctx context.Context) {
			waits := newNamespace(ctx, builder.Script("done", builder.Calls("human")), builder.ClientTool("human").Obj())
			works := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("done"), Latency: seconds(3)})
			create(ctx, builder.Session("demo").In(waits).Obj())
			create(ctx, builder.Turn("demo-1").In(waits).Obj())
			Eventually(kit.Turn(ctx, waits, "demo-1")).Should(capstantest.WaitForTools("human"))
			create(ctx, builder.Session("demo").In(works).Obj())
			create(ctx, builder.Turn("demo-1").In(works).Obj())
			Eventually(turnPhase(ctx, works, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
			create(ctx, builder.ToolResult("ann", "1-0").In(waits).Result("yes").Obj())
			// The person's message is admitted at once. Only the next model call waits for the place.
			Eventually(turnPhase(ctx, waits, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
			Expect(turnPhase(ctx, works, "demo-1")()).To(Equal(v1alpha1.TurnPhaseReason))
			finished := func(namespace string) time.Time {
				GinkgoHelper()
				Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				turn, err := kit.Turn(ctx, namespace, "demo-1")()
				Expect(err).NotTo(HaveOccurred())
				return turn.Status.Summary.FinishedAt.Time
			}
			Expect(finished(waits)).To(BeTemporally(">", finished(works)))
		},
	)

	It(
		"cleans up with one write, whatever the number of Jobs, and only after the retention time",
		func(ctx context.Context) {
			const k = 12
			namespace := newNamespace(
				ctx,
				builder.Script("done", slices.Repeat(builder.Calls("work"), k)),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			create(ctx, builder.Session("demo").In(namespace).Obj())
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			before := len(requests.in(namespace))
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			ended := conditionOf(turn, v1alpha1.ConditionFinished).LastTransitionTime

			counted := func() []string {
				found, _ := requests.budgeted(namespace)
				return found[before:]
			}
			Eventually(counted).Should(ContainElement(cleanUpWrite))
			Expect(time.Since(ended.Time)).To(BeNumerically(">=", 2*time.Second))
			Eventually(func() ([]string, error) { return jobNames(ctx, namespace) }).Should(BeEmpty())
			want := slices.Concat(beginning, actingFirst(k, v1alpha1.SideEffectPure), ending, []string{cleanUpWrite})
			Consistently(counted).WithTimeout(2 * time.Second).Should(Equal(want))
		},
	)
})

// startedSession makes a Session, waits until it can be used, and returns the number of writes up to then.
func startedSession(ctx context.Context, namespace string) int {
	GinkgoHelper()
	create(ctx, builder.Session("demo").In(namespace).Obj())
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return len(requests.in(namespace))
}

// expectCost waits until the Session is idle and checks that these writes were made, in this order, and no others.
func expectCost(ctx context.Context, namespace string, before int, want []string) {
	GinkgoHelper()
	expectWrites(ctx, namespace, before, Equal(want))
}

// expectWrites waits until the Session is idle, checks the writes that the budget counts, and that none follow. Writes
// that only show progress are a second apart, and none of them shows no more than another phase.
func expectWrites(ctx context.Context, namespace string, before int, match gomegatypes.GomegaMatcher) {
	GinkgoHelper()
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
	Consistently(func() []string {
		counted, _ := requests.budgeted(namespace)
		return counted[before:]
	}).WithTimeout(300 * time.Millisecond).Should(match)
	_, progress := requests.budgeted(namespace)
	Expect(phases(progress)).To(BeEmpty(), "a phase of its own that the budget does not have")
	Expect(requests.hasty(namespace)).To(BeEmpty(), "progress is shown more than once a second")
	expectFewEvents(ctx, namespace)
}

// expectFewEvents checks that there are Kubernetes Events only about Turns that ask people for something or have
// failed, one for each reason.
func expectFewEvents(ctx context.Context, namespace string) {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
	for _, event := range eventsIn(ctx, namespace)() {
		Expect(event).To(HaveSuffix(" once"))
	}
	for _, turn := range turns.Items {
		asks := slices.ContainsFunc(turn.Status.ToolCalls, func(c v1alpha1.ToolCall) bool {
			return c.Executor == v1alpha1.ToolExecutorClient || c.Policy == v1alpha1.ToolPolicyRequiresApproval
		})
		if !asks && turn.Status.Phase != v1alpha1.TurnPhaseFailed {
			Expect(eventsIn(ctx, namespace)()).NotTo(ContainElement(HavePrefix(turn.Name + " ")))
		}
	}
}

// eventsIn returns a function that lists the Events of a namespace: the name of the object, the type, the reason, and
// how often it was seen.
func eventsIn(ctx context.Context, namespace string) func() []string {
	return func() []string {
		GinkgoHelper()
		var events eventsv1.EventList
		Expect(kit.Client.List(ctx, &events, client.InNamespace(namespace))).To(Succeed())
		var found []string
		for _, event := range events.Items {
			seen := "once"
			if event.Series != nil {
				seen = "more often"
			}
			found = append(found, event.Regarding.Name+" "+event.Type+" "+event.Reason+" "+seen)
		}
		slices.Sort(found)
		return found
	}
}

func jobNames(ctx context.Context, namespace string) ([]string, error) {
	var jobs batchv1.JobList
	err := kit.Client.List(ctx, &jobs, client.InNamespace(namespace))
	var names []string
	for _, job := range jobs.Items {
		names = append(names, job.Name)
	}
	return names, err
}
