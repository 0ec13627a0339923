package jobstatus

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

const (
	// RunMargin is how long past its timeout a container may still be observed as running before it is killed from
	// outside: the launcher enforces the timeout itself, and its report needs time to arrive.
	RunMargin = 10 * time.Second
	// DeletionMargin is how long past the end of its grace period a deleted pod may go without news before its node
	// counts as lost.
	DeletionMargin = 30 * time.Second
)

// clockSkew is how far the clocks of two managers may lie apart.
const clockSkew = time.Minute

// Observe returns the state of a call, from its Job, the pod that counts (SelectPod), its pinned fields, its start
// timeout and its run timeout (jobspec.Timeouts). It is a pure function. The tool's container decides, not the Job,
// whose status lags by a second or more.
//
// job or pod may be nil when they do not exist. A job that is nil must be known to be gone, and not only missing in a
// cache.
//
// An AtMostOnce call is NotExecuted only if its container certainly has not started and cannot start any more: its pod
// was never released, never had a node, or its node reported so after the pod's end. If a start timeout has passed and
// that is not certain yet, the observation stays Pending with Stop: once the pod has ended, its last status is
// conclusive.
func Observe(
	job *batchv1.Job,
	pod *corev1.Pod,
	call v1alpha1.ToolCall,
	start, run time.Duration,
	now time.Time,
) Observation {
	v := &view{job: job, pod: pod, call: call, start: start, run: run, now: now}
	seen := v.observe()
	if seen.Outcome.Started && pod != nil {
		seen.Outcome.Image = imageOf(pod)
	}
	// A suspended Job loses its pod and gets another one when it is resumed. Only calls that may start twice can profit
	// from that, and those without a released pod.
	if v.suspended() && (seen.Outcome.Retryable || v.gateStillClosed(seen)) {
		return v.pending(v1alpha1.ToolCallReasonSuspended, time.Time{})
	}
	return seen
}

// maxImageBytes bounds the name of an image in the journal.
const maxImageBytes = 512

// imageOf is the image that the tool's container runs, as its runtime names it.
func imageOf(pod *corev1.Pod) string {
	if status := toolStatus(pod); status != nil && len(status.ImageID) <= maxImageBytes {
		return status.ImageID
	}
	return ""
}

// gateStillClosed reports whether an AtMostOnce call has lost its pod before one was recorded, so that the next pod can
// still be recorded.
func (v *view) gateStillClosed(seen Observation) bool {
	return tool.AtMostOnce(v.call) && v.call.PodUID == "" && seen.Phase == PhaseDone &&
		seen.Outcome.Reason == v1alpha1.ToolCallReasonDisruption
}

// view is the input of Observe.
type view struct {
	job        *batchv1.Job
	pod        *corev1.Pod
	call       v1alpha1.ToolCall
	start, run time.Duration
	now        time.Time
}

func (v *view) observe() Observation {
	if v.pod == nil {
		return v.withoutPod()
	}
	once := tool.AtMostOnce(v.call)
	if once && v.call.PodUID != "" && v.pod.UID != v.call.PodUID {
		return done(tool.Unknown(v1alpha1.ToolCallReasonSecondStart, "its Job has a pod other than the recorded one"))
	}
	status := toolStatus(v.pod)
	if status == nil {
		status = &corev1.ContainerStatus{}
	}
	switch {
	case once && restarted(status):
		return done(v.startedTwice(status))
	case status.State.Terminated != nil:
		return done(v.ended(status))
	case podOver(v.pod):
		return done(v.podEnded(status))
	case status.State.Running != nil:
		return v.running(v.since(status.State.Running))
	case v.pod.DeletionTimestamp != nil:
		return v.podDeleted()
	default:
		return v.waiting(status)
	}
}

func done(outcome tool.Outcome) Observation {
	return Observation{Phase: PhaseDone, Outcome: outcome}
}

// pending is a call that has not started; the caller looks again at the deadline.
func (v *view) pending(reason string, deadline time.Time) Observation {
	return Observation{
		Phase:    PhasePending,
		Outcome:  tool.Outcome{State: v1alpha1.ToolCallStatePending, Reason: reason},
		Deadline: deadline,
	}
}

