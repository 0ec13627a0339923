package jobstatus

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	podUID       types.UID = "pod-1"
	startTimeout           = 2 * time.Minute
	runTimeout             = time.Minute
	runLimit               = runTimeout + RunMargin
)

// created is when the Job and its pod were made; tests give other times as distances from it.
var created = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func at(after time.Duration) metav1.Time { return metav1.NewTime(created.Add(after)) }

// fixture is a call with its Job and pod.
type fixture struct {
	call v1alpha1.ToolCall
	job  *batchv1.Job
	pod  *corev1.Pod
}

type change func(*fixture)

// scene is a call whose pod was made, released and bound, and whose container waits. The zero class stands for
// AtMostOnce.
func scene(class v1alpha1.SideEffect, changes ...change) *fixture {
	f := &fixture{
		call: v1alpha1.ToolCall{
			ID:         "1-0",
			Executor:   v1alpha1.ToolExecutorJob,
			SideEffect: class,
			State:      v1alpha1.ToolCallStateRunning,
			Attempt:    1,
		},
		job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "tool-1", UID: "job-1", CreationTimestamp: at(0)}},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "tool-1-x", UID: podUID, CreationTimestamp: at(0)}},
	}
	f.pod.Spec.NodeName = "node-1"
	f.pod.Status.Phase = corev1.PodPending
	if tool.AtMostOnce(f.call) {
		f.call.PodUID = podUID
	}
	waiting("ContainerCreating", "")(f)
	for _, change := range changes {
		change(f)
	}
	return f
}

func (f *fixture) status() *corev1.ContainerStatus { return toolStatus(f.pod) }

func waiting(reason, message string) change {
	return func(f *fixture) {
		f.pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "istio-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}}},
			{
				Name:  v1alpha1.ToolContainerName,
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			},
		}
	}
}

func runs(since time.Duration) change {
	return func(f *fixture) {
		f.pod.Status.Phase = corev1.PodRunning
		f.pod.Status.Conditions = append(
			f.pod.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		)
		f.status().ContainerID = "containerd://1"
		f.status().State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}}
	}
}

// ends is a container that ran from 1s to 9s.
func ends(exit int32, reason, message string) change {
	return func(f *fixture) {
		f.status().ContainerID = "containerd://1"
		f.status().State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exit, Reason: reason, Message: message, StartedAt: at(time.Second), FinishedAt: at(9 * time.Second),
			ContainerID: "containerd://1",
		}}
	}
}

// reports is a container that ended with a report of the launcher.
func reports(runtimeReason string, r result.Report) change {
	message, _ := r.Encode("00112233445566778899aabbccddeeff")
	return ends(int32(r.Exit), runtimeReason, string(message))
}

// neverRan is a kubelet's status of a container that it has not started.
func neverRan(f *fixture) {
	f.pod.Status.Phase = corev1.PodFailed
	f.status().State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"},
	}
}

func phase(phase corev1.PodPhase, reason string) change {
	return func(f *fixture) { f.pod.Status.Phase, f.pod.Status.Reason = phase, reason }
}

func deleted(after time.Duration) change {
	return func(f *fixture) { f.pod.DeletionTimestamp = ptr.To(at(after)) }
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) change {
	return func(f *fixture) {
		f.pod.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: status, Reason: reason, Message: message}}
	}
}

func unbound(f *fixture) {
	f.pod.Spec.NodeName = ""
	f.pod.Status.ContainerStatuses = nil
	condition(
		corev1.PodScheduled,
		corev1.ConditionFalse,
		"Unschedulable",
		"0/3 nodes are available: 3 Insufficient memory.",
	)(
		f,
	)
}

// gatedPod has not been recorded or released.
func gatedPod(f *fixture) {
	f.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateStart}}
	f.pod.Spec.NodeName = ""
	f.pod.Status.ContainerStatuses = nil
	f.call.PodUID = ""
}

func recorded(f *fixture)    { f.call.PodUID = podUID }
func notRecorded(f *fixture) { f.call.PodUID = "" }
func noPod(f *fixture)       { f.pod = nil }
func noJob(f *fixture)       { f.job = nil }

func suspend(f *fixture) { f.job.Spec.Suspend = ptr.To(true) }

func resumed(after time.Duration) change {
	return func(f *fixture) {
		f.job.Spec.Suspend = ptr.To(false)
		f.job.Status.Conditions = []batchv1.JobCondition{
			{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, LastTransitionTime: at(after)},
		}
		f.job.Status.StartTime = ptr.To(at(after))
	}
}

func released(after time.Duration) change {
	return func(f *fixture) {
		f.pod.Annotations = map[string]string{v1alpha1.AnnotationReleasedAt: created.Add(after).Format(time.RFC3339)}
	}
}

func jobFailed(f *fixture) { f.job.Status.Failed = 1 }

func restartedOnce(f *fixture) {
	f.status().RestartCount = 1
	f.status().LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
}

func (f *fixture) observe(after time.Duration) Observation {
	return Observe(f.job, f.pod, f.call, startTimeout, runTimeout, created.Add(after))
}
