//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Job that a user suspends", func() {
	DescribeTable("before its pod has started waits, and neither of its timeouts runs",
		func(ctx SpecContext, class v1alpha1.SideEffect) {
			const limit = 4 * time.Second
			namespace := newStage(ctx,
				builder.Script("{{tool:work}}", calls{call("work", arguments{"seconds": 1})}),
				startingWithin(limit, within(limit, toolbox("work", "sleep", class))))
			// Without room for a pod, none has to be deleted again.
			quota("pods")(ctx, namespace)
			made := shown(ctx, &batchv1.JobList{}, namespace, func(*batchv1.Job) bool { return true })
			asked := ask(ctx, namespace, "demo-1")
			Expect(made()).To(Succeed())
			job := jobOf(ctx, asked)
			suspend(ctx, job, true)
			Eventually(ctx, stateOf(asked)).Should(Equal("Pending " + v1alpha1.ToolCallReasonSuspended))
			Expect(api.Delete(ctx, &corev1.ResourceQuota{ObjectMeta: named(namespace, "none")})).To(Succeed())
			Consistently(
				ctx,
				stateOf(asked),
			).WithTimeout(limit + 2*time.Second).
				Should(Equal("Pending " + v1alpha1.ToolCallReasonSuspended))
			Expect(podsOf(ctx, asked)).To(BeEmpty())

			suspend(ctx, job, false)
			resumed := time.Now()
			answer := succeeded(ctx, namespace, "demo-1")
			show("answered after it was resumed for", time.Since(resumed).Round(time.Millisecond).String())
			Expect(answer.Status.Output).To(Equal("slept 1 s"))
			Expect(callOf(answer, "work").Attempt).To(BeEquivalentTo(1))
		},
		Entry("(Pure)", v1alpha1.SideEffectPure, SpecTimeout(specLimit)),
		Entry("(AtMostOnce)", v1alpha1.SideEffectAtMostOnce, SpecTimeout(specLimit)),
	)

	It(
		"while its tool runs starts a tool that may run again once more after it is resumed",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			w.hold("work")
			namespace := newStage(
				ctx,
				builder.Script("{{tool:work}}", calls{w.call("work")}),
				toolbox("work", "report", v1alpha1.SideEffectIdempotent),
			)
			asked := ask(ctx, namespace, "demo-1")
			w.visited(ctx, "work", 1)
			job := jobOf(ctx, asked)
			suspend(ctx, job, true)
			Eventually(ctx, stateOf(asked)).Should(Equal("Pending " + v1alpha1.ToolCallReasonSuspended))
			w.letGo("work")
			suspend(ctx, job, false)
			answer := succeeded(ctx, namespace, "demo-1")
			visits := w.of("work")
			Expect(visits).To(HaveLen(2), "starts of the tool")
			Expect(visits[0].key).To(Equal(visits[1].key), "idempotency keys")
			Expect(answer.Status.Output).To(Equal(visits[1].receipt))
		},
	)

	It(
		"while its AtMostOnce tool runs has an unknown outcome, and its second pod stays gated",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			w.hold("work")
			// The step stays open for the client's answer, so that the Job stays too.
			namespace := newStage(ctx, builder.Script("{{tool:work}}", calls{w.call("work"), call("ask-ann", nil)}),
				toolbox("work", "report", v1alpha1.SideEffectAtMostOnce), builder.ClientTool("ask-ann").Obj())
			ran := watchContainers(ctx, namespace)
			before := counted(ctx, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonDisruption)
			asked := ask(ctx, namespace, "demo-1")
			first := runningPod(ctx, asked)
			w.visited(ctx, "work", 1)
			job := jobOf(ctx, asked)
			suspend(ctx, job, true)
			suspended := time.Now()
			Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			show("the call ended after", time.Since(suspended).Round(time.Millisecond).String())

			suspend(ctx, job, false)
			second := podWhere(
				ctx,
				asked,
				"is a second one",
				func(pod *corev1.Pod) bool { return pod.UID != first.UID && pod.DeletionTimestamp.IsZero() },
			)
			Expect(second.Spec.SchedulingGates).To(ConsistOf(corev1.PodSchedulingGate{Name: v1alpha1.SchedulingGateStart}))
			w.letGo("work")
			Consistently(ctx, func(ctx context.Context) (*corev1.Pod, error) {
				now := &corev1.Pod{}
				err := api.Get(ctx, keyOf(second), now)
				return now, err
			}).WithTimeout(3 * time.Second).Should(
				And(HaveField("Spec.SchedulingGates", HaveLen(1)), HaveField("Spec.NodeName", BeEmpty())),
			)

			create(ctx, builder.ToolResult("ann", "1-1").In(namespace).Result("so be it").Obj())
			answer := succeeded(ctx, namespace, "demo-1")
			expectEnding(
				ctx,
				answer,
				"work",
				v1alpha1.ToolCallStateUnknown,
				v1alpha1.ToolCallReasonDisruption,
				unknown,
				"its pod was stopped before it had ended",
				"It was not run again.",
			)
			Expect(counted(ctx, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonDisruption)).To(BeNumerically(">", before))
			Expect(callOf(answer, "work").PodUID).To(Equal(first.UID))
			Expect(w.of("work")).To(HaveLen(1), "starts of the tool")
			Expect(ran.counts()).To(Equal(map[string]int{callOf(answer, "work").ID: 1}), "containers that ran")
			// What is left of the call could still be let go by hand: it goes with the end of the step.
			Eventually(ctx, func() []corev1.Pod { return podsOf(ctx, answer) }).Should(BeEmpty())
		},
	)
})

// stateOf returns a function that reads state and reason of the Turn's first call.
func stateOf(turn *v1alpha1.Turn) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		now := &v1alpha1.Turn{}
		if err := api.Get(ctx, keyOf(turn), now); err != nil || len(now.Status.ToolCalls) == 0 {
			return "", err
		}
		made := now.Status.ToolCalls[0]
		return string(made.State) + " " + made.Reason, nil
	}
}
