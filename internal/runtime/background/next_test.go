package background

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const owner = types.UID("session")

func task(changes ...func(*Task)) *Task {
	t := &Task{ID: "0123456789abcdef", Tool: Tool{Name: "build"}, CallID: "1-0", Recorded: began}
	for _, change := range changes {
		change(t)
	}
	return t
}

func recorded(t *Task)  { t.PodUID = "pod" }
func cancelled(t *Task) { t.Cancelled = ptr.To(began.Add(time.Minute)) }

func job(changes ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "task-0123456789abcdef", UID: "job", CreationTimestamp: metav1.NewTime(began),
		Labels:          map[string]string{v1alpha1.LabelTask: "0123456789abcdef"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Session", UID: owner, Controller: ptr.To(true)}},
	}}
	for _, change := range changes {
		change(j)
	}
	return j
}

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "pod", UID: "pod", CreationTimestamp: metav1.NewTime(began),
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: "job", Controller: ptr.To(true)}},
	}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func gatedPod(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateStart}}
}

func runningPod(p *corev1.Pod) {
	p.Spec.NodeName = "n"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ToolContainerName, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)},
	}}}
}

func deletedPod(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(began)) }

// Rules: TOOL-20, TASK-01.
func TestNext(t *testing.T) {
	tool := &v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{}}
	for name, test := range map[string]struct {
		task   *Task
		job    *batchv1.Job
		pods   []*corev1.Pod
		tool   *v1alpha1.ToolSpec
		live   bool
		after  time.Duration
		do     Do
		reason string
	}{
		"it is new":            {task: task(), tool: tool, do: DoLook},
		"it is new, seen live": {task: task(), tool: tool, live: true, do: DoCreateJob},
		"its Tool was changed": {
			task: task(), live: true,
			do: DoEnd, reason: v1alpha1.ToolCallReasonToolChanged,
		},
		"it has no Job for too long": {
			task: task(), tool: tool, live: true, after: StartLimit,
			do: DoEnd, reason: v1alpha1.ToolCallReasonStartTimeout,
		},
		"its Job has no pod": {task: task(), job: job(), tool: tool, do: DoWait},
		"its pod is gated": {
			task: task(), job: job(), pods: []*corev1.Pod{pod(gatedPod)}, tool: tool,
			do: DoRecordPod,
		},
		"its pod is recorded": {
			task: task(recorded), job: job(), pods: []*corev1.Pod{pod(gatedPod)}, tool: tool,
			do: DoOpenGate,
		},
		"another pod is gated": {
			task: task(recorded), job: job(),
			pods: []*corev1.Pod{pod(gatedPod, func(p *corev1.Pod) { p.UID = "another" })}, tool: tool,
			do: DoLook,
		},
		"another pod is gated, seen live": {
			task: task(recorded), job: job(),
			pods: []*corev1.Pod{pod(gatedPod, func(p *corev1.Pod) { p.UID = "another" })}, tool: tool, live: true,
			do: DoEnd, reason: v1alpha1.ToolCallReasonPodGone,
		},
		"it runs": {
			task: task(recorded), job: job(), pods: []*corev1.Pod{pod(runningPod)}, tool: tool,
			do: DoWait,
		},
		"it runs for too long": {
			task: task(recorded), job: job(), pods: []*corev1.Pod{pod(runningPod)}, tool: tool, after: time.Hour,
			do: DoEnd, reason: v1alpha1.ToolCallReasonTimeout,
		},
		"its Job is gone": {task: task(recorded), tool: tool, do: DoLook},
		"its Job is gone, seen live": {
			task: task(recorded), tool: tool, live: true,
			do: DoEnd, reason: v1alpha1.ToolCallReasonJobGone,
		},
		"its Job is another's": {
			task: task(), job: job(func(j *batchv1.Job) { j.OwnerReferences = nil }), tool: tool,
			do: DoEnd, reason: v1alpha1.ToolCallReasonNameTaken,
		},
		"its Job is another Session's": {
			task: task(), job: job(func(j *batchv1.Job) { j.OwnerReferences[0].UID = "other" }), tool: tool,
			do: DoEnd, reason: v1alpha1.ToolCallReasonNameTaken,
		},
		"cancelled before its pod": {
			task: task(cancelled), job: job(), pods: []*corev1.Pod{pod(gatedPod)}, tool: tool,
			do: DoEnd, reason: v1alpha1.ToolCallReasonTaskCancelled,
		},
		"cancelled while it runs": {
			task: task(recorded, cancelled), job: job(),
			pods: []*corev1.Pod{pod(runningPod)}, tool: tool, after: time.Minute,
			do: DoStop,
		},
		"cancelled and being stopped": {
			task: task(recorded, cancelled), job: job(),
			pods: []*corev1.Pod{pod(runningPod, deletedPod)}, tool: tool, after: 20 * time.Second,
			do: DoWait,
		},
		"cancelled, without an end": {
			task: task(recorded, cancelled), job: job(),
			pods: []*corev1.Pod{pod(runningPod)}, tool: tool, after: time.Minute + StopLimit,
			do: DoEnd, reason: v1alpha1.ToolCallReasonTaskCancelled,
		},
		"it has ended": {task: task(func(t *Task) { t.End = &End{} }), do: DoDeliver},
	} {
		t.Run(name, func(t *testing.T) {
			action := Next(test.task, Seen{
				Job: test.job, Pods: test.pods, Tool: test.tool, Live: test.live, Session: owner, Now: began.Add(test.after),
			})
			if action.Do != test.do || action.Outcome.Reason != test.reason {
				t.Errorf("it is %s with reason %q, want %s with %q", action.Do, action.Outcome.Reason, test.do, test.reason)
			}
		})
	}
}
