package configsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// server is an API server that counts the objects which are read, and those which lists return.
type server struct {
	client.WithWatch
	reads, listed int
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(
		v1alpha1.AddToScheme(scheme),
		batchv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme),
	); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	s.WithWatch = interceptor.NewClient(
		builder.Build(),
		interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
			) error {
				s.reads++
				return c.Get(ctx, key, o, options...)
			},
			List: func(
				ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
			) error {
				err := c.List(ctx, list, options...)
				s.listed += meta.LenList(list)
				return err
			},
		},
	)
	return s
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1}
}

func longTool(text string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: named("t"),
		Spec:       v1alpha1.ToolSpec{Description: text, Client: &v1alpha1.ClientTool{}},
	}
}

// leftOut is a Tool as the cache has it.
func leftOut(t *v1alpha1.Tool) *v1alpha1.Tool {
	cached := t.DeepCopy()
	definition.LeaveOut(cached)
	return cached
}

// withoutPrompts is the cache of a server.
func withoutPrompts(s *server) client.Reader {
	return interceptor.NewClient(s.WithWatch, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, o, options...)
			switch o := o.(type) {
			case *v1alpha1.Harness:
				config.LeaveOutPrompt(&o.Spec.ConfigLayer)
				config.LeaveOutFiles(&o.Spec.ConfigLayer)
			case *v1alpha1.Capability:
				config.LeaveOutCapability(o)
			case *v1alpha1.Agent:
				config.LeaveOutPrompt(&o.Spec.ConfigLayer)
				config.LeaveOutFiles(&o.Spec.ConfigLayer)
			}
			return err
		},
	})
}

var long = strings.Repeat("x", 64<<10)

func TestATextIsReadOnceForEachGeneration(t *testing.T) {
	whole := longTool(long)
	s := newServer(t, whole)
	texts := NewTexts(s, nil, 16<<20)
	for range 3 {
		got, err := texts.Tool(t.Context(), leftOut(whole))
		if err != nil || got.Spec.Description != long || got.UID != whole.UID || got.Generation != 1 {
			t.Fatalf("read %+v, %v", got, err)
		}
		got.Spec.Description = "changed by the reader"
	}
	if s.reads != 1 {
		t.Errorf("%d reads, want 1", s.reads)
	}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(whole), whole); err != nil {
		t.Fatal(err)
	}
	behind := leftOut(whole)
	whole.Spec.Description, whole.Generation = long+"2", 2
	if err := s.Update(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	s.reads = 0
	for _, cached := range []*v1alpha1.Tool{leftOut(whole), leftOut(whole)} {
		if got, err := texts.Tool(t.Context(), cached); err != nil || got.Spec.Description != long+"2" {
			t.Errorf("read %d bytes of the new generation, %v", len(got.Spec.Description), err)
		}
	}
	if s.reads != 1 {
		t.Errorf("%d reads of the new generation, want 1", s.reads)
	}
	if got, err := texts.Tool(t.Context(), behind); err != nil || got.Generation != 2 {
		t.Errorf("a cache that is behind gets %+v, %v, want what the API server has", got.ObjectMeta, err)
	}
}

func TestAnObjectThatIsGoneOrReplacedHasNoTexts(t *testing.T) {
	cached := leftOut(longTool(long))
	if got, err := NewTexts(newServer(t), nil, 1<<20).Tool(t.Context(), cached); !apierrors.IsNotFound(err) {
		t.Errorf("of a Tool that was deleted: %v, %v", got, err)
	}
	other := longTool(long)
	other.UID = "another"
	if got, err := NewTexts(newServer(t, other), nil, 1<<20).Tool(t.Context(), cached); err == nil {
		t.Errorf("of a Tool that was replaced: %v", got)
	}
}

