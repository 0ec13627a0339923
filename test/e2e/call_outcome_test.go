//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// callOutcome is the expected outcome of a tool call, and how it comes about.
type callOutcome struct {
	// tool is called once, with the arguments.
	tool  *v1alpha1.Tool
	given arguments
	// before readies the namespace, when the call needs more than its tool.
	before func(ctx context.Context, namespace string)
	// meddle disturbs the call while it is in progress.
	meddle func(ctx context.Context, turn *v1alpha1.Turn)
	// state and reason are those in the final status.
	state  v1alpha1.ToolCallState
	reason string
	// texts has parts of the text for the model.
	texts []string
	// limit is how long the Turn may take. Default: patience.
	limit time.Duration
	// noJob reports whether there is never a Job.
	noJob bool
}

// play runs a Turn that calls the tool and checks every account of the call's end.
func (e callOutcome) play(ctx context.Context) *v1alpha1.Turn {
	GinkgoHelper()
	name := e.tool.Name
	namespace := newStage(ctx, builder.Script("{{tool:"+name+"}}", calls{call(name, e.given)}), e.tool)
	if e.before != nil {
		e.before(ctx, namespace)
	}
	before := counted(ctx, e.state, e.reason)
	asked, began := ask(ctx, namespace, "demo-1"), time.Now()
	if e.meddle != nil {
		e.meddle(ctx, asked)
	}
	answer := succeeded(ctx, namespace, "demo-1")
	took := time.Since(began)
	expectEnding(ctx, answer, name, e.state, e.reason, e.texts...)
	Expect(counted(ctx, e.state, e.reason)).To(BeNumerically(">", before), "the manager's metric")
	show("answered after", took.Round(time.Millisecond).String())
	if e.limit > 0 {
		Expect(took).To(BeNumerically("<", e.limit))
	}
	if e.noJob {
		Expect(jobsIn(ctx, namespace)).To(BeEmpty())
	}
	return answer
}

// expectEnding checks a call that did not succeed in the status, in the journal and in the text for the model.
func expectEnding(
	ctx context.Context,
	answer *v1alpha1.Turn,
	tool string,
	state v1alpha1.ToolCallState,
	reason string,
	texts ...string,
) {
	GinkgoHelper()
	made, logged := callOf(answer, tool), outcomes(ctx, answer)[tool]
	show("the call ended as", fmt.Sprintf("%s %s", made.State, made.Reason))
	show("the model received", logged.Error)
	Expect(fmt.Sprintf("%s %s", made.State, made.Reason)).To(Equal(fmt.Sprintf("%s %s", state, reason)))
	Expect(logged.Success).To(BeFalse())
	Expect(logged.Status).NotTo(Equal(event.StatusSuccess))
	for _, words := range texts {
		Expect(logged.Error).To(ContainSubstring(words))
	}
	Expect(answer.Status.Output).To(ContainSubstring(logged.Error), "the model did not read the error in the journal")
}

// counted is how many tool calls, run as Jobs, the manager has counted that ended so.
func counted(ctx context.Context, state v1alpha1.ToolCallState, reason string) float64 {
	GinkgoHelper()
	series := regexp.MustCompile(
		fmt.Sprintf(`(?m)^capstan_tool_calls_total\{executor="Job",reason=%q,state=%q\} (\S+)$`, reason, state),
	)
	found := series.FindStringSubmatch(managerMetrics(ctx))
	if found == nil {
		return 0
	}
	count, err := strconv.ParseFloat(found[1], 64)
	Expect(err).NotTo(HaveOccurred())
	return count
}

// managerMetrics returns the metrics of the manager that leads. It works without the node.
func managerMetrics(ctx context.Context) string {
	GinkgoHelper()
	lease := &coordinationv1.Lease{}
	Expect(api.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerLease}, lease)).To(Succeed())
	Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return scraped(ctx, pod)
}

// startingWithin gives the tool a start timeout.
func startingWithin(limit time.Duration, tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.StartTimeout = &metav1.Duration{Duration: limit}
	return tool
}

// with makes the tool ask for resources, and limits it to them.
func with(resources corev1.ResourceList, tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Resources = &v1alpha1.JobResources{Requests: resources, Limits: resources}
	return tool
}

// from gives the tool another image.
func from(image string, policy corev1.PullPolicy, tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Image, tool.Spec.Job.ImagePullPolicy = image, policy
	return tool
}

// commanding makes the tool run another program of its image.
func commanding(program string, tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Command = []string{program}
	return tool
}

// podWhere waits for the one pod of a Turn for which found is true.
func podWhere(ctx context.Context, turn *v1alpha1.Turn, what string, found func(*corev1.Pod) bool) *corev1.Pod {
	GinkgoHelper()
	var chosen *corev1.Pod
	Eventually(ctx, func() bool {
		for _, pod := range podsOf(ctx, turn) {
			if found(&pod) {
				chosen = &pod
				return true
			}
		}
		return false
	}).WithPolling(promptly).Should(BeTrue(), "no pod of the Turn "+what)
	return chosen
}

// runningPod waits until a tool of the Turn runs.
func runningPod(ctx context.Context, turn *v1alpha1.Turn) *corev1.Pod {
	GinkgoHelper()
	return podWhere(ctx, turn, "runs its tool", func(pod *corev1.Pod) bool {
		status := toolStatus(pod)
		return pod.DeletionTimestamp.IsZero() && status != nil && status.State.Running != nil
	})
}

// unschedulablePod waits until no node could take the pod of the Turn.
func unschedulablePod(ctx context.Context, turn *v1alpha1.Turn) *corev1.Pod {
	GinkgoHelper()
	return podWhere(ctx, turn, "was turned down by the scheduler", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return pod.DeletionTimestamp.IsZero()
			}
		}
		return false
	})
}

// jobOf waits for the Job of the Turn.
func jobOf(ctx context.Context, turn *v1alpha1.Turn) *batchv1.Job {
	GinkgoHelper()
	var found *batchv1.Job
	Eventually(ctx, func() bool {
		for _, job := range jobsIn(ctx, turn.Namespace) {
			if metav1.IsControlledBy(&job, turn) {
				found = &job
			}
		}
		return found != nil
	}).WithPolling(promptly).Should(BeTrue(), "the Turn has no Job")
	return found
}
