package turns_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// played is a namespace in which a Turn has ended, and the number of writes before it.
type played struct {
	namespace string
	before    int
}

// waitingTurn starts a Turn that waits for ann, and checks that it costs nothing meanwhile.
func waitingTurn(ctx context.Context) played {
	GinkgoHelper()
	namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")), builder.ClientTool("ask-ann").Obj())
	p := played{namespace: namespace, before: startedSession(ctx, namespace)}
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
	waiting := requests.in(namespace)
	Consistently(
		func() []string { return requests.in(namespace) },
	).WithTimeout(2*time.Second).
		Should(Equal(waiting), "a Turn that waits costs writes")
	return p
}

// cancelled cancels the Turn and waits for its end.
func cancelled(ctx context.Context, namespace string) {
	GinkgoHelper()
	cancelTurn(ctx, namespace, "demo-1")
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
}

// hookedTurn plays a Turn of a Session with a hook, for calls of tools if there are any.
func hookedTurn(
	ctx context.Context, namespace string, event v1alpha1.HookEvent, expression string, tools ...string,
) played {
	GinkgoHelper()
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Hooks = []v1alpha1.Hook{{Name: "guard", Event: event, CEL: &v1alpha1.CELHook{Expression: expression}}}
	for _, tool := range tools {
		session.Spec.Hooks[0].Matcher = &v1alpha1.HookMatcher{ToolName: tool}
	}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	p := played{namespace: namespace, before: len(requests.in(namespace))}
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	return p
}

