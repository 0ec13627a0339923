//go:build e2e

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn", func() {
	It("without tools completes with the response of the model", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newStage(ctx, builder.Script("Good morning."))
		answer := answered(ctx, namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal("Good morning."))
		Expect(answer.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonEndTurn))
		Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1}))
		Expect(jobsIn(ctx, namespace)).To(BeEmpty())
	})

	DescribeTable("runs a tool that is",
		func(ctx SpecContext, class v1alpha1.SideEffect) {
			namespace := newStage(
				ctx,
				builder.Script(
					"It has {{tool:word-count}} words.",
					calls{call("word-count", arguments{"text": "How many words has this sentence?"})},
				),
				toolbox("word-count", "word-count", class),
			)
			answer := answered(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(Equal("It has 6 words."))
			Expect(resultText(outcomes(ctx, answer)["word-count"])).To(Equal("6\n"))
			made := callOf(answer, "word-count")
			Expect(made.SideEffect).To(Equal(class))
			Expect(made.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			pods := podsOf(ctx, answer)
			Expect(pods).To(HaveLen(1))
			if class == v1alpha1.SideEffectAtMostOnce {
				Expect(made.PodUID).To(Equal(pods[0].UID), "the pod that ran is the one that was recorded")
			} else {
				Expect(made.PodUID).To(BeEmpty())
			}
			Expect(pods[0].Spec.SchedulingGates).To(BeEmpty())
			Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1}))
		},
		Entry("Pure", v1alpha1.SideEffectPure, SpecTimeout(specLimit)),
		Entry("Idempotent", v1alpha1.SideEffectIdempotent, SpecTimeout(specLimit)),
		Entry("AtMostOnce", v1alpha1.SideEffectAtMostOnce, SpecTimeout(specLimit)),
	)

	It("runs the three tools of a step at the same time", SpecTimeout(specLimit), func(ctx SpecContext) {
		nap := arguments{"seconds": 4}
		namespace := newStage(
			ctx,
			builder.Script("done", calls{call("nap-one", nap), call("nap-two", nap), call("nap-three", nap)}),
			toolbox(
				"nap-one",
				"sleep",
				v1alpha1.SideEffectPure,
			),
			toolbox("nap-two", "sleep", v1alpha1.SideEffectIdempotent),
			toolbox("nap-three", "sleep", v1alpha1.SideEffectAtMostOnce),
		)
		answer := answered(ctx, namespace, "demo-1")
		pods := podsOf(ctx, answer)
		Expect(pods).To(HaveLen(3))
		var lastStart, firstEnd time.Time
		for i := range pods {
			status := toolStatus(&pods[i])
			Expect(status).NotTo(BeNil())
			Expect(status.State.Terminated).NotTo(BeNil())
			start, end := status.State.Terminated.StartedAt.Time, status.State.Terminated.FinishedAt.Time
			if start.After(lastStart) {
				lastStart = start
			}
			if firstEnd.IsZero() || end.Before(firstEnd) {
				firstEnd = end
			}
		}
		Expect(lastStart).To(BeTemporally("<", firstEnd), "the last container started before the first one ended")
	})

	It("uses the result of the first step in the arguments of the second", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newStage(
			ctx,
			builder.Script(
				"{{tool:echo}}",
				calls{call("calculate", arguments{"expression": "6*7"})},
				calls{call("echo", arguments{"seen": "<{{tool:calculate}}>"})},
			),
			toolbox("calculate", "calculate", v1alpha1.SideEffectPure),
			toolbox("echo", "echo", v1alpha1.SideEffectAtMostOnce),
		)
		answer := answered(ctx, namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal(`{"seen":"<42>"}`))
		Expect(answer.Status.Iteration).To(BeEquivalentTo(3))
		Expect(answer.Status.Summary.Calls).To(Equal("2/2"))
		Expect(jobsIn(ctx, namespace)).To(HaveLen(2))
		Expect(
			finalEntries(ctx, answer),
		).To(Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1, "step 4": 1, "step 5": 1}))
	})
})
