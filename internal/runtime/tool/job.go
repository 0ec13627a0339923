package tool

import (
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// turnKind is the kind that owns every Job.
const turnKind = "Turn"

// JobName returns the name of the Job of one attempt of a call. It is a hash, so that it contains no text from a model;
// attempts count from 1, and 0 stands for 1.
func JobName(turn types.UID, step int32, callID string, attempt int32) string {
	attempt = max(attempt, 1)
	return "tool-" + hash("job", string(turn), decimal(step), callID, decimal(attempt))[:nameHexDigits]
}

// BuildJob returns the Job of one attempt of a call. The same parameters produce the same Job. The only text from the
// model in it is the arguments, in an annotation of the pod.
func BuildJob(p JobParams) *batchv1.Job {
	mustBeWhole(p.Tool)
	labels := jobLabels(p)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        JobName(p.Turn.UID, p.Step, p.Call.ID, p.Call.Attempt),
			Namespace:   p.Turn.Namespace,
			Labels:      labels,
			Annotations: map[string]string{v1alpha1.AnnotationFingerprint: p.Call.Fingerprint},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(),
				Kind:       turnKind,
				Name:       p.Turn.Name,
				UID:        p.Turn.UID,
				Controller: ptr.To(true),
				// Turns are deleted in the background, and blocking a foreground deletion requires a permission on the
				// owner's finalizers.
				BlockOwnerDeletion: ptr.To(false),
			}},
		},
		Spec: batchv1.JobSpec{
			Parallelism:          ptr.To[int32](1),
			Completions:          ptr.To[int32](1),
			BackoffLimit:         ptr.To[int32](0),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      podLabels(p),
					Annotations: map[string]string{v1alpha1.AnnotationArguments: withDefault(p.Arguments)},
				},
				Spec: podSpec(p),
			},
		},
	}
}

func jobLabels(p JobParams) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelTurnUID:   string(p.Turn.UID),
		v1alpha1.LabelStep:      decimal(p.Step),
		v1alpha1.LabelCall:      p.Call.ID,
		v1alpha1.LabelAttempt:   decimal(max(p.Call.Attempt, 1)),
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
	}
	// Names of objects: they may be longer than a label's value.
	for key, name := range map[string]string{v1alpha1.LabelTurn: p.Turn.Name, v1alpha1.LabelTool: p.ToolName} {
		if len(validation.IsValidLabelValue(name)) == 0 {
			labels[key] = name
		}
	}
	return labels
}

// podLabels returns the labels of the Job, and the one that the NetworkPolicy selects by.
func podLabels(p JobParams) map[string]string {
	labels := jobLabels(p)
	if p.Tool.Job.Network == v1alpha1.NetworkReachNone {
		labels[v1alpha1.LabelNetwork] = string(v1alpha1.NetworkReachNone)
	}
	return labels
}

func decimal(n int32) string {
	return strconv.FormatInt(int64(n), 10)
}

// Matches reports whether a Job that exists under the name of a call is the Job of that call: the Turn owns it and it
// was made for the same tool and arguments (DUR-05). A Job that does not match means that a step was planned twice,
// differently.
func Matches(job *batchv1.Job, turn types.UID, call v1alpha1.ToolCall) bool {
	owner := metav1.GetControllerOf(job)
	return owner != nil && owner.UID == turn && job.Annotations[v1alpha1.AnnotationFingerprint] == call.Fingerprint
}

// Timeouts returns how long the container of a call may take to start, and how long the tool, or its request, may run.
// The values pinned in the call take precedence, then those of the Tool, then the defaults. tool may be nil.
func Timeouts(call v1alpha1.ToolCall, tool *v1alpha1.ToolSpec) (start, run time.Duration) {
	start, run = DefaultStartTimeout, DefaultTimeout
	if tool != nil && tool.Job != nil {
		start = positive(tool.Job.StartTimeout, start)
		run = positive(tool.Job.Timeout, run)
	}
	if tool != nil && tool.HTTP != nil {
		run = positive(tool.HTTP.Timeout, DefaultHTTPTimeout)
	}
	return start, positive(call.Timeout, run)
}

func positive(given *metav1.Duration, otherwise time.Duration) time.Duration {
	if given == nil || given.Duration <= 0 {
		return otherwise
	}
	return given.Duration
}

// AtMostOnce reports whether a call must never start twice. It is the meaning of an empty class (TOOL-09).
func AtMostOnce(call v1alpha1.ToolCall) bool {
	return call.SideEffect != v1alpha1.SideEffectPure && call.SideEffect != v1alpha1.SideEffectIdempotent
}
