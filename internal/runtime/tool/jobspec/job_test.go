package jobspec

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const turnUID types.UID = "1b2c3d4e-0000-4000-8000-000000000001"

// hostile is a text that must not get anywhere but into the arguments.
const hostile = "$(CAPSTAN_TURN) $$ `id` '; rm -rf / #\n\"\\ \U0001F600"

func testParams() Params {
	return Params{
		Turn:    &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: "demo-1", Namespace: "team", UID: turnUID}},
		Session: "demo",
		Step:    2,
		Call: v1alpha1.ToolCall{
			ID: "1-0", Name: hostile, Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure,
			Fingerprint: tool.Fingerprint("word-count", `{"text": "x"}`), Attempt: 1,
		},
		Tool: &v1alpha1.ToolSpec{
			Description: "Counts words.",
			InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type": "object", "properties": {"text": {"type": "string"}}}`)},
			Job: &v1alpha1.JobTool{
				Image: "example.org/wc:1", Command: []string{"/wc", "-w"}, Args: []string{"--all"},
				Env: []v1alpha1.EnvVar{{Name: "LANG", Value: "C"}},
			},
		},
		ToolName:  "word-count",
		Arguments: `{"text": "` + hostile + `"}`,
		Launcher: Launcher{
			Image:      "example.org/launcher:1",
			PullPolicy: corev1.PullIfNotPresent,
			Delivery:   DeliveryImageVolume,
		},
	}
}

// container is the tool's container of a Job.
func container(t *testing.T, job *batchv1.Job) corev1.Container {
	t.Helper()
	containers := job.Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Name != v1alpha1.ToolContainerName {
		t.Fatalf("the containers are %+v", containers)
	}
	return containers[0]
}

func environment(t *testing.T, job *batchv1.Job) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, variable := range container(t, job).Env {
		if _, twice := values[variable.Name]; twice {
			t.Errorf("%s is set twice", variable.Name)
		}
		values[variable.Name] = variable.Value
	}
	return values
}

func TestAJobBelongsToItsTurn(t *testing.T) {
	p := testParams()
	job := Build(p)
	if job.Namespace != "team" || job.Name != Name(turnUID, 2, "1-0", 1) {
		t.Errorf("the Job is %s/%s", job.Namespace, job.Name)
	}
	if !metav1.IsControlledBy(job, p.Turn) {
		t.Error("the Turn does not control the Job")
	}
	owner := job.OwnerReferences[0]
	if owner.APIVersion != "capstan.dev/v1alpha1" || owner.Kind != "Turn" || owner.Name != "demo-1" {
		t.Errorf("the owner is %+v", owner)
	}
	if owner.BlockOwnerDeletion == nil || *owner.BlockOwnerDeletion {
		t.Error("the Job blocks the deletion of its Turn, which takes a right on the Turn's finalizers")
	}
	if job.Annotations[v1alpha1.AnnotationFingerprint] != p.Call.Fingerprint {
		t.Errorf("the annotations are %v", job.Annotations)
	}
	want := map[string]string{
		v1alpha1.LabelTurnUID: string(turnUID), v1alpha1.LabelStep: "2", v1alpha1.LabelCall: "1-0",
		v1alpha1.LabelAttempt: "1", v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
		v1alpha1.LabelTurn: "demo-1", v1alpha1.LabelTool: p.ToolName,
	}
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		if !equality.Semantic.DeepEqual(labels, want) {
			t.Errorf("the labels are %v", labels)
		}
		for _, value := range labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("the label value %q: %v", value, problems)
			}
		}
	}
}

func TestANameThatIsNoLabelValueIsLeftOut(t *testing.T) {
	p := testParams()
	p.ToolName = strings.Repeat("t", 64)
	job := Build(p)
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		if name, ok := labels[v1alpha1.LabelTool]; ok || labels[v1alpha1.LabelTurn] != "demo-1" {
			t.Errorf("the labels are %v with %q", labels, name)
		}
	}
}

func TestJobNamesAreHashesOfTheCallAndTheAttempt(t *testing.T) {
	names := map[string]bool{}
	for _, name := range []string{
		Name(
			turnUID, 2, "1-0", 1,
		), Name(turnUID, 2, "1-0", 2), Name(turnUID, 2, "1-1", 1), Name(turnUID, 3, "1-0", 1),
		Name("another", 2, "1-0", 1), Name(turnUID, 21, "-0", 1), Name(turnUID, 2, hostile, 1),
	} {
		if !regexp.MustCompile(`^tool-[0-9a-f]{20}$`).MatchString(name) || names[name] {
			t.Errorf("the name %q is no hash or is there twice", name)
		}
		names[name] = true
	}
	if Name(turnUID, 2, "1-0", 0) != Name(turnUID, 2, "1-0", 1) {
		t.Error("an attempt that is not counted is not the first")
	}
}

