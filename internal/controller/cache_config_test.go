package controller

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// longText returns a text that shares no memory with another one.
func longText(size int) string { return string(bytes.Repeat([]byte("x"), size)) }

// longTexts returns as many different names for items as the API server takes, with long values.
func longTexts(count, size int) []string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = longText(size)
	}
	return texts
}

func largeLayer() v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{
		SystemPrompt: longText(256 << 10),
		InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: longText(256 << 10)}},
	}
}

// largeTool is a Tool of more than 1 MiB that runs as a Job.
func largeTool() *v1alpha1.Tool {
	schema := `{"description":"` + strings.Repeat("x", 30<<10) + `","properties":{"q":{"type":"string"}},"type":"object"}`
	t := &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{
		Description: strings.Repeat("d", 4096), InputSchema: &v1alpha1.JSON{Raw: []byte(schema)},
		Job: &v1alpha1.JobTool{
			Image: "tool", Command: longTexts(64, 4096), Args: longTexts(64, 4096), Network: v1alpha1.NetworkReachNone,
			ImagePullSecrets: []v1alpha1.LocalReference{{Name: "pull"}, {Name: "another"}},
			Resources:        &v1alpha1.JobResources{Limits: corev1.ResourceList{}},
		},
	}}
	for i := range 32 {
		t.Spec.Job.Env = append(t.Spec.Job.Env, v1alpha1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: longText(16 << 10)})
	}
	t.Spec.Job.Env[30].Value, t.Spec.Job.Env[30].SecretKeyRef = "", &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}
	return t
}

// largeHTTPTool is a Tool with long headers.
func largeHTTPTool() *v1alpha1.Tool {
	t := &v1alpha1.Tool{Spec: v1alpha1.ToolSpec{Description: "d", HTTP: &v1alpha1.HTTPTool{URL: "https://example.org/v1"}}}
	for i := range 32 {
		value := longText(4096)
		t.Spec.HTTP.Headers = append(t.Spec.HTTP.Headers, v1alpha1.HTTPHeader{Name: fmt.Sprintf("H%d", i), Value: &value})
	}
	return t
}

// largeModel is a simulated Model whose script has the longest texts that the API server takes in one object.
func largeModel() *v1alpha1.Model {
	return &v1alpha1.Model{
		Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeSequence, Texts: longTexts(16, 64<<10)},
		}},
	}
}

// largeObjects make one object of each kind as large as a user, or the Tool of a user, can.
func largeObjects() map[string]func() client.Object {
	return map[string]func() client.Object{
		"Harness":   func() client.Object { return &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{ConfigLayer: largeLayer()}} },
		"Agent":     func() client.Object { return &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{ConfigLayer: largeLayer()}} },
		"Session":   func() client.Object { return &v1alpha1.Session{Spec: v1alpha1.SessionSpec{ConfigLayer: largeLayer()}} },
		"Tool":      func() client.Object { return largeTool() },
		"HTTP Tool": func() client.Object { return largeHTTPTool() },
		"Model":     func() client.Object { return largeModel() },
		"Turn":      func() client.Object { return &v1alpha1.Turn{Spec: v1alpha1.TurnSpec{Input: longText(256 << 10)}} },
		"ToolResult": func() client.Object {
			text := longText(256 << 10)
			return &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{Result: &text}}
		},
		"Capability": func() client.Object {
			schema := `{"type":"object","description":"` + longText(64<<10) + `"}`
			return &v1alpha1.Capability{Spec: v1alpha1.CapabilitySpec{
				SystemPrompt: longText(64 << 10), InitialFiles: largeLayer().InitialFiles,
				ConfigSchema: &v1alpha1.JSON{Raw: []byte(schema)},
			}}
		},
		"Job":           func() client.Object { return &batchv1.Job{Spec: batchv1.JobSpec{Template: largeTemplate()}} },
		"pod":           func() client.Object { return &corev1.Pod{Spec: largeTemplate().Spec} },
		"with labels":   func() client.Object { return &v1alpha1.Session{ObjectMeta: largeMetadata()} },
		"Job, labels":   func() client.Object { return &batchv1.Job{ObjectMeta: largeMetadata()} },
		"Model, labels": func() client.Object { return &v1alpha1.Model{ObjectMeta: largeMetadata()} },
	}
}

// largeTemplate is the pod of a large Tool.
func largeTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: longTexts(64, 4096)}}}}
}

