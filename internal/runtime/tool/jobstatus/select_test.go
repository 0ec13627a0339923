package jobstatus

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhichPodCounts(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "job-1"}}
	pod := func(uid types.UID, age time.Duration, gone bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: at(age)}}
		p.OwnerReferences = []metav1.OwnerReference{{UID: job.UID, Controller: ptr.To(true)}}
		if gone {
			p.DeletionTimestamp = ptr.To(at(0))
		}
		return p
	}
	stray := pod("stray", 0, false)
	stray.OwnerReferences[0].UID = "job-2"
	first, second, gone := pod("a", 0, false), pod("b", time.Second, false), pod("c", 2*time.Second, true)
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		class    v1alpha1.SideEffect
		recorded types.UID
		want     *corev1.Pod
	}{
		"none":                         {nil, pure, "", nil},
		"another Job's":                {[]*corev1.Pod{stray}, pure, "", nil},
		"the only one":                 {[]*corev1.Pod{stray, first}, pure, "", first},
		"the newest":                   {[]*corev1.Pod{first, second}, pure, "", second},
		"the newest that stays":        {[]*corev1.Pod{first, second, gone}, pure, "", second},
		"one that goes, if need be":    {[]*corev1.Pod{gone}, pure, "", gone},
		"the first, if only one may":   {[]*corev1.Pod{first, second}, once, "", first},
		"the first that stays":         {[]*corev1.Pod{gone, second}, once, "", second},
		"the recorded one":             {[]*corev1.Pod{first, second, gone}, once, "c", gone},
		"not another than the record":  {[]*corev1.Pod{first, second}, once, "c", nil},
		"of the same age always one":   {[]*corev1.Pod{pod("y", 0, false), first, pod("x", 0, false)}, pure, "", first},
		"recorded, but of another Job": {[]*corev1.Pod{stray}, once, "stray", nil},
	} {
		call := v1alpha1.ToolCall{SideEffect: c.class, PodUID: c.recorded}
		for range 2 {
			if got := SelectPod(c.pods, job, call); got != c.want {
				t.Errorf("%s: got %v", name, got)
			}
			slices.Reverse(c.pods)
		}
	}
	if got := SelectPod([]*corev1.Pod{stray}, nil, v1alpha1.ToolCall{}); got != stray {
		t.Errorf("without a Job, got %v", got)
	}
}
