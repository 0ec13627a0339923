package turns_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// The parts of a Turn in the journal (LIFE-01 to LIFE-07, LLM-02, TOOL-11, EVT-04).
var (
	opened   = []string{"input.message", "session.activated", "turn.started"}
	reasoned = []string{
		"reason.started",
		"output.message.started",
		"llm.generation",
		"output.message.completed",
		"reason.completed",
	}
	requested = []string{"tool.call_requested"}
	completed = []string{"turn.completed", "session.idled"}
	failed    = []string{"turn.failed", "session.idled"}
	blocked   = []string{"output.message.completed", "turn.failed", "session.idled"}
)

// acted is an act step with the given events of its calls.
func acted(calls ...string) []string {
	return slices.Concat([]string{"act.started"}, calls, []string{"act.completed"})
}

// archive takes a Harness out of use.
func archive(ctx context.Context, object client.Object) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"lifecycle":"Archived"}}`))
	Expect(kit.Client.Patch(ctx, object, patch)).To(Succeed())
}

func harnessOf(namespace string) *v1alpha1.Harness {
	harness := &v1alpha1.Harness{}
	harness.Namespace, harness.Name = namespace, "base"
	return harness
}

// blocking lets the tools of a namespace run until the test ends them: started reports each call, proceed ends one.
func blocking(namespace string) (started chan capstantest.Call, proceed chan struct{}) {
	started, proceed = make(chan capstantest.Call, 64), make(chan struct{})
	jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
		started <- call
		select {
		case <-proceed:
		case <-call.Context.Done():
		}
		return "result of " + call.ID, "", 0
	})
	return started, proceed
}

var _ = Describe("The journal of a Turn", func() {
	run := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	}
	expectLog := func(ctx context.Context, namespace string, parts ...[]string) {
		GinkgoHelper()
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		Expect(eventTypes(ctx, namespace, "demo")).To(Equal(slices.Concat(parts...)))
	}

	// Rules: EVT-04, LIFE-01, LIFE-05, LLM-02, VEC-05, VEC-12.
	It("without tools", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectLog(ctx, namespace, opened, reasoned, completed)
	})

	// Rules: EVT-04.
	It("with one tool", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("It is {{tool:work}}.", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectLog(ctx, namespace, opened, reasoned, acted("tool.started", "tool.completed"), reasoned, completed)
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("It is result of 1-0."))
	})

	// Rules: TOOL-11.
	It("with several tools has the start and the end of each, in the order of the calls", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("work", "unheard-of", "work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectLog(ctx, namespace, opened, reasoned,
			acted("tool.started", "tool.completed", "tool.completed", "tool.started", "tool.completed"), reasoned, completed)
		Expect(completedCalls(ctx, namespace)).To(Equal([]string{"1-0 success", "1-1 error", "1-2 success"}))
	})

	// Rules: EVT-04, LIFE-07.
	It("with a client tool", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("done", builder.Calls("ask-ann", "work")),
			builder.ClientTool("ask-ann").Obj(),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectLog(ctx, namespace, opened, reasoned, requested, acted("tool.started", "tool.completed"),
			[]string{"tool.completed"}, reasoned, completed)
	})

	// Rules: EVT-04, LIFE-06.
	It("of a model that fails", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeError, Text: "no such thing"},
			},
		)
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("ProcessingError"))
		expectLog(ctx, namespace, opened, reasoned, failed)
	})

	It("of a Turn that is cancelled while its tool runs", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("never", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		started, _ := blocking(namespace)
		run(ctx, namespace)
		Eventually(started).Should(Receive())
		cancelTurn(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		Expect(jobNames(ctx, namespace)).To(BeEmpty(), "the Turn has ended and its tool runs on")
		expectLog(ctx, namespace, opened, reasoned, acted("tool.completed"), failed)
	})

	It(
		"of a cancelled Turn ends at once, its status only when no container runs any more",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("never", builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			started, _ := blocking(namespace)
			run(ctx, namespace)
			Eventually(started).Should(Receive())
			// A finalizer stands for a container that takes its time.
			pod := onlyPod(ctx, namespace)
			setFinalizers(ctx, pod, `["capstan.dev/slow"]`)
			cancelTurn(ctx, namespace, "demo-1")
			Eventually(func() []string { return eventTypes(ctx, namespace, "demo") }).Should(ContainElement("turn.failed"))
			Consistently(turnPhase(ctx, namespace, "demo-1")).WithTimeout(time.Second).Should(Equal(v1alpha1.TurnPhaseAct))
			setFinalizers(ctx, pod, `null`)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		},
	)

	// Rules: BLK-04, LIFE-10.
	It("of a Turn whose Harness was archived before", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("never"))
		archive(ctx, harnessOf(namespace))
		run(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
		expectLog(ctx, namespace, opened, blocked)
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Error.Code).To(Equal(v1alpha1.ErrorCodeDependencyUnavailable))
		Expect(
			turn.Status.Error.Fields,
		).To(SatisfyAll(HaveLen(3), HaveKeyWithValue("dependency", "harness"), HaveKeyWithValue("state", "archived"),
			HaveKeyWithValue("remedy", ContainSubstring(harnessOf(namespace).GetName()))))
	})

	It(
		"of a Turn whose Harness is archived while a tool runs: the tool ends, and no model is called",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("never", builder.Calls("work"), builder.Calls("work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			started, proceed := blocking(namespace)
			run(ctx, namespace)
			Eventually(started).Should(Receive())
			archive(ctx, harnessOf(namespace))
			close(proceed)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
			expectLog(ctx, namespace, opened, reasoned, acted("tool.started", "tool.completed"), blocked)
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.ToolCalls).To(HaveLen(1))
			Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
		},
	)

	It(
		"of a Turn whose Agent is archived while it waits for a client: no tool of a later step starts",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("never", builder.Calls("work"), builder.Calls("ask-ann")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
				builder.ClientTool("ask-ann").Obj(),
			)
			agent := &v1alpha1.Agent{}
			agent.Namespace, agent.Name = namespace, "helper"
			create(ctx, agent)
			session := builder.Session("demo").In(namespace).Obj()
			session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "helper"}
			create(ctx, session)
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			archive(ctx, agent)
			create(ctx, builder.ToolResult("ann", "2-0").In(namespace).Result("yes").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
			Eventually(accepted(ctx, namespace, "ann")).Should(Equal("False CallClosed"))
			expectLog(
				ctx,
				namespace,
				opened,
				reasoned,
				acted("tool.started", "tool.completed"),
				reasoned,
				requested,
				[]string{"tool.completed"},
				blocked,
			)
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(
				turn.Status.Error.Fields,
			).To(SatisfyAll(HaveLen(3), HaveKeyWithValue("dependency", "agent"), HaveKeyWithValue("state", "archived"),
				HaveKeyWithValue("remedy", ContainSubstring(`lifecycle of Agent "helper"`))))
		},
	)

	It(
		"of a Turn whose Harness is deleted while it waits is the same as of one that is archived",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("never", builder.Calls("ask-ann")),
				builder.ClientTool("ask-ann").Obj(),
			)
			run(ctx, namespace)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			Expect(kit.Client.Delete(ctx, harnessOf(namespace))).To(Succeed())
			create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(
				turn.Status.Error.Fields,
			).To(SatisfyAll(HaveLen(3), HaveKeyWithValue("dependency", "harness"), HaveKeyWithValue("state", "deleted"),
				HaveKeyWithValue("remedy", ContainSubstring("Create Harness"))))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhasePending))
		},
	)

	// Rules: EVT-02.
	It("numbers one Turn after the other", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("yes"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Hello again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		expectLog(ctx, namespace, opened, reasoned, completed, opened, reasoned, completed)
	})
})

// cancelTurn asks for the end of a Turn.
func cancelTurn(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`))
	turn := &v1alpha1.Turn{}
	turn.Namespace, turn.Name = namespace, name
	Expect(kit.Client.Patch(ctx, turn, patch)).To(Succeed())
}