// largeMetadata has everything that a user may write any number of.
func largeMetadata() metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Labels:        map[string]string{},
		Annotations:   map[string]string{lastApplied: longText(64 << 10), "capstan.dev/any": longText(64 << 10)},
		ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(longText(64 << 10))}},
	}
	for i := range 1000 {
		m.Labels[fmt.Sprintf("capstan.dev/%060d", i)] = strings.Repeat("x", 63)
		m.Finalizers = append(m.Finalizers, fmt.Sprintf("example.org/%060d", i))
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{Name: fmt.Sprintf("%0250d", i)})
	}
	return m
}

// kept passes an object through the transform of its kind.
func kept(options cache.Options, object client.Object) any {
	transform := options.DefaultTransform
	for kind, by := range options.ByObject {
		if reflect.TypeOf(kind) == reflect.TypeOf(object) && by.Transform != nil {
			transform = by.Transform
		}
	}
	got, err := transform(object)
	if err != nil {
		panic(err)
	}
	return got
}

// A tenant that has no quota must not be able to fill the memory of the manager with a few large objects.
func TestLargeObjectsTakeLittleMemory(t *testing.T) {
	options := CacheOptions()
	for name, object := range largeObjects() {
		t.Run(name, func(t *testing.T) {
			hold := func(count int, keep func(client.Object) any) int64 {
				objects := make([]any, count)
				before := heap()
				for i := range objects {
					objects[i] = keep(object())
				}
				// Buffers of encoders are in pools, which the second collection empties.
				runtime.GC()
				held := heap() - before
				runtime.KeepAlive(objects)
				return held
			}
			whole := 10 * hold(20, func(o client.Object) any { return o })
			left := hold(200, func(o client.Object) any { return kept(options, o) })
			t.Logf("200 take %d KiB in the cache, and %d KiB as they are in the API server", left>>10, whole>>10)
			if left > 200*4<<10 || whole < 25*left {
				t.Errorf("200 objects take %d bytes, want at most 4 KiB each; whole, they take %d", left, whole)
			}
		})
	}
}

func TestUsualConfigurationIsKeptWhole(t *testing.T) {
	options := CacheOptions()
	schema := `{"type":"object","description":"` + strings.Repeat("x", 4<<10) + `"}`
	for _, object := range []client.Object{
		&v1alpha1.Session{
			Spec: v1alpha1.SessionSpec{ConfigLayer: v1alpha1.ConfigLayer{SystemPrompt: strings.Repeat("x", 2<<10)}},
		},
		&v1alpha1.Harness{
			Spec: v1alpha1.HarnessSpec{ConfigLayer: v1alpha1.ConfigLayer{SystemPrompt: strings.Repeat("x", 2<<10)}},
		},
		&v1alpha1.Agent{
			Spec: v1alpha1.AgentSpec{ConfigLayer: v1alpha1.ConfigLayer{SystemPrompt: strings.Repeat("x", 2<<10)}},
		},
		&v1alpha1.Tool{Spec: v1alpha1.ToolSpec{
			Description: strings.Repeat("d", 1<<10), InputSchema: &v1alpha1.JSON{Raw: []byte(schema)},
			Job: &v1alpha1.JobTool{Image: "tool", Command: []string{"run"}, Env: []v1alpha1.EnvVar{{Name: "A", Value: "b"}}},
		}},
		&v1alpha1.Model{Spec: v1alpha1.ModelSpec{Simulation: &v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Text: strings.Repeat("x", 2<<10)},
		}}},
	} {
		if got := kept(options, object.DeepCopyObject().(client.Object)); !reflect.DeepEqual(got, object) {
			t.Errorf("the cache keeps of a usual %T: %+v", object, got)
		}
	}
}

func TestALargeToolIsKeptWithWhatDecisionsNeed(t *testing.T) {
	options := CacheOptions()
	for name, make := range map[string]func() *v1alpha1.Tool{"Job": largeTool, "HTTP": largeHTTPTool} {
		t.Run(name, func(t *testing.T) {
			whole := make()
			want := definition.Digest(&whole.Spec)
			left := kept(options, make()).(*v1alpha1.Tool)
			if got := definition.Digest(&left.Spec); !definition.LeftOut(&left.Spec) || got != want {
				t.Errorf("left out: %v, with the digest %q, want %q", definition.LeftOut(&left.Spec), got, want)
			}
			again := kept(options, left.DeepCopy()).(*v1alpha1.Tool)
			if !reflect.DeepEqual(again, left) {
				t.Errorf("after a relist the cache keeps %+v, want %+v", again.Spec, left.Spec)
			}
			call := v1alpha1.ToolCall{}
			start, run := jobspec.Timeouts(call, &whole.Spec)
			if s, r := jobspec.Timeouts(call, &left.Spec); s != start || r != run {
				t.Errorf("timeouts %s and %s, want %s and %s", s, r, start, run)
			}
			if got, want := definition.Of(left).Timeout, definition.Of(whole).Timeout; !reflect.DeepEqual(got, want) {
				t.Errorf("the timeout of the definition is %v, want %v", got, want)
			}
			var pinned v1alpha1.ToolCall
			definition.Of(whole).Pin(&pinned)
			if !definition.Of(left).Holds(pinned) {
				t.Error("the pin of the whole Tool does not hold for the cached Tool")
			}
		})
	}
	job := kept(options, largeTool()).(*v1alpha1.Tool).Spec.Job
	if job.Network != v1alpha1.NetworkReachNone || len(job.Env) != 1 || job.Env[0].SecretKeyRef == nil ||
		len(job.ImagePullSecrets) != 1 {
		t.Errorf("of the Job the cache keeps %+v", job)
	}
}

