//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// unknown is in the text for the model about every call that may have had an effect.
const unknown = "The outcome of this tool call is unknown"

// forLong are the arguments of a tool that does not end before the spec.
var forLong = arguments{"seconds": 300}

// little is memory that is soon used up.
var little = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}

var _ = Describe("A tool call that has started", func() {
	DescribeTable("and fails reports its reason to the model:",
		func(ctx SpecContext, e callOutcome) { e.play(ctx) },
		Entry("an exit code", SpecTimeout(specLimit), callOutcome{
			tool:   toolbox("work", "fail", v1alpha1.SideEffectIdempotent),
			given:  arguments{"code": 7, "stderr": "no such city"},
			state:  v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonExitCode,
			texts:  []string{"exit code 7", "no such city"},
			limit:  atOnce,
		}),
		Entry("a signal that the tool sends to itself", SpecTimeout(specLimit), callOutcome{
			tool:   toolbox("work", "signal", v1alpha1.SideEffectPure),
			given:  arguments{"number": 9},
			state:  v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonExitCode,
			texts:  []string{"terminated by signal 9"},
			limit:  atOnce,
		}),
		Entry("its timeout", SpecTimeout(specLimit), callOutcome{
			tool:   within(2*time.Second, toolbox("work", "sleep", v1alpha1.SideEffectPure)),
			given:  forLong,
			state:  v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonTimeout,
			texts:  []string{"it was stopped after 2s"},
			limit:  atOnce,
		}),
		Entry("memory above its limit (Pure)", SpecTimeout(specLimit), callOutcome{
			tool:   with(little, toolbox("work", "memory", v1alpha1.SideEffectPure)),
			given:  arguments{"mib": 512},
			state:  v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonOOMKilled,
			texts:  []string{"it used more memory than its limit"},
			limit:  atOnce,
		}),
		Entry("memory above its limit (AtMostOnce)", SpecTimeout(specLimit), callOutcome{
			tool:   with(little, toolbox("work", "memory", v1alpha1.SideEffectAtMostOnce)),
			given:  arguments{"mib": 512},
			state:  v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonOOMKilled,
			texts:  []string{"it used more memory than its limit"},
			limit:  atOnce,
		}),
	)

	DescribeTable(
		"with side effect AtMostOnce has an unknown outcome when",
		func(ctx SpecContext, reason, text string, meddle func(context.Context, *v1alpha1.Turn)) {
			w := newToolServer(ctx)
			w.hold("work")
			e := callOutcome{
				tool:  toolbox("work", "report", v1alpha1.SideEffectAtMostOnce),
				given: w.arguments("work"),
				meddle: func(ctx context.Context, turn *v1alpha1.Turn) {
					w.visited(ctx, "work", 1)
					meddle(ctx, turn)
				},
				state:  v1alpha1.ToolCallStateUnknown,
				reason: reason,
				texts:  []string{unknown, text, "It was not run again."},
				limit:  atOnce,
			}
			answer := e.play(ctx)
			Expect(w.of("work")).To(HaveLen(1), "starts of the tool")
			Expect(callOf(answer, "work").Attempt).To(BeEquivalentTo(1))
		},
		Entry(
			"its pod is evicted",
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonDisruption,
			"its pod was stopped before it had ended (EvictionByEvictionAPI)",
			evictPod,
		),
		Entry(
			"its pod is deleted by a user",
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonDisruption,
			"its pod was stopped before it had ended",
			deletePod,
		),
		Entry(
			"its pod is deleted by force",
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonDisruption,
			"its pod was stopped before it had ended",
			deletePodByForce,
		),
		Entry(
			"its Job is deleted by a user",
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonJobGone,
			"its Job no longer exists",
			deleteJob,
		),
		Entry(
			"its container is killed",
			Label(hereLabel),
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonKilled,
			"its container was killed",
			killContainer,
		),
	)

	DescribeTable(
		"with another side effect is retried after a pause that the status shows when",
		func(ctx SpecContext, reason string, meddle func(context.Context, *v1alpha1.Turn)) {
			w := newToolServer(ctx)
			w.hold("work")
			namespace := newStage(
				ctx,
				builder.Script("{{tool:work}}", calls{w.call("work")}),
				toolbox("work", "report", v1alpha1.SideEffectIdempotent),
			)
			asked := ask(ctx, namespace, "demo-1")
			w.visited(ctx, "work", 1)
			meddle(ctx, asked)
			disturbed := time.Now()
			again := secondAttempt(ctx, asked, patience)
			show("the second attempt was planned after", time.Since(disturbed).Round(time.Millisecond).String())
			Expect(again.Reason).To(Equal(reason))
			Expect(again.NotBefore).NotTo(BeNil())
			Expect(again.NotBefore.Sub(disturbed)).To(BeNumerically("~", act.RetryPause(1), 4*time.Second))
			w.letGo("work")
			answer := succeeded(ctx, namespace, "demo-1")
			show("answered after", time.Since(disturbed).Round(time.Millisecond).String())
			visits := w.of("work")
			Expect(visits).To(HaveLen(2), "starts of the tool")
			Expect(visits[0].key).To(Equal(visits[1].key), "idempotency keys")
			Expect(answer.Status.Output).To(Equal(visits[1].receipt))
			made := callOf(answer, "work")
			Expect(made.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(made.Attempt).To(BeEquivalentTo(2))
			for _, pod := range podsOf(ctx, answer) {
				if pod.Labels[v1alpha1.LabelAttempt] == "2" {
					Expect(toolStatus(&pod).State.Terminated.StartedAt.Time).To(BeTemporally(">=", again.NotBefore.Time))
				}
			}
		},
		Entry("its pod is evicted", SpecTimeout(specLimit), v1alpha1.ToolCallReasonDisruption, evictPod),
		Entry("its pod is deleted by a user", SpecTimeout(specLimit), v1alpha1.ToolCallReasonDisruption, deletePod),
		Entry(
			"its container is killed",
			Label(hereLabel),
			SpecTimeout(specLimit),
			v1alpha1.ToolCallReasonKilled,
			killContainer,
		),
	)

	It(
		"with another side effect is retried after its pod was deleted before the start",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(
				ctx,
				builder.Script("{{tool:work}}", calls{call("work", nil)}),
				with(tooMuch, toolbox("work", "echo", v1alpha1.SideEffectPure)),
			)
			asked := ask(ctx, namespace, "demo-1")
			Expect(api.Delete(ctx, unschedulablePod(ctx, asked))).To(Succeed())
			Expect(secondAttempt(ctx, asked, patience).Reason).To(Equal(v1alpha1.ToolCallReasonDisruption))
			podWhere(
				ctx,
				asked,
				"is the second attempt's",
				func(pod *corev1.Pod) bool { return pod.Labels[v1alpha1.LabelAttempt] == "2" },
			)
		},
	)
})