// withoutPod decides by the Job alone.
func (v *view) withoutPod() Observation {
	once := tool.AtMostOnce(v.call)
	switch {
	case v.job == nil && once && v.call.PodUID == "":
		return done(tool.NotExecuted(v1alpha1.ToolCallReasonJobGone, "its Job was deleted before its pod was released"))
	case v.job == nil:
		return done(tool.Interrupted(v.call, v1alpha1.ToolCallReasonJobGone, "its Job no longer exists"))
	case v.call.PodUID != "":
		return done(tool.Interrupted(v.call, v1alpha1.ToolCallReasonPodGone,
			"its pod no longer exists, and its end was not observed"))
	case jobOver(v.job) && once:
		return done(tool.NotExecuted(v1alpha1.ToolCallReasonPodGone, "its pod was deleted before it was released"))
	case jobOver(v.job):
		return done(tool.Interrupted(v.call, v1alpha1.ToolCallReasonPodGone,
			"its pod no longer exists, and its end was not observed"))
	case v.suspended():
		return v.pending(v1alpha1.ToolCallReasonSuspended, time.Time{})
	}
	deadline := v.startDeadline()
	if v.now.Before(deadline) {
		return v.pending(v1alpha1.ToolCallReasonStarting, deadline)
	}
	seen := done(tool.NotExecuted(v1alpha1.ToolCallReasonNoPod, within(v.start, "its Job got no pod")))
	seen.Stop = true
	return seen
}

// running handles a container that was observed to run and not to end.
func (v *view) running(startedAt time.Time) Observation {
	deadline := startedAt.Add(v.run + RunMargin)
	if !v.now.Before(deadline) {
		seen := done(v.overdue())
		seen.Outcome.Started, seen.Outcome.StartedAt = true, startedAt
		seen.Stop = true
		return seen
	}
	if v.pod.DeletionTimestamp != nil {
		silent := v.pod.DeletionTimestamp.Add(DeletionMargin)
		if !v.now.Before(silent) {
			outcome := tool.Interrupted(
				v.call,
				v1alpha1.ToolCallReasonNodeLost,
				"its pod is terminating, and its node has not confirmed its end",
			)
			outcome.Started, outcome.StartedAt = true, startedAt
			return done(outcome)
		}
		deadline = earlier(deadline, silent)
	}
	return Observation{
		Phase:    PhaseRunning,
		Outcome:  tool.Outcome{State: v1alpha1.ToolCallStateRunning, Started: true, StartedAt: startedAt},
		Deadline: deadline,
	}
}

// since returns the start of a running container, or the creation of its pod if the runtime does not report the start.
func (v *view) since(running *corev1.ContainerStateRunning) time.Time {
	if startedAt := seconds(running.StartedAt); !startedAt.IsZero() {
		return startedAt
	}
	return v.pod.CreationTimestamp.Time
}

// overdue is the outcome of a container that should have ended by itself: the launcher enforces the timeout. Without
// its report, the progress of the tool cannot be determined.
func (v *view) overdue() tool.Outcome {
	if podCondition(v.pod, corev1.PodReady) == corev1.ConditionFalse {
		return tool.Interrupted(v.call, v1alpha1.ToolCallReasonNodeLost, "its node stopped reporting")
	}
	why := "it had not ended " + RunMargin.String() + " after its timeout of " + v.run.String()
	if tool.AtMostOnce(v.call) {
		return tool.Unknown(v1alpha1.ToolCallReasonTimeout, why)
	}
	return tool.Failed(v1alpha1.ToolCallReasonTimeout, "The tool timed out: "+why+". It is being stopped.")
}

// podDeleted handles a pod that was deleted before its container was observed to run.
func (v *view) podDeleted() Observation {
	if v.neverBound() {
		return done(v.notStarted())
	}
	deadline := v.pod.DeletionTimestamp.Add(DeletionMargin)
	if v.now.Before(deadline) {
		return v.pending(v1alpha1.ToolCallReasonStarting, deadline)
	}
	return done(
		tool.Interrupted(
			v.call,
			v1alpha1.ToolCallReasonNodeLost,
			"its pod is terminating, and its node has not confirmed its end",
		),
	)
}