func TestALargeModelIsKeptWithoutItsScript(t *testing.T) {
	options := CacheOptions()
	left := kept(options, largeModel()).(*v1alpha1.Model)
	if !model.LeftOut(left) || left.Spec.Provider != v1alpha1.ModelProviderSimulated {
		t.Errorf("the cache keeps %+v", left.Spec)
	}
	if again := kept(options, left.DeepCopy()); !reflect.DeepEqual(again, left) {
		t.Errorf("after a relist the cache keeps %+v, want %+v", again, left)
	}
}

func TestALongPromptIsMarkedOnce(t *testing.T) {
	options := CacheOptions()
	session := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{ConfigLayer: largeLayer(), Title: "t"}}
	left := kept(options, session).(*v1alpha1.Session)
	if leftout.Bytes(left.Spec.SystemPrompt) != 256<<10 {
		t.Errorf("the cache keeps a prompt of %d bytes", len(left.Spec.SystemPrompt))
	}
	if again := kept(options, left.DeepCopy()); !reflect.DeepEqual(again, left) {
		t.Errorf("after a relist the cache keeps %+v, want %+v", again, left)
	}
}

// What a user writes into metadata must not displace what the manager reads there.
func TestMetadataThatIsReadIsKept(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: largeMetadata()}
	job.Labels[v1alpha1.LabelTurnUID], job.Labels[v1alpha1.LabelManagedBy] = "uid", v1alpha1.ManagedByCapstan
	job.Annotations[v1alpha1.AnnotationFingerprint] = strings.Repeat("f", 64)
	controls := true
	job.OwnerReferences = append(
		job.OwnerReferences,
		metav1.OwnerReference{Name: "demo-1", UID: "uid", Controller: &controls},
	)
	job.Spec.Template.Spec.ServiceAccountName = v1alpha1.ToolServiceAccount
	left := kept(CacheOptions(), job).(*batchv1.Job)
	if left.Labels[v1alpha1.LabelTurnUID] != "uid" || left.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByCapstan ||
		len(left.Annotations[v1alpha1.AnnotationFingerprint]) != 64 || len(left.OwnerReferences) != 1 ||
		!metav1.IsControlledBy(left, &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}) ||
		left.Spec.Template.Spec.ServiceAccountName != v1alpha1.ToolServiceAccount {
		t.Errorf(
			"the cache keeps the labels %v, the annotations %v and the owners %v",
			left.Labels,
			left.Annotations,
			left.OwnerReferences,
		)
	}
}

// Texts that the cache lacks must not be removed from the configuration in the API server.
func TestAWriteFromCachedConfigurationLosesNothing(t *testing.T) {
	options := CacheOptions()
	large := largeObjects()
	for _, kind := range []string{"Harness", "Agent", "Session", "Tool", "HTTP Tool", "Model", "with labels"} {
		t.Run(kind, func(t *testing.T) {
			object := large[kind]()
			object.SetNamespace("ns")
			object.SetName("a")
			object.SetManagedFields(nil)
			c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(object).WithStatusSubresource(object).Build()
			stored := func() client.Object {
				t.Helper()
				o := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), o); err != nil {
					t.Fatal(err)
				}
				return o
			}
			before := stored()
			base := kept(options, stored()).(client.Object)
			next := base.DeepCopyObject().(client.Object)
			conditions := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			setConditions(next, conditions)
			if changed, err := status.Patch(t.Context(), c, base, next); err != nil || !changed {
				t.Fatalf("written: %v, %v", changed, err)
			}
			after := stored()
			setConditions(before, conditions)
			before.SetResourceVersion(after.GetResourceVersion())
			if !apiequality.Semantic.DeepEqual(after, before) {
				t.Errorf("after the write the object is another one")
			}
		})
	}
}

func setConditions(object client.Object, conditions []metav1.Condition) {
	reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("Conditions").Set(reflect.ValueOf(conditions))
}
