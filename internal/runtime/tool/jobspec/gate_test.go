package jobspec

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const gatedUID types.UID = "pod-1"

// releasedAt is when the pods lost their gate.
var releasedAt = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// patched returns a pod with a merge patch applied, as an API server applies it.
func patched(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		t.Fatal(err)
	}
	changed := &corev1.Pod{}
	if err := json.Unmarshal(after, changed); err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestAReleaseRemovesOurGateOnly(t *testing.T) {
	ours, other := corev1.PodSchedulingGate{
		Name: v1alpha1.SchedulingGateStart,
	}, corev1.PodSchedulingGate{
		Name: "example.org/other",
	}
	for name, c := range map[string]struct{ before, after []corev1.PodSchedulingGate }{
		"ours alone":  {[]corev1.PodSchedulingGate{ours}, nil},
		"ours first":  {[]corev1.PodSchedulingGate{ours, other}, []corev1.PodSchedulingGate{other}},
		"ours last":   {[]corev1.PodSchedulingGate{other, ours}, []corev1.PodSchedulingGate{other}},
		"none at all": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: gatedUID, Annotations: map[string]string{"kept": "yes"}}}
			pod.Spec.SchedulingGates = slices.Clone(c.before)
			got := patched(t, pod, ReleasePatch(pod, releasedAt))
			if !slices.Equal(got.Spec.SchedulingGates, c.after) || Gated(got) {
				t.Errorf("the gates are %v", got.Spec.SchedulingGates)
			}
			if got.UID != gatedUID || got.Annotations["kept"] != "yes" ||
				got.Annotations[v1alpha1.AnnotationReleasedAt] != "2030-01-02T03:04:05Z" {
				t.Errorf("the pod is %+v", got.ObjectMeta)
			}
			if !slices.Equal(pod.Spec.SchedulingGates, c.before) {
				t.Error("the pod that was given has changed")
			}
		})
	}
}

func TestAReleaseHoldsForOnePodOnly(t *testing.T) {
	var patch struct {
		Metadata struct{ UID types.UID }
	}
	if err := json.Unmarshal(
		ReleasePatch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: gatedUID}}, releasedAt),
		&patch,
	); err != nil ||
		patch.Metadata.UID != gatedUID {
		t.Errorf("the patch is for %q, %v", patch.Metadata.UID, err)
	}
}
