package upgrade_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// recordTo names the directory that the recorder writes to. Without it nothing is recorded.
//
//	CAPSTAN_RECORD_UPGRADE=testdata/<build> go test ./test/upgrade
//
// runs with the build that is to be left behind: with this file put into a work tree of it.
const recordTo = "CAPSTAN_RECORD_UPGRADE"

// scene is a moment at which a manager is taken away.
type scene struct {
	name       string
	simulation v1alpha1.Simulation
	tools      []*v1alpha1.Tool
	turns      []string
	// hold keeps requests of the controllers from being carried out.
	hold func(*http.Request) bool
	// results are given once the Turn waits for them.
	results []*v1alpha1.ToolResult
	// reached reports whether the moment has come.
	reached func(context.Context, *recorder) bool
}

// recorder observes a scene.
type recorder struct {
	kit       *capstantest.Kit
	namespace string
}

func (r *recorder) turn(ctx context.Context, name string) *v1alpha1.Turn {
	turn, err := r.kit.Turn(ctx, r.namespace, name)()
	Expect(err).NotTo(HaveOccurred())
	return turn
}

func (r *recorder) pods(ctx context.Context) []corev1.Pod {
	var pods corev1.PodList
	Expect(r.kit.Client.List(ctx, &pods, client.InNamespace(r.namespace))).To(Succeed())
	return pods.Items
}

func scenes() []scene {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	job := func(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
		return &v1alpha1.Tool{ObjectMeta: meta(name), Spec: v1alpha1.ToolSpec{
			Description: "Works.",
			SideEffect:  class,
			Job: &v1alpha1.JobTool{
				Image:   "example.org/tool:1",
				Command: []string{"/tool"},
				Timeout: &metav1.Duration{Duration: time.Hour},
			},
		}}
	}
	ask := builder.ClientTool("ask").Obj()
	calls := func(names ...string) v1alpha1.Simulation {
		var step v1alpha1.SimulatedStep
		for _, name := range names {
			step.Calls = append(step.Calls, v1alpha1.SimulatedToolCall{Name: name})
		}
		return v1alpha1.Simulation{
			Response:  builder.Fixed("The answer."),
			ToolCalls: &v1alpha1.SimulatedToolCalls{Sequence: []v1alpha1.SimulatedStep{step, {}}},
		}
	}
	slow := calls()
	slow.Latency = &metav1.Duration{Duration: time.Hour}
	both := []*v1alpha1.Tool{job("once", v1alpha1.SideEffectAtMostOnce), job("pure", v1alpha1.SideEffectPure)}
	text := "Yes."
	return []scene{
		{
			name: "reasoning", simulation: slow, turns: []string{"demo-1", "demo-2"},
			reached: func(ctx context.Context, r *recorder) bool {
				return r.turn(ctx, "demo-1").Status.Phase == v1alpha1.TurnPhaseReason
			},
		},
		{
			name: "planned", simulation: calls("once", "pure"), tools: both, turns: []string{"demo-1"},
			hold: func(q *http.Request) bool {
				return q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/jobs")
			},
			reached: func(ctx context.Context, r *recorder) bool {
				return r.turn(ctx, "demo-1").Status.Phase == v1alpha1.TurnPhaseAct
			},
		},
		{
			name: "gated", simulation: calls("once"), tools: both, turns: []string{"demo-1"},
			hold: func(q *http.Request) bool {
				return q.Method == http.MethodPatch && strings.Contains(q.URL.Path, "/pods/")
			},
			reached: func(ctx context.Context, r *recorder) bool {
				turn := r.turn(ctx, "demo-1")
				return len(turn.Status.ToolCalls) == 1 && turn.Status.ToolCalls[0].PodUID != ""
			},
		},
		{
			name: "running", simulation: calls("once", "pure"), tools: both, turns: []string{"demo-1"},
			reached: func(ctx context.Context, r *recorder) bool {
				running := func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }
				turn := r.turn(ctx, "demo-1")
				shown := func(c v1alpha1.ToolCall) bool { return c.State == v1alpha1.ToolCallStateRunning }
				pods := r.pods(ctx)
				return len(pods) == 2 && running(pods[0]) && running(pods[1]) &&
					!slices.ContainsFunc(turn.Status.ToolCalls, func(c v1alpha1.ToolCall) bool { return !shown(c) })
			},
		},
		{
			name: "waiting", simulation: calls("ask", "ask"), tools: []*v1alpha1.Tool{ask}, turns: []string{"demo-1", "demo-2"},
			results: []*v1alpha1.ToolResult{{ObjectMeta: meta("first"), Spec: v1alpha1.ToolResultSpec{
				TurnRef: v1alpha1.TurnReference{Name: "demo-1"}, CallID: "1-0", Result: &text,
			}}},
			reached: func(ctx context.Context, r *recorder) bool {
				turn := r.turn(ctx, "demo-1")
				return turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults &&
					turn.Status.ToolCalls[0].State == v1alpha1.ToolCallStateSucceeded
			},
		},
		{
			name: "finished", simulation: calls("once", "pure"), tools: both, turns: []string{"demo-1"},
			reached: func(ctx context.Context, r *recorder) bool {
				session := &v1alpha1.Session{}
				Expect(r.kit.Client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: "demo"}, session)).To(Succeed())
				return session.Status.Phase == v1alpha1.SessionPhaseIdle
			},
		},
	}
}