func TestWholeObjectsAreNotRead(t *testing.T) {
	var none *Texts
	definition, m := longTool("short"), &v1alpha1.Model{ObjectMeta: named("m")}
	if got, err := none.Tool(t.Context(), definition); err != nil || got != definition {
		t.Errorf("the Tool is %v, %v", got, err)
	}
	if got, err := none.Model(t.Context(), m); err != nil || got != m {
		t.Errorf("the Model is %v, %v", got, err)
	}
}

func TestAScriptIsRead(t *testing.T) {
	m := &v1alpha1.Model{ObjectMeta: named("m"), Spec: v1alpha1.ModelSpec{Simulation: &v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: long},
	}}}
	texts := NewTexts(newServer(t, m), nil, 16<<20)
	cached := m.DeepCopy()
	model.LeaveOut(cached)
	got, err := texts.Model(t.Context(), cached)
	if err != nil || got.Spec.Simulation.Response.Text != long || got.Name != "m" || got.Namespace != "ns" {
		t.Errorf("read %+v, %v", got, err)
	}
}

// The folded prompt is that of whole objects, whichever of the layers are long.
func TestThePromptOfAllLayersIsRead(t *testing.T) {
	text := func(name string, isLong bool) v1alpha1.ConfigLayer {
		if isLong {
			return v1alpha1.ConfigLayer{SystemPrompt: "  " + name + " " + long + "\n"}
		}
		return v1alpha1.ConfigLayer{SystemPrompt: name}
	}
	for longOnes := range 1 << 4 {
		t.Run(fmt.Sprintf("%04b", longOnes), func(t *testing.T) {
			isLong := func(i int) bool { return longOnes&(1<<i) != 0 }
			root := &v1alpha1.Harness{
				ObjectMeta: named("root"),
				Spec:       v1alpha1.HarnessSpec{ConfigLayer: text("root", isLong(0))},
			}
			leaf := &v1alpha1.Harness{ObjectMeta: named("leaf"), Spec: v1alpha1.HarnessSpec{
				ConfigLayer: text("leaf", isLong(1)), ParentRef: &v1alpha1.LocalReference{Name: "root"},
			}}
			agent := &v1alpha1.Agent{ObjectMeta: named("agent"), Spec: v1alpha1.AgentSpec{ConfigLayer: text("agent", isLong(2))}}
			session := &v1alpha1.Session{ObjectMeta: named("session"), Spec: v1alpha1.SessionSpec{
				ConfigLayer: text("session", isLong(3)), HarnessRef: v1alpha1.LocalReference{Name: "leaf"},
				AgentRef: &v1alpha1.LocalReference{Name: "agent"},
			}}
			live := newServer(t, root, leaf, agent, session)
			want, err := Session(t.Context(), live, session)
			if err != nil {
				t.Fatal(err)
			}
			resolved, err := Session(t.Context(), withoutPrompts(live), session)
			if err != nil {
				t.Fatal(err)
			}
			config.LeaveOutPrompt(&session.Spec.ConfigLayer)
			live.reads = 0
			got, err := NewTexts(live, nil, 16<<20).Of(resolved, session).Prompt(t.Context())
			if err != nil || got != want.Effective.SystemPrompt {
				t.Errorf("the prompt has %d bytes, want %d: %v", len(got), len(want.Effective.SystemPrompt), err)
			}
			reads := 0
			for i := range 4 {
				if isLong(i) {
					reads++
				}
			}
			if live.reads != reads {
				t.Errorf("%d reads, want %d", live.reads, reads)
			}
		})
	}
}