// waiting handles a pod whose container was not observed to run.
func (v *view) waiting(status *corev1.ContainerStatus) Observation {
	switch {
	case v.suspended():
		return v.pending(v1alpha1.ToolCallReasonSuspended, time.Time{})
	case jobspec.Gated(v.pod):
		// The caller determines how long that lasts: the start timeout does not cover the manager's own delays.
		seen := v.pending(v1alpha1.ToolCallReasonGated, time.Time{})
		seen.Gated = true
		return seen
	}
	obstacle := findObstacle(v.pod, status)
	deadline := v.startDeadline()
	if !obstacle.permanent && v.now.Before(deadline) {
		return v.pending(obstacle.pendingReason(), deadline)
	}
	gaveUp := v.startFailure(obstacle)
	if tool.AtMostOnce(v.call) {
		seen := v.pending(obstacle.pendingReason(), v.now.Add(DeletionMargin))
		seen.Stop, seen.StartFailure = true, &gaveUp
		return seen
	}
	seen := done(gaveUp)
	seen.Stop = true
	return seen
}

// startFailure is the outcome of a call that was not started in time.
func (v *view) startFailure(o obstacle) tool.Outcome {
	if o.permanent {
		return tool.NotExecuted(o.reason, o.detail)
	}
	return tool.NotExecuted(o.reason, within(v.start, o.detail))
}

// notStarted is the outcome of a pod that ended without having started its container. If its start timeout had passed,
// that is the reason of its deletion.
func (v *view) notStarted() tool.Outcome {
	status := toolStatus(v.pod)
	if status == nil {
		status = &corev1.ContainerStatus{}
	}
	obstacle := findObstacle(v.pod, status)
	if obstacle.permanent || (!jobspec.Gated(v.pod) && !v.now.Before(v.startDeadline())) {
		return v.startFailure(obstacle)
	}
	outcome := tool.NotExecuted(
		v1alpha1.ToolCallReasonDisruption,
		"its pod was removed before it had started"+podMessage(v.pod),
	)
	outcome.Retryable = !tool.AtMostOnce(v.call)
	return outcome
}

// neverBound reports whether the pod cannot have started anything: it still has the scheduling gate, or never had a
// node. A pod that is being deleted gets none any more.
func (v *view) neverBound() bool {
	return jobspec.Gated(v.pod) || v.pod.Spec.NodeName == ""
}

// startDeadline is when the start timeout has passed. It counts from the last moment at which the pod was held back on
// purpose.
func (v *view) startDeadline() time.Time {
	var from time.Time
	if v.job != nil {
		from = v.job.CreationTimestamp.Time
		if started := v.job.Status.StartTime; started != nil {
			from = later(from, started.Time)
		}
		if resumed := jobCondition(v.job, batchv1.JobSuspended); resumed != nil && resumed.Status == corev1.ConditionFalse {
			from = later(from, resumed.LastTransitionTime.Time)
		}
	} else if v.pod != nil {
		from = v.pod.CreationTimestamp.Time
	}
	if v.pod != nil {
		// Invalid times are ignored, and so are times that no clock of the cluster can have had.
		released, err := time.Parse(time.RFC3339, v.pod.Annotations[v1alpha1.AnnotationReleasedAt])
		if err == nil && released.Before(v.now.Add(clockSkew)) {
			from = later(from, released)
		}
	}
	return from.Add(v.start)
}

// suspended reports whether the Job is held back. This includes the time after its release until the Job controller has
// observed it.
func (v *view) suspended() bool {
	if v.job == nil {
		return false
	}
	if v.job.Spec.Suspend != nil && *v.job.Spec.Suspend {
		return true
	}
	condition := jobCondition(v.job, batchv1.JobSuspended)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// jobOver reports whether the Job has had its pod.
func jobOver(job *batchv1.Job) bool {
	if job.Status.Failed > 0 || job.Status.Succeeded > 0 {
		return true
	}
	for _, kind := range []batchv1.JobConditionType{
		batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet,
	} {
		if condition := jobCondition(job, kind); condition != nil && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if job.Status.Conditions[i].Type == kind {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// podCondition is the status of a condition; empty when the pod does not have it.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

func podOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func within(limit time.Duration, what string) string {
	return "within " + limit.String() + ", " + what
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// seconds converts a time of the API into one that is zero if it is unknown; runtimes report 1970 for that.
func seconds(t metav1.Time) time.Time {
	if t.IsZero() || t.Unix() <= 0 {
		return time.Time{}
	}
	return t.Time
}