// held does not carry out the requests that a scene holds.
type held struct {
	next http.RoundTripper
	hold func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (h held) RoundTrip(q *http.Request) (*http.Response, error) {
	if h.hold != nil && h.hold(q) {
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	return h.next.RoundTrip(q)
}

var _ = Describe("The recorder", Ordered, func() {
	directory := os.Getenv(recordTo)
	if directory == "" {
		return
	}
	for _, s := range scenes() {
		It("records the scene "+s.name, func(ctx context.Context) {
			kit, err := capstantest.Start(ctx, config, capstantest.Options{
				Transport: func(next http.RoundTripper) http.RoundTripper { return held{next, s.hold} },
				Jobs: func(c capstantest.Call) (string, string, int) {
					if s.name != "finished" {
						<-c.Context.Done()
					}
					return "worked", "", 0
				},
			})
			Expect(err).NotTo(HaveOccurred())
			r := &recorder{kit: kit, namespace: "upgrade-" + s.name}
			s.play(ctx, r)
			recorded := r.dump(ctx)
			Expect(os.MkdirAll(directory, 0o755)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(directory, s.name+".yaml"), recorded, 0o644)).To(Succeed())
			go func() { _ = kit.Stop() }()
		})
	}
})

// play brings the scene to its moment.
func (s scene) play(ctx context.Context, r *recorder) {
	GinkgoHelper()
	create := func(o client.Object) {
		o.SetNamespace(r.namespace)
		Expect(r.kit.Client.Create(ctx, o)).To(Succeed())
	}
	Expect(r.kit.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}})).To(Succeed())
	var tools []*v1alpha1.Tool
	for _, tool := range s.tools {
		tools = append(tools, tool.DeepCopy())
	}
	for _, object := range builder.Stage(r.namespace, s.simulation, tools...) {
		create(object)
	}
	create(builder.Session("demo").Obj())
	for _, name := range s.turns {
		create(builder.Turn(name).Input("Hello from " + name).Obj())
	}
	for _, result := range s.results {
		create(result)
	}
	Eventually(func() bool { return s.reached(ctx, r) }).WithTimeout(time.Minute).Should(BeTrue())
}

// recordedKinds are the kinds that a scene is made of, in the order in which they can be created again.
var recordedKinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind(
		"Model",
	),
	v1alpha1.GroupVersion.WithKind("Tool"),
	v1alpha1.GroupVersion.WithKind("Harness"),
	v1alpha1.GroupVersion.WithKind(
		"Session",
	),
	v1alpha1.GroupVersion.WithKind("Turn"),
	v1alpha1.GroupVersion.WithKind("ToolResult"),
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "Pod"},
	v1alpha1.GroupVersion.WithKind("JournalEntry"),
}

// dump returns the objects of the scene as YAML.
func (r *recorder) dump(ctx context.Context) []byte {
	GinkgoHelper()
	var out bytes.Buffer
	for _, kind := range recordedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(r.kit.Client.List(ctx, list, client.InNamespace(r.namespace))).To(Succeed())
		for _, object := range list.Items {
			for _, field := range []string{"managedFields", "resourceVersion", "generation", "creationTimestamp"} {
				unstructured.RemoveNestedField(object.Object, "metadata", field)
			}
			text, err := yaml.Marshal(object.Object)
			Expect(err).NotTo(HaveOccurred())
			fmt.Fprintf(&out, "---\n%s", text)
		}
	}
	return out.Bytes()
}