func TestTheSameParametersGiveTheSameJob(t *testing.T) {
	if !equality.Semantic.DeepEqual(Build(testParams()), Build(testParams())) {
		t.Error("two Jobs differ")
	}
}

func TestBuildingAJobLeavesItsParametersAlone(t *testing.T) {
	p, untouched := testParams(), testParams()
	job := Build(p)
	job.Spec.Template.Spec.Containers[0].Args[0] = "changed"
	job.Spec.Template.Labels["changed"] = "yes"
	if !equality.Semantic.DeepEqual(p, untouched) || job.Labels["changed"] != "" {
		t.Error("the parameters, or the Job's labels, were changed")
	}
}

func TestNothingRestartsAJob(t *testing.T) {
	spec := Build(testParams()).Spec
	if *spec.BackoffLimit != 0 || *spec.PodReplacementPolicy != batchv1.Failed || *spec.Completions != 1 ||
		*spec.Parallelism != 1 {
		t.Errorf("the Job is %+v", spec)
	}
	if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever ||
		*spec.Template.Spec.TerminationGracePeriodSeconds != 2 {
		t.Errorf("the pod is %+v", spec.Template.Spec)
	}
	if spec.TTLSecondsAfterFinished != nil || spec.ActiveDeadlineSeconds != nil || spec.Suspend != nil ||
		spec.CompletionMode != nil {
		t.Errorf("the Job has more fields than it should: %+v", spec)
	}
}

func TestOnlyPodsThatMustNotStartTwiceAreGated(t *testing.T) {
	for class, gated := range map[v1alpha1.SideEffect]bool{
		v1alpha1.SideEffectPure: false, v1alpha1.SideEffectIdempotent: false, v1alpha1.SideEffectAtMostOnce: true, "": true,
		"Other": true,
	} {
		p := testParams()
		p.Call.SideEffect = class
		pod := &corev1.Pod{Spec: Build(p).Spec.Template.Spec}
		if Gated(pod) != gated || len(pod.Spec.SchedulingGates) > 1 {
			t.Errorf("%q: the gates are %v", class, pod.Spec.SchedulingGates)
		}
	}
}

func TestPodsKeepToTheRestrictedStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, delivery := range []Delivery{DeliveryImageVolume, DeliveryInitContainer, ""} {
		for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce} {
			p := testParams()
			p.Launcher.Delivery, p.Call.SideEffect = delivery, class
			template := Build(p).Spec.Template
			level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			allowed := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
			if !allowed.Allowed {
				t.Errorf("%q: %s: %s", delivery, allowed.ForbiddenReason(), allowed.ForbiddenDetail())
			}
		}
	}
}

func TestPodsGetNothingTheyWereNotGiven(t *testing.T) {
	for _, delivery := range []Delivery{DeliveryImageVolume, DeliveryInitContainer} {
		p := testParams()
		p.Launcher.Delivery = delivery
		pod := Build(p).Spec.Template.Spec
		if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks ||
			pod.ServiceAccountName != v1alpha1.ToolServiceAccount {
			t.Errorf("the pod has more than it needs: %+v", pod)
		}
		if *pod.SecurityContext.RunAsUser != 65532 || *pod.SecurityContext.RunAsGroup != 65532 {
			t.Errorf("the pod runs as %d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			if !*c.SecurityContext.ReadOnlyRootFilesystem || len(c.EnvFrom) > 0 || len(c.Ports) > 0 {
				t.Errorf("the container %s has more than it needs: %+v", c.Name, c)
			}
		}
	}
}

func TestTheLauncherRunsTheCommand(t *testing.T) {
	for name, c := range map[string]struct {
		launcher Launcher
		command  []string
	}{
		"from an image volume": {
			Launcher{Delivery: DeliveryImageVolume}, []string{"/capstan/launcher/ko-app/launcher", "run", "--", "/wc", "-w"},
		},
		"by default": {
			Launcher{}, []string{"/capstan/launcher/ko-app/launcher", "run", "--", "/wc", "-w"},
		},
		"copied by an init container": {
			Launcher{Delivery: DeliveryInitContainer}, []string{"/capstan/launcher/launcher", "run", "--", "/wc", "-w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testParams()
			p.Launcher = c.launcher
			p.Launcher.Image = "example.org/launcher:1"
			got := container(t, Build(p))
			if !slices.Equal(got.Command, c.command) || !slices.Equal(got.Args, []string{"--all"}) ||
				got.Image != "example.org/wc:1" {
				t.Errorf("the container runs %q %q of %s", got.Command, got.Args, got.Image)
			}
			if got.TerminationMessagePath != "/dev/termination-log" ||
				got.TerminationMessagePolicy != corev1.TerminationMessageReadFile {
				t.Errorf("the report goes to %s, %s", got.TerminationMessagePath, got.TerminationMessagePolicy)
			}
		})
	}
}

