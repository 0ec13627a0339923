package jobstatus

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Reasons of kubelets and container runtimes for the end of a container.
const (
	containerOOMKilled     = "OOMKilled"
	containerStatusUnknown = "ContainerStatusUnknown"
	containerStartError    = "StartError"
	containerCannotRun     = "ContainerCannotRun"
)

const (
	// exitPanic is the exit code of a Go program that has crashed, and so of a launcher that has.
	exitPanic = 2
	// exitSignals is the first exit code that reports a signal.
	exitSignals = 128
)

// ended is the outcome of a container that has ended.
func (v *view) ended(status *corev1.ContainerStatus) tool.Outcome {
	t := status.State.Terminated
	outcome := v.endedBy(status, t)
	if outcome.Started {
		outcome.StartedAt = seconds(t.StartedAt)
	}
	outcome.FinishedAt = seconds(t.FinishedAt)
	return outcome
}

func (v *view) endedBy(status *corev1.ContainerStatus, t *corev1.ContainerStateTerminated) tool.Outcome {
	if seconds(t.StartedAt).IsZero() && (t.Reason == containerStartError || t.Reason == containerCannotRun) {
		return tool.NotExecuted(
			v1alpha1.ToolCallReasonStartError,
			"its container could not be started"+tool.Quoted(t.Message),
		)
	}
	if t.Reason == containerStatusUnknown {
		if neverSeen(status) {
			return v.notStarted()
		}
		return tool.AfterStart(tool.Interrupted(v.call, v1alpha1.ToolCallReasonNodeLost, "its node lost the container"))
	}
	report, err := result.Decode(t.Message)
	// A report with another exit code is not the launcher's own: the launcher was killed, and the tool may have written
	// the report.
	if err != nil || int64(report.Exit) != int64(t.ExitCode) {
		return tool.AfterStart(v.unreported(t))
	}
	outcome := v.reported(report, t.Reason)
	outcome.Started = report.Started
	return outcome
}

// neverSeen reports whether the node has never had the container: a kubelet that ends a pod sets an empty status for
// containers that it does not know.
func neverSeen(status *corev1.ContainerStatus) bool {
	t := status.State.Terminated
	return status.ContainerID == "" && t.ContainerID == "" && seconds(t.StartedAt).IsZero() && !restarted(status)
}

// restarted reports whether the container was started more than once, or its node has lost the count.
func restarted(status *corev1.ContainerStatus) bool {
	return status.RestartCount > 0 || status.LastTerminationState.Terminated != nil
}

// startedTwice is the outcome of an AtMostOnce call whose container is not the first one, or is the first one and was
// lost, which a kubelet counts as a restart too.
func (v *view) startedTwice(status *corev1.ContainerStatus) tool.Outcome {
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		if state.Terminated != nil && state.Terminated.Reason == containerStatusUnknown {
			return tool.AfterStart(tool.Unknown(v1alpha1.ToolCallReasonNodeLost, "its node lost the container"))
		}
	}
	return tool.AfterStart(tool.Unknown(v1alpha1.ToolCallReasonSecondStart, "its container was started a second time"))
}