// bundledTurn plays a Turn of a Session whose Tool work comes with a Capability that another one depends on.
func bundledTurn(ctx context.Context, namespace string) played {
	GinkgoHelper()
	inner, outer := research(namespace), research(namespace)
	inner.Name, inner.Spec.Tools = "inner", []v1alpha1.LocalReference{{Name: "work"}}
	inner.Spec.SystemPrompt = "Work."
	inner.Spec.InitialFiles = []v1alpha1.InitialFile{{Path: "/rules.md", Content: "Work well."}}
	outer.Spec.Tools = nil
	outer.Spec.Dependencies = []v1alpha1.CapabilityDependency{
		{Name: "inner"}, {Builtin: "session_file_system"}, {Builtin: "current_time"},
	}
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Name: "research"}}
	create(ctx, inner, outer, session)
	// The Session does not wait for the status of its Capabilities, which is theirs to write.
	for _, capability := range []*v1alpha1.Capability{inner, outer} {
		Eventually(func(g Gomega) {
			g.Expect(kit.Client.Get(ctx, client.ObjectKeyFromObject(capability), capability)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(capability.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
		}).Should(Succeed())
	}
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	p := played{namespace: namespace, before: len(requests.in(namespace))}
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	return p
}

// Each line is what one thing costs: the writes that a Turn makes to which it happens. budgets_test.go has what acts
// and clients cost.
var _ = Describe("The write budget, line by line", func() {
	DescribeTable(
		"a Turn",
		func(ctx context.Context, play func(context.Context) played, want ...[]string) {
			p := play(ctx)
			expectWrites(ctx, p.namespace, p.before, ConsistOf(slices.Concat(want...)))
		},
		Entry("without tools: 4", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done"))
			p := played{namespace: namespace, before: startedSession(ctx, namespace)}
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			return p
		}, beginning, ending),
		Entry("with a call of one Job: 5, and 1 for the ServiceAccount in a new namespace", func(ctx context.Context) played {
			namespace := newNamespace(
				ctx,
				builder.Script("done", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			p := played{namespace: namespace, before: startedSession(ctx, namespace)}
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			return p
		}, beginning, []string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite}, ending),
		Entry("with a call that runs as a sub-agent: 2 creates and 1 Turn status, and what the sub-agent costs itself",
			func(ctx context.Context) played {
				namespace := newTeam(ctx, []string{"helper"}, builder.Script("done"))
				p := played{namespace: namespace, before: startedSession(ctx, namespace)}
				create(ctx, builder.Turn("demo-1").In(namespace).Obj())
				Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				return p
			},
			beginning,
			[]string{turnWrite, agentSessionWrite, turnWrite, agentTurnWrite, entryWrite, turnWrite, entryWrite}, ending,
			// The sub-agent: its Session becomes ready, and its Turn is one without tools.
			[]string{sessionWrite}, beginning, ending,
		),
		Entry("with a call that becomes a task at its server: 3 entries, and none while it waits", taskTurn,
			beginning, []string{turnWrite}, times(3, entryWrite), []string{entryWrite, turnWrite, entryWrite}, ending,
		),
		Entry(
			"that waits for a client: 4, 1 to accept the result, 2 on the Session, and none while it waits",
			func(ctx context.Context) played {
				p := waitingTurn(ctx)
				create(ctx, builder.ToolResult("ann", "1-0").In(p.namespace).Result("yes").Obj())
				Eventually(kit.Turn(ctx, p.namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				return p
			},
			beginning,
			[]string{turnWrite, entryWrite, turnWrite, entryWrite},
			[]string{acceptWrite},
			times(2, sessionWrite),
			ending,
		),
		Entry(
			"with a call that is approved: 1 entry and 1 Turn status, and 1 to accept the decision",
			func(ctx context.Context) played {
				namespace := newNamespace(
					ctx,
					builder.Script("done", builder.Calls("pay")),
					guarded(builder.JobTool("pay", v1alpha1.SideEffectPure).Obj()),
				)
				p := played{namespace: namespace, before: startedSession(ctx, namespace)}
				create(ctx, builder.Turn("demo-1").In(namespace).Obj())
				Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
				create(ctx, decision(ctx, namespace, "ann", "demo-1", "1-0", v1alpha1.DecisionApprove))
				Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				return p
			},
			beginning,
			[]string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite},
			[]string{entryWrite, turnWrite},
			[]string{acceptWrite},
			times(2, sessionWrite),
			ending,
		),
		Entry("whose calls end one after another: at most 1 a second to show progress", func(ctx context.Context) played {
			namespace := newNamespace(
				ctx,
				builder.Script("done", slices.Repeat(builder.Calls("work"), 8)),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
				_, place, _ := strings.Cut(c.ID, "-")
				n, err := strconv.Atoi(place)
				Expect(err).NotTo(HaveOccurred())
				select {
				case <-c.Context.Done():
				case <-time.After(time.Duration(n) * 400 * time.Millisecond):
				}
				return "worked", "", 0
			})
			p := played{namespace: namespace, before: startedSession(ctx, namespace)}
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			_, progress := requests.budgeted(namespace)
			Expect(progress).NotTo(BeEmpty(), "no status write has shown progress")
			return p
		}, beginning, actingFirst(8, v1alpha1.SideEffectPure), ending),
		Entry("that is cancelled while it waits: 1 entry and 1 Turn status", func(ctx context.Context) played {
			p := waitingTurn(ctx)
			cancelled(ctx, p.namespace)
			return p
		}, beginning, []string{turnWrite, sessionWrite}, []string{entryWrite, turnWrite}, times(1, sessionWrite)),
		Entry("with a call that is withdrawn: 1", func(ctx context.Context) played {
			namespace := newNamespace(
				ctx,
				builder.Script("done", builder.Calls("once")),
				builder.JobTool("once", v1alpha1.SideEffectAtMostOnce).Obj(),
			)
			p := played{namespace: namespace, before: startedSession(ctx, namespace)}
			DeferCleanup(kit.Inject(capstantest.JobSuspended, capstantest.InNamespace(namespace)))
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(func() []string { return requests.in(namespace) }).Should(ContainElement(jobWrite))
			cancelled(ctx, namespace)
			return p
		}, beginning, []string{turnWrite, accountWrite, jobWrite}, times(1, turnWrite), []string{
			entryWrite, cleanUpWrite, turnWrite,
		}, times(1, sessionWrite)),
		Entry(
			"into which a message is steered: 1 entry and 1 status of its own, and 1 status of the message",
			func(ctx context.Context) played {
				namespace := newNamespace(ctx, v1alpha1.Simulation{Response: builder.Fixed("done"), Latency: seconds(1)})
				p := played{namespace: namespace, before: startedSession(ctx, namespace)}
				create(ctx, builder.Turn("demo-1").In(namespace).Obj())
				Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseActive))
				create(ctx, newSteer(namespace, "demo-2", "No, wait."))
				Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
				Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				return p
			},
			beginning,
			[]string{turnWrite, entryWrite},
			times(1, turnWrite),
			ending,
		),
		Entry("of a Session with Capabilities that depend on others: nothing more", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")))
			create(ctx, builder.JobTool("work", v1alpha1.SideEffectPure).In(namespace).Obj())
			return bundledTurn(ctx, namespace)
		}, beginning, []string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite}, ending),
		Entry("with hooks on its message: 1 entry, and 1 Turn status for the plan", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done"))
			return hookedTurn(ctx, namespace, v1alpha1.HookEventUserPromptSubmit, `{"decision": "mutate",
				"patch": {"message": "another"}}`)
		}, beginning, []string{turnWrite, entryWrite}, ending),
		Entry("with hooks on its calls: 1 entry more than without", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
			return hookedTurn(ctx, namespace, v1alpha1.HookEventPreToolUse, "true")
		}, beginning, times(1, entryWrite), []string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite},
			ending),
		Entry("with a hook that looks at none of its calls: nothing more", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
			return hookedTurn(ctx, namespace, v1alpha1.HookEventPreToolUse, "true", "other")
		}, beginning, []string{turnWrite, accountWrite, jobWrite, entryWrite, turnWrite, entryWrite}, ending),
		Entry("with a hook that blocks its call: 1 entry, and no Job", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
			return hookedTurn(ctx, namespace, v1alpha1.HookEventPreToolUse, "false")
		}, beginning, times(1, entryWrite), []string{turnWrite, entryWrite, turnWrite, entryWrite}, ending),
		Entry("with hooks at its end: 1 entry", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done"))
			return hookedTurn(ctx, namespace, v1alpha1.HookEventTurnEnd, "false")
		}, beginning, times(1, entryWrite), ending),
		Entry("of a Session with hooks at its start and its end: 3", func(ctx context.Context) played {
			namespace := newNamespace(ctx, builder.Script("done"))
			session := builder.Session("demo").In(namespace).Obj()
			for name, event := range map[string]v1alpha1.HookEvent{
				"hello": v1alpha1.HookEventSessionStart, "bye": v1alpha1.HookEventSessionEnd,
			} {
				session.Spec.Hooks = append(session.Spec.Hooks, v1alpha1.Hook{
					Name: name, Event: event, CEL: &v1alpha1.CELHook{Expression: "true"},
				})
			}
			create(ctx, builder.Session("plain").In(namespace).Obj())
			Eventually(phaseOf(ctx, namespace, "plain")).Should(Equal(v1alpha1.SessionPhaseStarted))
			p := played{namespace: namespace, before: len(requests.in(namespace))}
			create(ctx, session)
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			return p
			// A Session without them becomes ready with 1. The third one removes the finalizer, when it is deleted.
		}, times(1, sessionWrite), []string{finalizerWrite, sessionWrite}, beginning, ending),
		Entry("that waits between two attempts of its model call: 1", func(ctx context.Context) played {
			later := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, newSite(inTurn(later, anthropicText("done"))), nil)
			create(ctx, keySecret(namespace))
			eventuallyReady(ctx, namespace, "real")
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			p := played{namespace: namespace, before: len(requests.in(namespace))}
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			return p
		}, beginning, times(1, turnWrite), ending),
	)

	// The phase changes in the middle of the step, which one status write shows at once. The table has no such Turn.
	// Rules: CLIENT-02.
	It(
		"of a wait for a client after a Job has settled is 1 part, and 1 status that shows the wait",
		func(ctx context.Context) {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work", "ask-ann")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(), builder.ClientTool("ask-ann").Obj())
			before := startedSession(ctx, namespace)
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
			waiting := requests.in(namespace)
			Consistently(
				func() []string { return requests.in(namespace) },
			).WithTimeout(2*time.Second).
				Should(Equal(waiting), "a Turn that waits costs writes")
			create(ctx, builder.ToolResult("ann", "1-1").In(namespace).Result("yes").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			want := slices.Concat(
				beginning,
				actingFirst(1, v1alpha1.SideEffectPure),
				times(1, entryWrite),
				[]string{acceptWrite},
				times(2, sessionWrite),
				ending,
			)
			Consistently(func() []string {
				counted, _ := requests.budgeted(namespace)
				return counted[before:]
			}).WithTimeout(300 * time.Millisecond).Should(ConsistOf(want))
			_, progress := requests.budgeted(namespace)
			Expect(phases(progress)).To(HaveLen(1))
			Expect(progress).To(HaveLen(1))
		},
	)

	// The Session hides the task with its next write, which may be the admission of the Turn that delivers the end.
	// Rules: TOOL-20.
	It("of a background task is 1 Session status and 1 record for the call, 1 Job and 1 gate, 3 records, 1 Turn and at "+
		"most 1 Session status, and what that Turn costs itself", func(ctx context.Context) {
		ended := make(chan struct{})
		namespace := newWorkshop(ctx, func(capstantest.Call) (string, string, int) {
			<-ended
			return "built", "", 0
		}, spawns("build"))
		before := len(requests.in(namespace))
		create(ctx, starting(namespace, "demo-1"))
		id := taskIn(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(func() int { return kit.Starts(namespace, "demo-1", id) }).Should(Equal(1))
		waiting := requests.in(namespace)
		Consistently(func() []string { return requests.in(namespace) }).WithTimeout(2*time.Second).
			Should(Equal(waiting), "a task that runs costs writes")
		close(ended)
		Eventually(kit.Turn(ctx, namespace, background.Name(id))).Should(capstantest.HaveSucceeded())
		Eventually(tasksOf(ctx, namespace)).Should(BeEmpty())
		want := slices.Concat(
			beginning, acting(0, v1alpha1.SideEffectAtMostOnce)[:1], []string{sessionWrite, "POST records"},
			[]string{entryWrite, turnWrite, entryWrite}, ending,
			[]string{accountWrite, jobWrite, gateWrite}, times(3, "PUT records"), []string{agentTurnWrite}, beginning, ending,
		)
		expectWrites(ctx, namespace, before, SatisfyAny(
			ConsistOf(want), ConsistOf(slices.Concat(want, times(1, sessionWrite)))))
	})
})
