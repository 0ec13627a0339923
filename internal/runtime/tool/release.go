package tool

import (
	"encoding/json"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Gated reports whether a pod has our scheduling gate.
func Gated(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, isStartGate)
}

func isStartGate(gate corev1.PodSchedulingGate) bool {
	return gate.Name == v1alpha1.SchedulingGateStart
}

// releasePatch is the part of a pod that ReleasePatch changes. The UID makes the API server refuse it for any other
// pod.
type releasePatch struct {
	Metadata releaseMetadata `json:"metadata"`
	Spec     releaseSpec     `json:"spec"`
}

type releaseMetadata struct {
	UID         types.UID         `json:"uid"`
	Annotations map[string]string `json:"annotations"`
}

type releaseSpec struct {
	// SchedulingGates is never omitted: null removes the list.
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates"`
}

// ReleasePatch is the JSON merge patch that removes our scheduling gate from a pod, leaves those of others, and records
// when that was. The API server refuses it for a pod of another UID. Send it only when the pod's UID is recorded in
// Turn status.
func ReleasePatch(pod *corev1.Pod, now time.Time) []byte {
	others := slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), isStartGate)
	if len(others) == 0 {
		others = nil
	}
	patch, err := json.Marshal(releasePatch{
		Metadata: releaseMetadata{
			UID:         pod.UID,
			Annotations: map[string]string{v1alpha1.AnnotationReleasedAt: now.UTC().Format(time.RFC3339)},
		},
		Spec: releaseSpec{SchedulingGates: others},
	})
	if err != nil {
		panic("encoding a patch of strings: " + err.Error())
	}
	return patch
}

// SelectPod returns the pod of a Job that counts for a call; nil if there is none. pods may include those of other
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
		case chosen == nil || preferred(pod, chosen, AtMostOnce(call)):
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
