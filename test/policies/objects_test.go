package policies_test

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: teamA, Name: name} }

func newModel(name string) *v1alpha1.Model {
	return builder.Model(name).In(teamA).Simulated(builder.Script("Hello.")).Obj()
}

// newRealModel is a Model whose API key is in a Secret.
func newRealModel(name, secret string) *v1alpha1.Model {
	return &v1alpha1.Model{ObjectMeta: named(name), Spec: v1alpha1.ModelSpec{
		Provider:     v1alpha1.ModelProviderAnthropic,
		Model:        "claude",
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: "token"},
	}}
}

func newToolResult(name, submittedBy string) *v1alpha1.ToolResult {
	return &v1alpha1.ToolResult{ObjectMeta: named(name), Spec: v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: "demo-1"}, CallID: "1-0", Result: ptr.To("yes"), SubmittedBy: submittedBy,
	}}
}

// newDecision approves a call.
func newDecision(name, submittedBy string) *v1alpha1.ToolResult {
	decision := newToolResult(name, submittedBy)
	decision.Spec.Result, decision.Spec.Decision = nil, v1alpha1.DecisionApprove
	decision.Spec.TurnRef.UID, decision.Spec.CallDigest = "0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11", strings.Repeat("a", 64)
	return decision
}

// newInput is an answer to a question of a tool.
func newInput(name, submittedBy string) *v1alpha1.ToolResult {
	input := newDecision(name, submittedBy)
	input.Spec.Decision, input.Spec.Input = "", &v1alpha1.InputAnswer{ID: "size", Action: v1alpha1.InputActionDecline}
	return input
}

func inTeamB(result *v1alpha1.ToolResult) *v1alpha1.ToolResult {
	result.Namespace = teamB
	return result
}

func newEntry(name string) *v1alpha1.JournalEntry {
	return &v1alpha1.JournalEntry{
		ObjectMeta: named(name),
		Spec:       v1alpha1.JournalEntrySpec{Session: "demo", Ordinal: 1, Time: metav1.NowMicro()},
	}
}

func newRecord(name string, of v1alpha1.RecordType) *v1alpha1.Record {
	r := &v1alpha1.Record{
		ObjectMeta: named(name),
		Spec: v1alpha1.RecordSpec{
			Session: "demo", Store: "files", Type: of, Format: 1, Payload: "H4sIAAAAAAAA",
		},
	}
	if of == v1alpha1.RecordTypeIndex {
		r.Spec.Revision = 1
	}
	r.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: "demo", UID: "9d2b4a53",
	}}
	return r
}

func newTool(name string, env ...v1alpha1.EnvVar) *v1alpha1.Tool {
	return &v1alpha1.Tool{ObjectMeta: named(name), Spec: v1alpha1.ToolSpec{
		Description: "A tool of the tests.",
		SideEffect:  v1alpha1.SideEffectPure,
		Job:         &v1alpha1.JobTool{Image: "example.org/tool:1", Command: []string{"/tool"}, Env: env},
	}}
}

// pulling makes a Tool pull its images with Secrets.
func pulling(definition *v1alpha1.Tool, secrets ...string) *v1alpha1.Tool {
	for _, name := range secrets {
		definition.Spec.Job.ImagePullSecrets = append(
			definition.Spec.Job.ImagePullSecrets,
			v1alpha1.LocalReference{Name: name},
		)
	}
	return definition
}

func fromSecret(variable, secret string) v1alpha1.EnvVar {
	return v1alpha1.EnvVar{Name: variable, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: "token"}}
}

func newHTTPTool(name string, headers ...v1alpha1.HTTPHeader) *v1alpha1.Tool {
	return &v1alpha1.Tool{ObjectMeta: named(name), Spec: v1alpha1.ToolSpec{
		Description: "A tool of the tests.",
		HTTP:        &v1alpha1.HTTPTool{URL: "https://api.example.org/v1", Headers: headers},
	}}
}

func secretHeader(name, secret string) v1alpha1.HTTPHeader {
	return v1alpha1.HTTPHeader{Name: name, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: "token"}}
}

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: named(name), StringData: map[string]string{"token": "s3cret"}}
}

// callJob is the Job of a tool call as the manager makes it, suspended so that where it runs may still be changed.
func callJob(turn *v1alpha1.Turn, definition *v1alpha1.Tool) *batchv1.Job {
	job := jobspec.Build(jobspec.Params{
		Turn:      turn,
		Session:   "demo",
		Step:      2,
		Tool:      &definition.Spec,
		ToolName:  definition.Name,
		Arguments: `{"city": "Oslo"}`,
		Call: v1alpha1.ToolCall{
			ID:          "1-0",
			Name:        definition.Name,
			Executor:    v1alpha1.ToolExecutorJob,
			Fingerprint: "f",
			Attempt:     1,
		},
		Launcher: jobspec.Launcher{Image: "example.org/launcher:1", Delivery: jobspec.DeliveryInitContainer},
	})
	job.Spec.Suspend = ptr.To(true)
	return job
}

// podOf is the pod that the Job controller makes of a Job.
func podOf(job *batchv1.Job) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = job.Namespace, job.Name+"-pod"
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
	}
	return pod
}

// plainJob is a Job that has nothing to do with Capstan.
func plainJob(name string) *batchv1.Job {
	no, yes := ptr.To(false), ptr.To(true)
	return &batchv1.Job{
		ObjectMeta: named(name),
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "example.org/main:1", SecurityContext: &corev1.SecurityContext{
				RunAsNonRoot:             yes,
				AllowPrivilegeEscalation: no,
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}}},
		}}},
	}
}

func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

func tokenRequest() *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{}
}
