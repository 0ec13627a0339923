package jobstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// ending is the expected end of a call.
type ending struct {
	scene     *fixture
	after     time.Duration
	state     v1alpha1.ToolCallState
	reason    string
	started   bool
	retryable bool
	stop      bool
	message   string
}

const (
	pure = v1alpha1.SideEffectPure
	once = v1alpha1.SideEffectAtMostOnce
)

func endings() map[string]ending {
	exited := func(code int, stderr string) result.Report {
		return result.Report{
			Outcome: result.Exited, Exit: code, Started: true, Stderr: stderr, StdoutBytes: 6, Result: "stdout",
		}
	}
	success := exited(0, "")
	of := func(outcome result.Outcome, exit int, started bool, stderr string) result.Report {
		return result.Report{Outcome: outcome, Exit: exit, Started: started, Stderr: stderr}
	}
	const (
		succeeded   = v1alpha1.ToolCallStateSucceeded
		failed      = v1alpha1.ToolCallStateFailed
		notExecuted = v1alpha1.ToolCallStateNotExecuted
		unknown     = v1alpha1.ToolCallStateUnknown
	)
	return map[string]ending{
		// The launcher's own report.
		"success": {
			scene: scene(once, reports("Completed", success)), state: succeeded, reason: v1alpha1.ToolCallReasonCompleted,
			started: true,
		},
		"success while the pod still runs": {
			scene: scene(pure, reports("Completed", success), phase(corev1.PodRunning, "")), state: succeeded,
			reason: v1alpha1.ToolCallReasonCompleted, started: true,
		},
		"success although the pod went": {
			scene: scene(once, reports("Completed", success), deleted(5*time.Second)), state: succeeded,
			reason: v1alpha1.ToolCallReasonCompleted, started: true,
		},
		"success although a child was OOM": {
			scene: scene(once, reports("OOMKilled", success)), state: succeeded, reason: v1alpha1.ToolCallReasonCompleted,
			started: true,
		},
		"success although resuspended": {
			scene: scene(once, reports("Completed", success), suspend), state: succeeded,
			reason: v1alpha1.ToolCallReasonCompleted, started: true,
		},
		"success without a Job": {
			scene: scene(pure, reports("Completed", success), noJob), state: succeeded, reason: v1alpha1.ToolCallReasonCompleted,
			started: true,
		},
		"an exit code": {
			scene: scene(once, reports("Error", exited(3, "no such city"))), state: failed,
			reason: v1alpha1.ToolCallReasonExitCode, started: true, message: "exit code 3. The end of its stderr:\nno such city",
		},
		"an exit code of a pure tool": {
			scene: scene(pure, reports("Error", exited(1, ""))), state: failed, reason: v1alpha1.ToolCallReasonExitCode,
			started: true, message: "exit code 1. It wrote nothing to stderr.",
		},
		"an exit code and an eviction": {
			scene: scene(pure, reports("Error", exited(1, "")), deleted(0)), state: failed,
			reason: v1alpha1.ToolCallReasonExitCode, started: true, message: "exit code 1",
		},
		"a signal": {
			scene: scene(once, reports("Error", of(result.Signalled, 139, true, "dump"))), state: failed,
			reason: v1alpha1.ToolCallReasonExitCode, started: true, message: "signal 11. The end of its stderr:\ndump",
		},
		"a signal for want of memory": {
			scene: scene(pure, reports("OOMKilled", of(result.Signalled, 137, true, "working"))), state: failed,
			reason: v1alpha1.ToolCallReasonOOMKilled, started: true,
			message: "more memory than its limit. It may have done part of its work. The end of its stderr:\nworking",
		},
		"an exit code for want of memory": {
			scene: scene(once, reports("OOMKilled", exited(1, ""))), state: failed, reason: v1alpha1.ToolCallReasonOOMKilled,
			started: true, message: "memory",
		},
		"a timeout": {
			scene: scene(once, reports("Error", of(result.TimedOut, 124, true, "still here"))), state: failed,
			reason: v1alpha1.ToolCallReasonTimeout, started: true,
			message: "after 1m0s. It may have done part of its work. The end of its stderr:\nstill here",
		},
		"a timeout of a pure tool": {
			scene: scene(pure, reports("Error", of(result.TimedOut, 124, true, ""))), state: failed,
			reason: v1alpha1.ToolCallReasonTimeout, started: true, message: "timed out",
		},
		"a missing command": {
			scene: scene(once, reports("Error", of(result.StartError, 127, false, "the command \"/x\" does not exist"))),
			state: notExecuted, reason: v1alpha1.ToolCallReasonStartError, message: "\"/x\" does not exist",
		},
		"a refused second start": {
			scene: scene(once, reports("Error", of(result.Refused, 125, false, ""))), state: unknown,
			reason: v1alpha1.ToolCallReasonSecondStart, message: "second time",
		},
		"a refused second start, pure": {
			scene: scene(pure, reports("Error", of(result.Refused, 125, false, ""))), state: failed,
			reason: v1alpha1.ToolCallReasonSecondStart, retryable: true, message: "second time",
		},
		"a stop": {
			scene: scene(once, reports("Error", of(result.Terminated, 143, true, ""))), state: unknown,
			reason: v1alpha1.ToolCallReasonDisruption, started: true, message: "stopped before it had ended",
		},
		"a stop of a pure tool": {
			scene: scene(pure, reports("Error", of(result.Terminated, 143, true, ""))), state: failed,
			reason: v1alpha1.ToolCallReasonDisruption, started: true, retryable: true, message: "stopped before it had ended",
		},
		"a stop of an idempotent tool": {
			scene: scene(v1alpha1.SideEffectIdempotent, reports("Error", of(result.Terminated, 143, true, ""))), state: failed,
			reason: v1alpha1.ToolCallReasonDisruption, started: true, retryable: true, message: "safe to call it again",
		},
		"a stop of a tool without a class": {
			scene: scene("", reports("Error", of(result.Terminated, 143, true, ""))), state: unknown,
			reason: v1alpha1.ToolCallReasonDisruption, started: true,
		},
		"a stop with a reason": {
			scene: scene(once, reports("Error", of(result.Terminated, 143, true, "")), phase(corev1.PodFailed, "Evicted")),
			state: unknown, reason: v1alpha1.ToolCallReasonDisruption, started: true, message: "(Evicted)",
		},
		"a stop before the start": {
			scene: scene(once, reports("Error", of(result.Terminated, 143, false, ""))), state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption, message: "before it had started",
		},
		"a stop before the start, pure": {
			scene: scene(pure, reports("Error", of(result.Terminated, 143, false, ""))), state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption, retryable: true, message: "before it had started",
		},

		// No report, or none that counts.
		"no report": {
			scene: scene(once, ends(0, "Completed", "")), state: failed, reason: v1alpha1.ToolCallReasonOutputLost,
			started: true, message: "ran to its end, but its output was lost",
		},
		"no report of a pure tool": {
			scene: scene(pure, ends(0, "Completed", "")), state: failed, reason: v1alpha1.ToolCallReasonOutputLost,
			started: true, message: "safe to call it again",
		},
		"another program's message": {
			scene: scene(once, ends(3, "Error", "Error on reading termination log")), state: failed,
			reason: v1alpha1.ToolCallReasonOutputLost, started: true, message: "exit code 3",
		},
		"a report with another exit code": {
			scene: scene(once, reports("Error", success), func(f *fixture) { f.status().State.Terminated.ExitCode = 137 }),
			state: unknown, reason: v1alpha1.ToolCallReasonKilled, started: true, message: "killed (exit code 137)",
		},
		"a forged report before an OOM": {
			scene: scene(once, reports("OOMKilled", success), func(f *fixture) { f.status().State.Terminated.ExitCode = 137 }),
			state: failed, reason: v1alpha1.ToolCallReasonOOMKilled, started: true, message: "memory",
		},
		"a crash of the launcher": {
			scene: scene(once, ends(2, "Error", "")), state: unknown, reason: v1alpha1.ToolCallReasonKilled, started: true,
			message: "killed (exit code 2)",
		},
		"a kill": {
			scene: scene(pure, ends(137, "Error", "")), state: failed, reason: v1alpha1.ToolCallReasonKilled, started: true,
			retryable: true, message: "killed (exit code 137)",
		},
		"OOM of everything": {
			scene: scene(once, ends(137, "OOMKilled", "")), state: failed, reason: v1alpha1.ToolCallReasonOOMKilled,
			started: true, message: "more memory than its limit",
		},
		"a kill in an eviction": {
			scene: scene(
				once, ends(137, "Error", ""),
				condition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI", "for an upgrade"),
			),
			state: unknown, reason: v1alpha1.ToolCallReasonDisruption, started: true,
			message: "(EvictionByEvictionAPI): for an upgrade",
		},
		"a kill in a deletion": {
			scene: scene(pure, ends(137, "Error", ""), deleted(0)), state: failed, reason: v1alpha1.ToolCallReasonDisruption,
			started: true, retryable: true,
		},
		"a container that the node lost": {
			scene: scene(once, ends(137, "ContainerStatusUnknown", "")), state: unknown, reason: v1alpha1.ToolCallReasonNodeLost,
			started: true, message: "lost the container",
		},
		"a container that the node lost, pure": {
			scene: scene(pure, ends(137, "ContainerStatusUnknown", ""), restartedOnce), state: failed,
			reason: v1alpha1.ToolCallReasonNodeLost, started: true, retryable: true, message: "lost the container",
		},
		"a running one that the node lost": {scene: scene(once, neverRan, func(f *fixture) {
			f.status().RestartCount = 1
			f.status().LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: "ContainerStatusUnknown", ExitCode: 137,
			}
		}), state: unknown, reason: v1alpha1.ToolCallReasonNodeLost, started: true, message: "lost the container"},

		// Containers that never started.
		"a container that cannot start": {
			scene: scene(once, ends(128, "StartError", "exec: no such file"), func(f *fixture) {
				f.status().State.Terminated.StartedAt = metav1.Unix(0, 0)
			}), state: notExecuted, reason: v1alpha1.ToolCallReasonStartError,
			message: "could not be started: exec: no such file",
		},
		"a container that cannot run": {scene: scene(pure, ends(128, "ContainerCannotRun", ""), func(f *fixture) {
			f.status().State.Terminated.StartedAt = metav1.Time{}
		}), state: notExecuted, reason: v1alpha1.ToolCallReasonStartError, message: "could not be started"},
		"stopped before the start": {
			scene: scene(once, neverRan, deleted(0)), state: notExecuted, reason: v1alpha1.ToolCallReasonDisruption,
			message: "removed before it had started",
		},
		"stopped before the start, pure": {
			scene: scene(pure, neverRan, deleted(0)), state: notExecuted, reason: v1alpha1.ToolCallReasonDisruption,
			retryable: true, message: "removed before it had started",
		},
		"stopped after the start timeout": {
			scene: scene(once, neverRan, deleted(0)), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonStartTimeout, message: "within 2m0s, its container did not start",
		},
		"an init container that failed": {scene: scene(once, phase(corev1.PodFailed, ""), func(f *fixture) {
			f.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "launcher", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 125, Message: "no space left"},
			}}}
		}), state: notExecuted, reason: v1alpha1.ToolCallReasonStartError, message: "no space left"},

		// Containers that do not start in time.
		"a pure tool's image that cannot be pulled": {
			scene: scene(pure, waiting("ImagePullBackOff", "Back-off pulling image")), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonImagePull, stop: true,
			message: "within 2m0s, its image could not be pulled (ImagePullBackOff): Back-off pulling image",
		},
		"a launcher that cannot be pulled": {
			scene: scene(pure, func(f *fixture) {
				f.pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "launcher", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
				}}}
			}), after: startTimeout, state: notExecuted, reason: v1alpha1.ToolCallReasonImagePull, stop: true,
			message: "(ErrImagePull): not found",
		},
		"an invalid image name": {
			scene:   scene(pure, waiting("InvalidImageName", "bad")),
			after:   time.Second,
			state:   notExecuted,
			reason:  v1alpha1.ToolCallReasonImagePull,
			stop:    true,
			message: "its image could not be pulled (InvalidImageName): bad",
		},
		"an image that must not be pulled": {
			scene: scene(pure, waiting("ErrImageNeverPull", "")), state: notExecuted, reason: v1alpha1.ToolCallReasonImagePull,
			stop: true, message: "(ErrImageNeverPull)",
		},
		"a container that cannot be made": {
			scene: scene(pure, waiting("CreateContainerConfigError", "no such secret")), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonStartError, stop: true, message: "no such secret",
		},
		"no room on any node": {
			scene: scene(pure, unbound), after: startTimeout, state: notExecuted, reason: v1alpha1.ToolCallReasonUnschedulable,
			stop: true, message: "3 Insufficient memory",
		},
		"nothing happens": {
			scene: scene(pure), after: startTimeout, state: notExecuted, reason: v1alpha1.ToolCallReasonStartTimeout, stop: true,
			message: "within 2m0s, its container did not start",
		},
		"nothing happens and no status": {
			scene: scene(pure, func(f *fixture) { f.pod.Status = corev1.PodStatus{} }), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonStartTimeout, stop: true,
		},
		"nothing after a false release": {
			scene: scene(pure, released(time.Hour)), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonStartTimeout, stop: true,
		},
		"an unreadable time of the release": {
			scene: scene(
				pure, func(f *fixture) { f.pod.Annotations = map[string]string{v1alpha1.AnnotationReleasedAt: "soon"} },
			),
			after: startTimeout, state: notExecuted, reason: v1alpha1.ToolCallReasonStartTimeout, stop: true,
		},
		"no pod": {
			scene: scene(pure, noPod), after: startTimeout, state: notExecuted, reason: v1alpha1.ToolCallReasonNoPod, stop: true,
			message: "its Job got no pod",
		},
		"no pod yet to be recorded": {
			scene: scene(once, noPod, notRecorded), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonNoPod, stop: true, message: "its Job got no pod",
		},

		// Pods that went away before their container started.
		"unbound and deleted": {
			scene: scene(once, unbound, deleted(0)), state: notExecuted, reason: v1alpha1.ToolCallReasonDisruption,
		},
		"unbound and deleted, pure": {
			scene: scene(pure, unbound, deleted(0)), state: notExecuted, reason: v1alpha1.ToolCallReasonDisruption,
			retryable: true,
		},
		"unbound and given up": {
			scene: scene(once, unbound, deleted(0)), after: startTimeout, state: notExecuted,
			reason: v1alpha1.ToolCallReasonUnschedulable, message: "Insufficient memory",
		},
		"gated and deleted": {
			scene: scene(once, gatedPod, deleted(0)), after: time.Hour, state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption,
		},
		"gated, recorded, deleted": {
			scene: scene(once, gatedPod, recorded, deleted(0)), after: time.Hour, state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption,
		},
		"gated and failed": {
			scene: scene(once, gatedPod, phase(corev1.PodFailed, "")), state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption,
		},
		"unbound and failed": {
			scene: scene(once, unbound, phase(corev1.PodFailed, "Preempting")), state: notExecuted,
			reason: v1alpha1.ToolCallReasonDisruption, message: "(Preempting)",
		},
		"refused by the node": {
			scene: scene(pure, phase(corev1.PodFailed, "OutOfcpu"), func(f *fixture) { f.pod.Status.ContainerStatuses = nil }),
			state: notExecuted, reason: v1alpha1.ToolCallReasonDisruption, retryable: true, message: "(OutOfcpu)",
		},
		// A kubelet that restarts can report the same of a pod that has run.
		"refused by the node, perhaps after it ran": {
			scene:   scene(once, phase(corev1.PodFailed, "OutOfcpu"), func(f *fixture) { f.pod.Status.ContainerStatuses = nil }),
			state:   unknown,
			reason:  v1alpha1.ToolCallReasonDisruption,
			message: "it is unknown whether it had started (OutOfcpu)",
		},
		"waiting when its node was given up": {
			scene: scene(
				once, phase(corev1.PodFailed, ""), condition(corev1.DisruptionTarget, corev1.ConditionTrue, "DeletionByPodGC", ""),
			),
			state: unknown, reason: v1alpha1.ToolCallReasonDisruption, message: "(DeletionByPodGC)",
		},

		// Containers that run and do not end.
		"running when its node was given up": {
			scene: scene(once, runs(time.Second), phase(corev1.PodFailed, "")), state: unknown,
			reason: v1alpha1.ToolCallReasonNodeLost, started: true, message: "node was lost while it ran",
		},
		"running when its node went, pure": {
			scene: scene(pure, runs(time.Second), phase(corev1.PodFailed, "")), state: failed,
			reason: v1alpha1.ToolCallReasonNodeLost, started: true, retryable: true,
		},
		"too long": {
			scene: scene(pure, runs(0)), after: runLimit, state: failed, reason: v1alpha1.ToolCallReasonTimeout, started: true,
			stop: true, message: "had not ended 10s after its timeout of 1m0s",
		},
		"too long, with an unknown reason": {
			scene: scene(once, runs(0)), after: runLimit, state: unknown, reason: v1alpha1.ToolCallReasonTimeout, started: true,
			stop: true, message: "had not ended 10s after its timeout of 1m0s",
		},
		"too long, from an unknown start": {
			scene: scene(pure, runs(0), func(f *fixture) { f.status().State.Running.StartedAt = metav1.Time{} }),
			after: runLimit, state: failed, reason: v1alpha1.ToolCallReasonTimeout, started: true, stop: true,
		},
		"too long on a silent node": {
			scene: scene(pure, runs(0), condition(corev1.PodReady, corev1.ConditionFalse, "", "")), after: runLimit,
			state: failed, reason: v1alpha1.ToolCallReasonNodeLost, started: true, retryable: true, stop: true,
			message: "stopped reporting",
		},
		"too long on a silent node, once": {
			scene: scene(once, runs(0), condition(corev1.PodReady, corev1.ConditionFalse, "", "")), after: runLimit,
			state: unknown, reason: v1alpha1.ToolCallReasonNodeLost, started: true, stop: true, message: "stopped reporting",
		},
		"deleted, without a later status": {
			scene: scene(once, runs(0), deleted(2*time.Second)), after: 32 * time.Second, state: unknown,
			reason: v1alpha1.ToolCallReasonNodeLost, started: true, message: "its node has not confirmed its end",
		},
		"deleted, waiting, without status": {
			scene: scene(once, deleted(2*time.Second)), after: 32 * time.Second, state: unknown,
			reason: v1alpha1.ToolCallReasonNodeLost,
		},
		"deleted, without status, pure": {
			scene: scene(pure, deleted(2*time.Second)), after: 32 * time.Second, state: failed,
			reason: v1alpha1.ToolCallReasonNodeLost, retryable: true,
		},

		// A second start.
		"another pod": {
			scene: scene(once, func(f *fixture) { f.call.PodUID = "pod-0" }), state: unknown,
			reason: v1alpha1.ToolCallReasonSecondStart, message: "a pod other than",
		},
		"a restart": {
			scene: scene(once, runs(0), restartedOnce), state: unknown, reason: v1alpha1.ToolCallReasonSecondStart,
			started: true, message: "second time",
		},
		"a restart that ends": {
			scene: scene(once, reports("Completed", success), restartedOnce), state: unknown,
			reason: v1alpha1.ToolCallReasonSecondStart, started: true, message: "second time",
		},

		// Nothing left to look at.
		"the recorded pod was deleted": {
			scene: scene(once, noPod), state: unknown, reason: v1alpha1.ToolCallReasonPodGone, message: "no longer exists",
		},
		"the recorded pod was deleted and resuspended": {
			scene: scene(once, noPod, suspend), state: unknown, reason: v1alpha1.ToolCallReasonPodGone,
		},
		"the pod of a Job that ended was deleted": {
			scene: scene(pure, noPod, jobFailed), state: failed, reason: v1alpha1.ToolCallReasonPodGone, retryable: true,
		},
		"a gated pod was deleted": {
			scene: scene(once, noPod, notRecorded, jobFailed), state: notExecuted, reason: v1alpha1.ToolCallReasonPodGone,
			message: "before it was released",
		},
		"everything was deleted": {scene: scene(once, noPod, noJob), state: unknown, reason: v1alpha1.ToolCallReasonJobGone},
		"everything was deleted, pure": {
			scene: scene(pure, noPod, noJob), state: failed, reason: v1alpha1.ToolCallReasonJobGone, retryable: true,
		},
		"everything was deleted before the release": {
			scene: scene(once, noPod, noJob, notRecorded), state: notExecuted, reason: v1alpha1.ToolCallReasonJobGone,
			message: "before its pod was released",
		},
	}
}