// arguments are what a tool that reports here is called with.
func (w *toolServer) arguments(tool string) arguments {
	return arguments{"url": w.url + "/" + tool}
}

// evictPod asks for the eviction of the pod that runs the Turn's tool, as `kubectl drain` does.
func evictPod(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	pod := runningPod(ctx, turn)
	Expect(
		clientset.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: named(pod.Namespace, pod.Name)}),
	).To(Succeed())
}

func deletePod(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	Expect(api.Delete(ctx, runningPod(ctx, turn))).To(Succeed())
}

// deletePodByForce does what `kubectl delete pod --force` does.
func deletePodByForce(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	Expect(api.Delete(ctx, runningPod(ctx, turn), client.GracePeriodSeconds(0))).To(Succeed())
}

// deleteJob does what `kubectl delete job` does.
func deleteJob(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	runningPod(ctx, turn)
	Expect(api.Delete(ctx, jobOf(ctx, turn), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}

// killContainer kills the first process of the tool's container, which takes the others with it, and no process can
// write a report.
func killContainer(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	id, err := firstProcess(runningPod(ctx, turn), v1alpha1.ToolContainerName)
	Expect(err).NotTo(HaveOccurred())
	Expect(syscall.Kill(id, syscall.SIGKILL)).To(Succeed())
}

// secondAttempt waits until the Turn's only call was given its second attempt.
func secondAttempt(ctx context.Context, turn *v1alpha1.Turn, limit time.Duration) v1alpha1.ToolCall {
	GinkgoHelper()
	var found v1alpha1.ToolCall
	Eventually(ctx, func(ctx context.Context) (int32, error) {
		now := &v1alpha1.Turn{}
		if err := api.Get(ctx, keyOf(turn), now); err != nil || len(now.Status.ToolCalls) != 1 {
			return 0, err
		}
		found = now.Status.ToolCalls[0]
		return found.Attempt, nil
	}).WithTimeout(limit).WithPolling(promptly).Should(BeEquivalentTo(2), "the call was not given a second attempt")
	show(
		"the call after the disruption",
		fmt.Sprintf("attempt %d, %s %s, not before %s", found.Attempt, found.State, found.Reason, found.NotBefore),
	)
	return found
}

// suspend changes whether a Job may have pods.
func suspend(ctx context.Context, job *batchv1.Job, suspended bool) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspended))
	Expect(api.Patch(ctx, job, patch)).To(Succeed())
}
