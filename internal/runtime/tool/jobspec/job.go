package jobspec

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
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// turnKind is the kind that owns every Job.
const turnKind = "Turn"

// nameHexDigits is how much of a hash is in the name of a Job.
const nameHexDigits = 20

// Name returns the name of the Job of one attempt of a call. It is a hash, so that it contains no text from a model;
// attempts count from 1, and 0 stands for 1.
func Name(turn types.UID, step int32, callID string, attempt int32) string {
	attempt = max(attempt, 1)
	return "tool-" + tool.Hash("job", string(turn), decimal(step), callID, decimal(attempt))[:nameHexDigits]
}

// Build returns the Job of one attempt of a call. The same parameters produce the same Job. The only texts from the
// model in it are the arguments, and files of the Session, in annotations of the pod.
func Build(p Params) *batchv1.Job {
	definition.MustBeWhole(p.Tool)
	labels := labelsOf(p)
	annotations := map[string]string{v1alpha1.AnnotationArguments: tool.ArgumentsOrEmpty(p.Arguments)}
	if p.Files != "" {
		annotations[v1alpha1.AnnotationFiles] = p.Files
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            nameOf(p),
			Namespace:       p.Turn.Namespace,
			Labels:          labels,
			Annotations:     map[string]string{v1alpha1.AnnotationFingerprint: p.Call.Fingerprint},
			OwnerReferences: []metav1.OwnerReference{ownerOf(p)},
		},
		Spec: batchv1.JobSpec{
			Parallelism:          ptr.To[int32](1),
			Completions:          ptr.To[int32](1),
			BackoffLimit:         ptr.To[int32](0),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      podLabels(p),
					Annotations: annotations,
				},
				Spec: podSpec(p),
			},
		},
	}
}

func nameOf(p Params) string {
	if p.Task.ID != "" {
		return p.Task.Job
	}
	return Name(p.Turn.UID, p.Step, p.Call.ID, p.Call.Attempt)
}

// ownerOf returns the Turn of a call, or the Session of a task, as the controller of the Job.
func ownerOf(p Params) metav1.OwnerReference {
	owner := metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: turnKind, Name: p.Turn.Name, UID: p.Turn.UID,
	}
	if p.Task.ID != "" {
		owner = p.Task.Owner
	}
	owner.Controller = ptr.To(true)
	// Owners are deleted in the background, and blocking a foreground deletion requires a permission on the owner's
	// finalizers.
	owner.BlockOwnerDeletion = ptr.To(false)
	return owner
}

func labelsOf(p Params) map[string]string {
	if p.Task.ID != "" {
		labels := map[string]string{v1alpha1.LabelTask: p.Task.ID, v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan}
		if len(validation.IsValidLabelValue(p.ToolName)) == 0 {
			labels[v1alpha1.LabelTool] = p.ToolName
		}
		return labels
	}
	labels := map[string]string{
		v1alpha1.LabelTurnUID:   string(p.Turn.UID),
		v1alpha1.LabelStep:      decimal(p.Step),
		v1alpha1.LabelCall:      p.Call.ID,
		v1alpha1.LabelAttempt:   decimal(max(p.Call.Attempt, 1)),
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
	}
	if p.Capability != "" {
		labels[v1alpha1.LabelCapability] = p.Capability
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
func podLabels(p Params) map[string]string {
	labels := labelsOf(p)
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

// DefaultStartTimeout is how long a tool's container may take to start if its Tool sets no timeout.
const DefaultStartTimeout = 2 * time.Minute

// Timeouts returns how long the container of a call may take to start, and how long the tool may run, counted from
// then. The value pinned in the call takes precedence, then those of the Tool, then the defaults. spec may be nil.
func Timeouts(call v1alpha1.ToolCall, spec *v1alpha1.ToolSpec) (start, run time.Duration) {
	start = DefaultStartTimeout
	if spec != nil && spec.Job != nil && spec.Job.StartTimeout != nil && spec.Job.StartTimeout.Duration > 0 {
		start = spec.Job.StartTimeout.Duration
	}
	return start, executors.Named(v1alpha1.ToolExecutorJob).TimeoutOf(call, spec)
}
