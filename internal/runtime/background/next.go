package background

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// Seen is what a host has observed of a task.
type Seen struct {
	// Job of the task, and the pods with its label; nil for none.
	Job  *batchv1.Job
	Pods []*corev1.Pod
	// Live reports whether both were read past the cache.
	Live bool
	// Tool is the Tool of the task as it is now; nil if it is gone or was changed.
	Tool *v1alpha1.ToolSpec
	// Session that owns the task.
	Session types.UID
	// Now is the current time.
	Now time.Time
}

// Do is what a host does next about a task.
type Do string

const (
	// DoWait: nothing follows before Until, or before something changes.
	DoWait Do = "Wait"
	// DoLook: the observation may be old. The host observes past the cache.
	DoLook Do = "Look"
	// DoCreateJob: the task has no Job yet.
	DoCreateJob Do = "CreateJob"
	// DoRecordPod: the Pod is recorded as the only one that may run the task.
	DoRecordPod Do = "RecordPod"
	// DoOpenGate: the recorded Pod is let start.
	DoOpenGate Do = "OpenGate"
	// DoStop: the container must not continue. The Pod is deleted.
	DoStop Do = "Stop"
	// DoEnd: the Outcome is recorded.
	DoEnd Do = "End"
	// DoDeliver: the end is recorded and is to be delivered.
	DoDeliver Do = "Deliver"
)

// Action is the next action.
type Action struct {
	Do      Do
	Pod     *corev1.Pod
	Outcome tool.Outcome
	// Until is when to look again, if nothing changes before; zero for never.
	Until time.Time
}

// Next returns what follows for an active task. It is a pure function.
func Next(t *Task, seen Seen) Action {
	ours := seen.Job == nil || metav1.GetControllerOf(seen.Job) != nil &&
		metav1.GetControllerOf(seen.Job).UID == seen.Session && seen.Job.Labels[v1alpha1.LabelTask] == t.ID
	switch {
	case t.End != nil:
		return Action{Do: DoDeliver}
	case !ours:
		return end(tool.NotExecuted(v1alpha1.ToolCallReasonNameTaken, "another Job has the name "+Name(t.ID)))
	case t.Cancelled != nil && t.PodUID == "":
		return end(CancelledBeforeStart())
	case seen.Job == nil && t.PodUID == "":
		return withoutJob(t, seen)
	}
	call := t.Call()
	pod := jobstatus.SelectPod(seen.Pods, seen.Job, call)
	start, run := jobspec.Timeouts(call, seen.Tool)
	is := jobstatus.Observe(seen.Job, pod, call, start, run, seen.Now)
	switch {
	case is.Phase == jobstatus.PhaseDone && pod == nil && !seen.Live:
		// The watches of Jobs and pods have no common order: a task must not end because only the cache lacks its pod.
		return Action{Do: DoLook}
	case is.Phase == jobstatus.PhaseDone && t.Cancelled != nil:
		return end(CancelledAfterStart(is.Outcome))
	case is.Phase == jobstatus.PhaseDone:
		return Action{Do: DoEnd, Outcome: is.Outcome, Pod: pod}
	case t.Cancelled != nil && !seen.Now.Before(t.Cancelled.Add(StopLimit)):
		return end(CancelledAfterStart(
			tool.Unknown(v1alpha1.ToolCallReasonTaskCancelled, "it was cancelled, and its end was not observed"),
		))
	case t.Cancelled != nil:
		return stop(pod, t.Cancelled.Add(StopLimit))
	case is.Stop:
		return stop(pod, is.Deadline)
	case pod != nil && pod.DeletionTimestamp.IsZero() && jobspec.Gated(pod):
		return gated(t, pod, is.Deadline)
	default:
		return Action{Do: DoWait, Until: is.Deadline}
	}
}

// withoutJob is a task whose Job was not created yet, or was deleted before a pod of it could start.
func withoutJob(t *Task, seen Seen) Action {
	switch {
	case !seen.Live:
		return Action{Do: DoLook}
	case !seen.Now.Before(t.Recorded.Add(StartLimit)):
		return end(tool.NotExecuted(v1alpha1.ToolCallReasonStartTimeout,
			"its Job could not be created within "+StartLimit.String()))
	case seen.Tool == nil:
		return end(tool.Changed())
	default:
		return Action{Do: DoCreateJob}
	}
}

// gated is a pod that waits for its gate to be removed.
func gated(t *Task, pod *corev1.Pod, until time.Time) Action {
	switch t.PodUID {
	case "":
		return Action{Do: DoRecordPod, Pod: pod, Until: until}
	case pod.UID:
		return Action{Do: DoOpenGate, Pod: pod, Until: until}
	default:
		return Action{Do: DoWait, Until: until}
	}
}

// stop deletes the pod unless it is being deleted.
func stop(pod *corev1.Pod, until time.Time) Action {
	if pod == nil || !pod.DeletionTimestamp.IsZero() {
		return Action{Do: DoWait, Until: until}
	}
	return Action{Do: DoStop, Pod: pod, Until: until}
}

func end(outcome tool.Outcome) Action {
	return Action{Do: DoEnd, Outcome: outcome}
}

// CancelledBeforeStart is the end of a task that was cancelled before anything of it could start.
func CancelledBeforeStart() tool.Outcome {
	return tool.NotExecuted(v1alpha1.ToolCallReasonTaskCancelled, "the task was cancelled before it started")
}

// CancelledAfterStart is the end of a task that was cancelled after its pod was let start. One that had succeeded
// before stays so, and one of which it is known that it has not started was cancelled before.
func CancelledAfterStart(outcome tool.Outcome) tool.Outcome {
	if outcome.State == v1alpha1.ToolCallStateSucceeded {
		return outcome
	}
	text := "The task was cancelled. It may have done all, part or none of its work."
	if outcome.State == v1alpha1.ToolCallStateNotExecuted {
		return CancelledBeforeStart()
	}
	stopped := tool.Failed(v1alpha1.ToolCallReasonTaskCancelled, text)
	stopped.Started, stopped.StartedAt, stopped.FinishedAt = outcome.Started, outcome.StartedAt, outcome.FinishedAt
	return stopped
}
