package jobstatus

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// SelectPod returns the pod of a Job that counts for a call; nil for none. pods may include those of other
// Jobs.
//
// For an AtMostOnce call only the recorded pod counts, and before one is recorded the first one created. For other
// calls it is the newest, but pods that are being deleted come last.
func SelectPod(pods []*corev1.Pod, job *batchv1.Job, call v1alpha1.ToolCall) *corev1.Pod {
	var chosen *corev1.Pod
	for _, pod := range pods {
		if job != nil && !metav1.IsControlledBy(pod, job) {
			continue
		}
		switch {
		case call.PodUID != "":
			if pod.UID == call.PodUID {
				return pod
			}
		case chosen == nil || preferred(pod, chosen, tool.AtMostOnce(call)):
			chosen = pod
		}
	}
	return chosen
}

// preferred reports whether a pod counts before another.
func preferred(pod, other *corev1.Pod, oldest bool) bool {
	if gone := pod.DeletionTimestamp != nil; gone != (other.DeletionTimestamp != nil) {
		return !gone
	}
	if !pod.CreationTimestamp.Equal(&other.CreationTimestamp) {
		return pod.CreationTimestamp.Before(&other.CreationTimestamp) == oldest
	}
	return pod.UID < other.UID
}