// onlyPod is the one pod of a namespace.
func onlyPod(ctx context.Context, namespace string) *corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(kit.Client.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	return &pods.Items[0]
}

func setFinalizers(ctx context.Context, object client.Object, list string) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+list+`}}`))
	Expect(kit.Client.Patch(ctx, object, patch)).To(Succeed())
}

// toolCompleted has the fields of a tool.completed event that the specs read.
type toolCompleted struct {
	ToolCallID string `json:"tool_call_id"`
	Status     string `json:"status"`
	Error      string `json:"error"`
	Result     []struct {
		Text string `json:"text"`
	} `json:"result"`
}

// completions are the ends of all tool calls in the journal of a Session, in order.
func completions(ctx context.Context, namespace string) []toolCompleted {
	GinkgoHelper()
	var found []toolCompleted
	for _, event := range allEvents(ctx, namespace) {
		if event.Type != "tool.completed" {
			continue
		}
		var data toolCompleted
		Expect(json.Unmarshal(event.Data.Raw, &data)).To(Succeed())
		found = append(found, data)
	}
	return found
}

// completedCalls are the ids of the calls that have ended, each with its status.
func completedCalls(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var ids []string
	for _, data := range completions(ctx, namespace) {
		ids = append(ids, data.ToolCallID+" "+data.Status)
	}
	return ids
}

// allEvents are the events of the journal of Session demo, in order.
func allEvents(ctx context.Context, namespace string) []event.Event {
	var events []event.Event
	for _, entry := range entries(ctx, namespace, "demo") {
		events = append(events, entry.Events...)
	}
	return events
}