// reported is the outcome of a container whose launcher has reported.
func (v *view) reported(report *result.Message, runtimeReason string) tool.Outcome {
	if report.Outcome == result.Exited && report.Exit == 0 {
		return tool.Outcome{
			State:    v1alpha1.ToolCallStateSucceeded,
			Reason:   v1alpha1.ToolCallReasonCompleted,
			Result:   report.Result,
			NeedsLog: report.NeedsLog || report.HasFiles,
			HasFiles: report.HasFiles,
		}
	}
	switch report.Outcome {
	case result.Exited, result.Signalled:
		if runtimeReason == containerOOMKilled {
			return tool.Failed(v1alpha1.ToolCallReasonOOMKilled, outOfMemory+stderrText(report.Stderr))
		}
		failed := tool.Failed(v1alpha1.ToolCallReasonExitCode, exitText(report)+stderrText(report.Stderr))
		if report.Outcome == result.Exited {
			failed.ExitCode = int32(report.Exit) //nolint:gosec // It is at most 255.
		}
		return failed
	case result.TimedOut:
		return tool.Failed(v1alpha1.ToolCallReasonTimeout, "The tool timed out: it was stopped after "+v.run.String()+
			". It may have done part of its work."+stderrText(report.Stderr))
	case result.StartError:
		return tool.NotExecuted(v1alpha1.ToolCallReasonStartError, report.Stderr)
	case result.Refused:
		return tool.Interrupted(v.call, v1alpha1.ToolCallReasonSecondStart, "its container was started a second time")
	default: // result.Terminated, the only one left
		if !report.Started {
			return v.notStarted()
		}
		return tool.Interrupted(
			v.call,
			v1alpha1.ToolCallReasonDisruption,
			"its pod was stopped before it had ended"+podMessage(v.pod),
		)
	}
}

const outOfMemory = "The tool was stopped because it used more memory than its limit. " +
	"It may have done part of its work."

func exitText(report *result.Message) string {
	if report.Outcome == result.Signalled {
		return fmt.Sprintf("The tool was terminated by signal %d.", report.Exit-exitSignals)
	}
	return fmt.Sprintf("The tool failed with exit code %d.", report.Exit)
}

func stderrText(stderr string) string {
	if stderr == "" {
		return " It wrote nothing to stderr."
	}
	return " The end of its stderr:\n" + stderr
}

// unreported is the outcome of a container that started and whose launcher left no report.
func (v *view) unreported(t *corev1.ContainerStateTerminated) tool.Outcome {
	switch code := strconv.Itoa(int(t.ExitCode)); {
	case t.Reason == containerOOMKilled:
		return tool.Failed(v1alpha1.ToolCallReasonOOMKilled, outOfMemory)
	case v.pod.DeletionTimestamp != nil, podCondition(v.pod, corev1.DisruptionTarget) == corev1.ConditionTrue:
		return tool.Interrupted(
			v.call,
			v1alpha1.ToolCallReasonDisruption,
			"its pod was stopped before it had ended"+podMessage(v.pod),
		)
	case t.ExitCode >= exitSignals, t.ExitCode == exitPanic:
		return tool.Interrupted(
			v.call,
			v1alpha1.ToolCallReasonKilled,
			"its container was killed (exit code "+code+") and left no report",
		)
	default:
		return tool.OutputLost(v.call, "its container ended with exit code "+code+" and left no readable report")
	}
}

// podEnded is the outcome of a pod that has ended although its container is not reported as ended.
func (v *view) podEnded(status *corev1.ContainerStatus) tool.Outcome {
	if running := status.State.Running; running != nil {
		outcome := tool.AfterStart(
			tool.Interrupted(v.call, v1alpha1.ToolCallReasonNodeLost, "its node was lost while it ran"+podMessage(v.pod)),
		)
		outcome.StartedAt = seconds(running.StartedAt)
		return outcome
	}
	if v.neverBound() {
		return v.notStarted()
	}
	if words, failed := failedInit(v.pod); failed {
		return tool.NotExecuted(v1alpha1.ToolCallReasonStartError, "the launcher could not be added to its pod"+words)
	}
	if tool.AtMostOnce(v.call) {
		return tool.Unknown(
			v1alpha1.ToolCallReasonDisruption,
			"its pod was terminated, and it is unknown whether it had started"+podMessage(v.pod),
		)
	}
	return v.notStarted()
}

// failedInit reports whether an init container has failed, after which the tool's container is never started.
func failedInit(pod *corev1.Pod) (words string, failed bool) {
	for _, status := range pod.Status.InitContainerStatuses {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return tool.Quoted(t.Message), true
		}
	}
	return "", false
}