func TestTheLauncherIsDelivered(t *testing.T) {
	p := testParams()
	pod := Build(p).Spec.Template.Spec
	image := pod.Volumes[0].Image
	if len(pod.InitContainers) != 0 || image == nil || image.Reference != "example.org/launcher:1" ||
		image.PullPolicy != corev1.PullIfNotPresent {
		t.Errorf("the launcher comes from %+v", pod.Volumes[0])
	}
	p.Launcher.Delivery = DeliveryInitContainer
	pod = Build(p).Spec.Template.Spec
	if len(pod.InitContainers) != 1 || pod.Volumes[0].EmptyDir == nil {
		t.Fatalf("the launcher comes from %+v by %+v", pod.Volumes[0], pod.InitContainers)
	}
	init := pod.InitContainers[0]
	if init.Image != "example.org/launcher:1" ||
		!slices.Equal(init.Command, []string{"/ko-app/launcher", "copy", "/capstan/launcher/launcher"}) {
		t.Errorf("the init container runs %q of %s", init.Command, init.Image)
	}
	if len(init.VolumeMounts) != 1 || init.VolumeMounts[0].Name != pod.Volumes[0].Name || init.VolumeMounts[0].ReadOnly {
		t.Errorf("the init container mounts %+v", init.VolumeMounts)
	}
}

func TestEveryMountHasItsVolume(t *testing.T) {
	pod := Build(testParams()).Spec.Template.Spec
	volumes := map[string]corev1.VolumeSource{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume.VolumeSource
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		source, ok := volumes[mount.Name]
		if !ok {
			t.Errorf("%s has no volume", mount.Name)
		}
		if writable := source.EmptyDir != nil; writable == mount.ReadOnly {
			t.Errorf("%s is read-only: %v", mount.Name, mount.ReadOnly)
		}
		if source.EmptyDir != nil &&
			(source.EmptyDir.SizeLimit == nil || source.EmptyDir.Medium != corev1.StorageMediumDefault) {
			t.Errorf("%s is not bounded, or in memory: %+v", mount.Name, source.EmptyDir)
		}
	}
	if len(pod.Containers[0].VolumeMounts) != len(volumes) {
		t.Error("a volume is not mounted")
	}
}

func TestArgumentsTravelInAnAnnotation(t *testing.T) {
	p := testParams()
	job := Build(p)
	if got := job.Spec.Template.Annotations[v1alpha1.AnnotationArguments]; got != p.Arguments {
		t.Errorf("the annotation is %q", got)
	}
	if _, ok := job.Annotations[v1alpha1.AnnotationArguments]; ok {
		t.Error("the arguments are in the Job twice")
	}
	field := job.Spec.Template.Spec.Volumes[1].DownwardAPI.Items[0]
	if field.FieldRef.FieldPath != "metadata.annotations['capstan.dev/arguments']" {
		t.Errorf("the file shows %s", field.FieldRef.FieldPath)
	}
	if got := environment(t, job)[result.EnvArgumentsFile]; got != "/capstan/arguments/"+field.Path {
		t.Errorf("the path of the file is %s", got)
	}
	for _, blank := range []string{"", " \n"} {
		p.Arguments = blank
		if got := Build(p).Spec.Template.Annotations[v1alpha1.AnnotationArguments]; got != "{}" {
			t.Errorf("blank arguments become %q", got)
		}
	}
}

func TestWhatTheModelWroteIsNowhereElse(t *testing.T) {
	p := testParams()
	p.TraceParent = hostile
	job := Build(p)
	job.Spec.Template.Annotations[v1alpha1.AnnotationArguments] = ""
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range append(strings.Fields(strings.Trim(string(quoted), `"`)), "rm -rf", "CAPSTAN_TURN)") {
		if len(part) > 2 && strings.Contains(string(text), part) {
			t.Errorf("%q is in the Job: %s", part, text)
		}
	}
}

