package jobstatus

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// obstacle is why a container does not start.
type obstacle struct {
	// reason that the call ends with if the obstacle stays.
	reason string
	// detail is a sentence without its end.
	detail string
	// permanent reports whether waiting does not help.
	permanent bool
}

// pullReasons are the kubelet's reasons for an image that it cannot pull; those with the value true do not go away by
// waiting.
var pullReasons = map[string]bool{
	"ErrImagePull":              false,
	"ImagePullBackOff":          false,
	"ImageInspectError":         false,
	"RegistryUnavailable":       false,
	"SignatureValidationFailed": false,
	"ErrImageNeverPull":         true,
	"InvalidImageName":          true,
}

// startReasons are the kubelet's reasons for a container that it cannot create or start.
var startReasons = map[string]bool{
	"CreateContainerConfigError": true,
	"CreateContainerError":       true,
	"PreCreateHookError":         true,
	"PreStartHookError":          true,
	"RunContainerError":          true,
	"CrashLoopBackOff":           true,
}

// findObstacle returns why the container of a pod does not start, as far as the pod shows it.
func findObstacle(pod *corev1.Pod, status *corev1.ContainerStatus) obstacle {
	for _, waiting := range waitingStates(pod, status) {
		if hopeless, ok := pullReasons[waiting.Reason]; ok {
			return obstacle{
				v1alpha1.ToolCallReasonImagePull,
				"its image could not be pulled (" + waiting.Reason + ")" + tool.Quoted(waiting.Message),
				hopeless,
			}
		}
		if startReasons[waiting.Reason] {
			return obstacle{
				v1alpha1.ToolCallReasonStartError,
				"its container could not be created (" + waiting.Reason + ")" + tool.Quoted(waiting.Message),
				false,
			}
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return obstacle{
				v1alpha1.ToolCallReasonUnschedulable,
				"its pod could not be scheduled" + tool.Quoted(condition.Message),
				false,
			}
		}
	}
	return obstacle{v1alpha1.ToolCallReasonStartTimeout, "its container did not start", false}
}

// waitingStates returns the waiting containers: those that come before the tool's, and the tool's own.
func waitingStates(pod *corev1.Pod, status *corev1.ContainerStatus) []*corev1.ContainerStateWaiting {
	var waiting []*corev1.ContainerStateWaiting
	for i := range pod.Status.InitContainerStatuses {
		if state := pod.Status.InitContainerStatuses[i].State.Waiting; state != nil {
			waiting = append(waiting, state)
		}
	}
	if status.State.Waiting != nil {
		waiting = append(waiting, status.State.Waiting)
	}
	return waiting
}

// pendingReason is the reason that is shown while there is still time.
func (o obstacle) pendingReason() string {
	if o.reason == v1alpha1.ToolCallReasonStartTimeout {
		return v1alpha1.ToolCallReasonStarting
	}
	return o.reason
}

// podMessage returns the pod's own message about its end.
func podMessage(pod *corev1.Pod) string {
	if pod.Status.Reason != "" {
		return " (" + pod.Status.Reason + ")" + tool.Quoted(pod.Status.Message)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return " (" + condition.Reason + ")" + tool.Quoted(condition.Message)
		}
	}
	return ""
}
