package definition

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// maxKeptBytes is the size up to which the definition of a Tool stays whole in a cache.
const maxKeptBytes = 8 << 10

// LeaveOut drops the texts of a large Tool. The rest decides whether the Tool can be used and how its calls are
// planned; the digest is that of the whole definition. Caches that keep many Tools use it, and read the Tool later.
func LeaveOut(t *v1alpha1.Tool) {
	if LeftOut(&t.Spec) || leftout.Size(t.Spec) <= maxKeptBytes {
		return
	}
	mark := leftout.Mark(offeredBytes(&t.Spec), Digest(&t.Spec))
	LeaveOutExecution(&t.Spec)
	t.Spec.Description, t.Spec.InputSchema = mark, nil
}

// LeaveOutExecution drops the texts of a Tool that only its calls need. The texts for the model remain.
func LeaveOutExecution(spec *v1alpha1.ToolSpec) {
	if executionLeftOut(spec) {
		return
	}
	mark := leftout.Mark(0, Digest(spec))
	if spec.Job != nil {
		job := *spec.Job
		job.Image, job.Command, job.Args, job.Resources, job.Files = mark, nil, nil, nil, nil
		// One of each shows that the tool uses a Secret.
		job.Env = slices.Clone(firstOf(job.Env, func(v v1alpha1.EnvVar) bool { return v.SecretKeyRef != nil }))
		job.ImagePullSecrets = slices.Clone(job.ImagePullSecrets[:min(len(job.ImagePullSecrets), 1)])
		spec.Job = &job
	}
	if spec.HTTP != nil {
		http := *spec.HTTP
		http.URL = mark
		http.Headers = shown(http.Headers)
		spec.HTTP = &http
	}
}

// shown returns one header of each kind that shows where secrets are sent.
func shown(headers []v1alpha1.HTTPHeader) []v1alpha1.HTTPHeader {
	return slices.Concat(
		firstOf(headers, v1alpha1.HTTPHeader.IsSecret), firstOf(headers, v1alpha1.HTTPHeader.OfSession))
}

func firstOf[T any](items []T, is func(T) bool) []T {
	if i := slices.IndexFunc(items, is); i >= 0 {
		return items[i : i+1]
	}
	return nil
}

// LeftOut reports whether LeaveOut has dropped texts of the Tool.
func LeftOut(spec *v1alpha1.ToolSpec) bool {
	return leftout.Is(spec.Description)
}

// executionLeftOut reports whether LeaveOutExecution has dropped texts of the Tool.
func executionLeftOut(spec *v1alpha1.ToolSpec) bool {
	return spec.Job != nil && leftout.Is(spec.Job.Image) || spec.HTTP != nil && leftout.Is(spec.HTTP.URL)
}

// LeftOutBytes is the size of the texts of a Tool for the model that LeaveOut has dropped; 0 for a whole Tool.
func LeftOutBytes(spec *v1alpha1.ToolSpec) int64 {
	return leftout.Bytes(spec.Description)
}

// offeredBytes is the size of the texts for the model.
func offeredBytes(spec *v1alpha1.ToolSpec) int64 {
	n := len(spec.Description)
	if spec.InputSchema != nil {
		n += len(spec.InputSchema.Raw)
	}
	return int64(n)
}

// recordedDigest returns the digest of a definition whose texts were left out.
func recordedDigest(spec *v1alpha1.ToolSpec) (string, bool) {
	switch {
	case LeftOut(spec):
		return leftout.Note(spec.Description)
	case executionLeftOut(spec) && spec.Job != nil:
		return leftout.Note(spec.Job.Image)
	case executionLeftOut(spec):
		return leftout.Note(spec.HTTP.URL)
	default:
		return "", false
	}
}

// MustBeWhole panics if any text was left out.
func MustBeWhole(spec *v1alpha1.ToolSpec) {
	if LeftOut(spec) || executionLeftOut(spec) {
		panic("the definition of a Tool is used before it is read")
	}
}
