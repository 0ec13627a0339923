package tool

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// patched is what an API server makes of a pod and a merge patch.
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
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: podUID, Annotations: map[string]string{"kept": "yes"}}}
			pod.Spec.SchedulingGates = slices.Clone(c.before)
			got := patched(t, pod, ReleasePatch(pod, created))
			if !slices.Equal(got.Spec.SchedulingGates, c.after) || Gated(got) {
				t.Errorf("the gates are %v", got.Spec.SchedulingGates)
			}
			if got.UID != podUID || got.Annotations["kept"] != "yes" ||
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
		ReleasePatch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: podUID}}, created),
		&patch,
	); err != nil ||
		patch.Metadata.UID != podUID {
		t.Errorf("the patch is for %q, %v", patch.Metadata.UID, err)
	}
}

func TestWhichPodCounts(t *testing.T) {
	job := BuildJob(testParams())
	job.UID = "job-1"
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

func TestAResultThatCannotBeReadIsLost(t *testing.T) {
	large := result.Report{Outcome: result.Exited, Started: true, Result: strings.Repeat("x", 9000)}
	message, frame := large.Encode(result.NewNonce())
	for name, c := range map[string]struct{ message, log string }{
		"no message": {"", string(frame)},
		"no log":     {string(message), ""},
		"half a log": {string(message), string(frame[:5000])},
	} {
		if text, err := ReadResult(strings.NewReader(c.log), c.message); !errors.Is(err, ErrResultLost) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	broken := errors.New("the connection broke")
	if _, err := ReadResult(
		iotest.ErrReader(broken),
		string(message),
	); !errors.Is(err, broken) ||
		errors.Is(err, ErrResultLost) {
		t.Errorf("a log that cannot be read gives %v", err)
	}
}

func TestALostOutputIsNeitherSuccessNorUnknown(t *testing.T) {
	succeeded := Outcome{
		State:      v1alpha1.ToolCallStateSucceeded,
		Reason:     v1alpha1.ToolCallReasonCompleted,
		NeedsLog:   true,
		Started:    true,
		StartedAt:  created,
		FinishedAt: created.Add(time.Second),
	}
	for class, safe := range map[v1alpha1.SideEffect]bool{
		once: false, "": false, pure: true, v1alpha1.SideEffectIdempotent: true,
	} {
		got := LostOutput(v1alpha1.ToolCall{SideEffect: class}, succeeded)
		if got.State != v1alpha1.ToolCallStateFailed || got.Reason != v1alpha1.ToolCallReasonOutputLost || got.Retryable ||
			!got.Started ||
			got.NeedsLog ||
			got.Error == "" {
			t.Errorf("%q: %+v", class, got)
		}
		if said := strings.Contains(got.Error, "safe to call it again"); said != safe {
			t.Errorf("%q: says that it is safe to call again: %v, want %v: %s", class, said, safe, got.Error)
		}
		if !got.StartedAt.Equal(succeeded.StartedAt) || !got.FinishedAt.Equal(succeeded.FinishedAt) {
			t.Errorf("%q: from %v to %v", class, got.StartedAt, got.FinishedAt)
		}
	}
}

func TestOnlyTheToolsContainerHasTheMessage(t *testing.T) {
	pod := scene(pure, ends(0, "Completed", "the report")).pod
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: "another"},
	}
	if got := TerminationMessage(pod); got != "the report" {
		t.Errorf("got %q", got)
	}
	for _, pod := range []*corev1.Pod{scene(pure).pod, scene(pure, runs(0)).pod, {}} {
		if got := TerminationMessage(pod); got != "" {
			t.Errorf("got %q", got)
		}
	}
}
