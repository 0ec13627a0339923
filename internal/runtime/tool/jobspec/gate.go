package jobspec

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