func TestTheToolKnowsWhereItBelongs(t *testing.T) {
	p := testParams()
	p.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.Call.Timeout = &metav1.Duration{Duration: 90 * time.Second}
	p.Locale = "de-CH"
	values := environment(t, Build(p))
	for name, want := range map[string]string{
		"LANG": "C", "CAPSTAN_SESSION": "demo", "CAPSTAN_TURN": "demo-1", "CAPSTAN_TOOL": "word-count",
		"CAPSTAN_IDEMPOTENCY_KEY": tool.IdempotencyKey(turnUID, "1-0"), "TRACEPARENT": p.TraceParent,
		result.EnvTimeout: "1m30s", result.EnvScalars: `["text"]`, result.EnvMessageFile: "/dev/termination-log",
		result.EnvStartMark: "/capstan/start/started", "CAPSTAN_LOCALE": "de-CH",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	p.Call.Attempt, p.TraceParent, p.Locale = 2, "", ""
	again := environment(t, Build(p))
	if again["CAPSTAN_IDEMPOTENCY_KEY"] != values["CAPSTAN_IDEMPOTENCY_KEY"] {
		t.Error("another attempt has another idempotency key")
	}
	if _, ok := again["TRACEPARENT"]; ok {
		t.Error("there is a trace context without a trace")
	}
	if _, ok := again["CAPSTAN_LOCALE"]; ok {
		t.Error("there is an empty locale")
	}
}

func TestAToolCannotReplaceOurVariables(t *testing.T) {
	p := testParams()
	p.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.Tool.Job.Env = []v1alpha1.EnvVar{
		{Name: "CAPSTAN_LAUNCHER_TIMEOUT", Value: "100h"},
		{Name: "CAPSTAN_ARG_TEXT", Value: "x"},
		{Name: "TRACEPARENT", Value: "x"},
		{Name: "OWN", Value: "$(LANG)"},
	}
	values := environment(t, Build(p))
	if values[result.EnvTimeout] != "5m0s" || values["TRACEPARENT"] != p.TraceParent || values["OWN"] != "$(LANG)" {
		t.Errorf("the environment is %v", values)
	}
	if _, ok := values["CAPSTAN_ARG_TEXT"]; ok {
		t.Error("a Tool set the variable of an argument")
	}
	p.TraceParent = ""
	if got := environment(t, Build(p))["TRACEPARENT"]; got != "x" {
		t.Errorf("a Tool's own trace context is %q", got)
	}
}

// expand does to a value what a kubelet does to it.
func expand(value string) string {
	return regexp.MustCompile(`\$\$|\$\([^)]*\)`).ReplaceAllStringFunc(value, func(found string) string {
		if found == "$$" {
			return "$"
		}
		return "EXPANDED"
	})
}

func TestTheKubeletExpandsNothingOfOurs(t *testing.T) {
	p := testParams()
	names := []string{"$(CAPSTAN_TURN)", "$$(CAPSTAN_TURN)", "$", "$$$(X)", "a"}
	properties := map[string]any{}
	for _, name := range names {
		properties[name] = map[string]any{"type": "string"}
	}
	schema, err := json.Marshal(map[string]any{"properties": properties})
	if err != nil {
		t.Fatal(err)
	}
	p.Tool.InputSchema = &v1alpha1.JSON{Raw: schema}
	var got []string
	if err := json.Unmarshal([]byte(expand(environment(t, Build(p))[result.EnvScalars])), &got); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("the launcher gets %q, want %q", got, names)
	}
}

func TestTimeoutsAreThoseThatWerePinned(t *testing.T) {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	spec := &v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{Timeout: duration(time.Minute), StartTimeout: duration(time.Hour)}}
	for name, c := range map[string]struct {
		call       v1alpha1.ToolCall
		tool       *v1alpha1.ToolSpec
		start, run time.Duration
	}{
		"the defaults":      {v1alpha1.ToolCall{}, nil, 2 * time.Minute, 5 * time.Minute},
		"an empty Tool":     {v1alpha1.ToolCall{}, &v1alpha1.ToolSpec{}, 2 * time.Minute, 5 * time.Minute},
		"the Tool's":        {v1alpha1.ToolCall{}, spec, time.Hour, time.Minute},
		"the pinned one":    {v1alpha1.ToolCall{Timeout: duration(time.Second)}, spec, time.Hour, time.Second},
		"pinned to nothing": {v1alpha1.ToolCall{Timeout: duration(0)}, spec, time.Hour, time.Minute},
	} {
		if start, run := Timeouts(c.call, c.tool); start != c.start || run != c.run {
			t.Errorf("%s: %v and %v", name, start, run)
		}
	}
}

func TestAJobThatIsNotTheCallsOwnDoesNotMatch(t *testing.T) {
	p := testParams()
	if !Matches(Build(p), turnUID, p.Call) {
		t.Error("the call's own Job does not match")
	}
	other := p.Call
	other.Fingerprint = tool.Fingerprint("word-count", `{"text": "y"}`)
	if Matches(Build(p), turnUID, other) || Matches(Build(p), "another", p.Call) {
		t.Error("a Job of another call or Turn matches")
	}
	stray := Build(p)
	stray.OwnerReferences = nil
	if Matches(stray, turnUID, p.Call) {
		t.Error("a Job without an owner matches")
	}
}

func TestAToolWithoutASchemaHasNoScalars(t *testing.T) {
	p := testParams()
	p.Tool.InputSchema = nil
	if got := environment(t, Build(p))[result.EnvScalars]; got != "[]" {
		t.Errorf("without a schema the launcher gets %q", got)
	}
}
