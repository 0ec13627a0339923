package capstantest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ending is how a container ended.
type ending struct {
	exit            int32
	reason, message string
	// log is the content of the container's log at that time.
	log []byte
	// started is when it had started. It has not with neverStarted, and with neverSeen the node has not even made it.
	started                 metav1.Time
	neverStarted, neverSeen bool
	// lost reports whether its node is gone: the pod ends, and the status of the container is not updated any more.
	lost bool
}

// ends writes the end of a pod and its container.
func (p *player) ends(ctx context.Context, pod *corev1.Pod, end ending) error {
	return p.patch(ctx, pod, func() {
		pod.Status.Phase = corev1.PodSucceeded
		reason := "PodCompleted"
		if end.exit != 0 || end.lost {
			pod.Status.Phase, reason = corev1.PodFailed, "PodFailed"
		}
		p.setPodCondition(pod, corev1.ContainersReady, corev1.ConditionFalse, reason, "")
		p.setPodCondition(pod, corev1.PodReady, corev1.ConditionFalse, reason, "")
		if end.lost {
			p.setPodCondition(
				pod,
				corev1.DisruptionTarget,
				corev1.ConditionTrue,
				"DeletionByPodGC",
				"PodGC: node no longer exists",
			)
			return
		}
		terminated := &corev1.ContainerStateTerminated{
			ExitCode:    end.exit,
			Reason:      end.reason,
			Message:     end.message,
			StartedAt:   end.started,
			FinishedAt:  p.present(),
			ContainerID: containerID(pod),
		}
		switch {
		case end.neverStarted:
			terminated.StartedAt = metav1.Unix(0, 0)
		case end.neverSeen:
			terminated.StartedAt, terminated.FinishedAt, terminated.ContainerID = metav1.Time{}, metav1.Time{}, ""
		}
		status := p.status(pod, corev1.ContainerState{Terminated: terminated})
		if end.neverSeen {
			status.ContainerID, status.ImageID = "", ""
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	})
}

// waits returns why a container waits.
func (p *player) waits(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	return p.patch(ctx, pod, func() {
		status := p.status(
			pod,
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		)
		status.ContainerID, status.ImageID = "", ""
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		p.setPodCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, "", "")
		p.setPodCondition(
			pod,
			corev1.ContainersReady,
			corev1.ConditionFalse,
			"ContainersNotReady",
			"containers with unready status: ["+v1alpha1.ToolContainerName+"]",
		)
		p.setPodCondition(
			pod,
			corev1.PodReady,
			corev1.ConditionFalse,
			"ContainersNotReady",
			"containers with unready status: ["+v1alpha1.ToolContainerName+"]",
		)
	})
}

// status is the status of the tool's container in the given state.
func (p *player) status(pod *corev1.Pod, state corev1.ContainerState) corev1.ContainerStatus {
	runs := state.Running != nil
	return corev1.ContainerStatus{
		Name:        v1alpha1.ToolContainerName,
		Image:       pod.Spec.Containers[0].Image,
		ImageID:     "sha256:0",
		ContainerID: containerID(pod),
		Ready:       runs,
		Started:     &runs,
		State:       state,
	}
}

func containerID(pod *corev1.Pod) string {
	return "test://" + string(pod.UID)
}

// setPodCondition sets a condition of a pod.
func (p *player) setPodCondition(
	pod *corev1.Pod,
	kind corev1.PodConditionType,
	value corev1.ConditionStatus,
	reason, message string,
) {
	condition := corev1.PodCondition{
		Type:               kind,
		Status:             value,
		Reason:             reason,
		Message:            message,
		LastTransitionTime: p.present(),
	}
	for i, known := range pod.Status.Conditions {
		if known.Type == kind {
			if known.Status == value {
				condition.LastTransitionTime = known.LastTransitionTime
			}
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// patch writes the change of the pod's status, if there is one.
func (p *player) patch(ctx context.Context, pod *corev1.Pod, change func()) error {
	base := pod.DeepCopy()
	change()
	patch := client.StrategicMergeFrom(base)
	if data, err := patch.Data(pod); err != nil || string(data) == "{}" {
		return err
	}
	return p.client.Status().Patch(ctx, pod, patch)
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