// Rules: CFG-06.
func TestTheInitialFilesOfAllLayersAreRead(t *testing.T) {
	layer := func(files ...v1alpha1.InitialFile) v1alpha1.ConfigLayer {
		return v1alpha1.ConfigLayer{InitialFiles: files}
	}
	root := &v1alpha1.Harness{ObjectMeta: named("root"), Spec: v1alpha1.HarnessSpec{
		ConfigLayer: layer(v1alpha1.InitialFile{Path: "/a", Content: "root"}, v1alpha1.InitialFile{Path: "/b"}),
	}}
	leaf := &v1alpha1.Harness{ObjectMeta: named("leaf"), Spec: v1alpha1.HarnessSpec{
		ParentRef: &v1alpha1.LocalReference{Name: "root"},
	}}
	agent := &v1alpha1.Agent{ObjectMeta: named("agent"), Spec: v1alpha1.AgentSpec{
		ConfigLayer: layer(v1alpha1.InitialFile{Path: "/workspace/a", Content: "agent"}),
	}}
	session := &v1alpha1.Session{ObjectMeta: named("session"), Spec: v1alpha1.SessionSpec{
		ConfigLayer: layer(v1alpha1.InitialFile{Path: "c", Content: "session"}),
		HarnessRef:  v1alpha1.LocalReference{Name: "leaf"}, AgentRef: &v1alpha1.LocalReference{Name: "agent"},
	}}
	live := newServer(t, root, leaf, agent, session)
	cached := session.DeepCopy()
	config.LeaveOutFiles(&cached.Spec.ConfigLayer)
	resolved, err := Session(t.Context(), withoutPrompts(live), cached)
	if err != nil || !config.FilesLeftOut(resolved.Effective.InitialFiles) {
		t.Fatalf("the cache has %+v, %v", resolved.Effective.InitialFiles, err)
	}
	live.reads = 0
	texts := NewTexts(live, nil, 16<<20).Of(resolved, cached)
	files, err := texts.InitialFiles(t.Context())
	got := ""
	for _, file := range files {
		got += file.Path + "=" + file.Content + " "
	}
	if err != nil || got != "/a=agent /b= /c=session " || live.reads != 3 {
		t.Errorf("read %q with %d reads, %v", got, live.reads, err)
	}
	if err := live.Delete(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	if _, err := texts.InitialFiles(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("without the Agent: %v", err)
	}
}

// Rules: CAP-04, CFG-06.
func TestTheLongTextsOfACapabilityAreRead(t *testing.T) {
	bundle := &v1alpha1.Capability{ObjectMeta: named("bundle"), Spec: v1alpha1.CapabilitySpec{
		SystemPrompt: long,
		InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: "bundle"}, {Path: "/b", Content: long}},
	}}
	harness := &v1alpha1.Harness{ObjectMeta: named("base"), Spec: v1alpha1.HarnessSpec{ConfigLayer: v1alpha1.ConfigLayer{
		Capabilities: []v1alpha1.CapabilityReference{{Name: "bundle"}},
		InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: "base"}},
	}}}
	session := &v1alpha1.Session{ObjectMeta: named("session"), Spec: v1alpha1.SessionSpec{
		HarnessRef: v1alpha1.LocalReference{Name: "base"},
	}}
	live := newServer(t, bundle, harness, session)
	resolved, err := Session(t.Context(), withoutPrompts(live), session)
	if err != nil {
		t.Fatal(err)
	}
	if prompts := resolved.Prompts(); len(prompts) != 1 || !leftout.Is(prompts[0].Text) {
		t.Fatalf("the cache has %+v", prompts)
	}
	texts := NewTexts(live, nil, 16<<20).Of(resolved, session)
	live.reads = 0
	for range 2 {
		if prompt, err := texts.CapabilityPrompt(t.Context(), "bundle"); prompt != long || err != nil || live.reads != 1 {
			t.Errorf("read %d bytes with %d reads, %v", len(prompt), live.reads, err)
		}
	}
	files, err := texts.InitialFiles(t.Context())
	if err != nil || len(files) != 2 || files[0].Content != "base" || files[1].Content != long {
		t.Errorf("read %d files, %v", len(files), err)
	}
	if _, err := texts.CapabilityPrompt(t.Context(), "other"); err == nil {
		t.Error("a Capability that the Session does not have is read")
	}
}
