// Package turns_test runs Turns against a real API server, with the real controllers and the kit that users have for
// their own tests.
package turns_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/test/internal/apiserver"
)

func TestTurns(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Turns")
}

var (
	config   *rest.Config
	kit      *capstantest.Kit
	requests *requestLog
	jobs     = &jobScripts{}
	prompts  = &promptLog{}
)

var _ = BeforeSuite(func(context.Context) {
	ctrl.SetLogger(reconciled.Count(zap.New(zap.WriteTo(io.MultiWriter(GinkgoWriter, said)), zap.UseDevMode(true))))
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	config = apiserver.Start().Config
	requests = &requestLog{}
	var err error
	kit, err = capstantest.Start(context.Background(), config, kitOptions())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
})

// kitOptions are those of the kit that all specs share, and of one that takes its place. The Jobs outlive the suite: no
// spec is to see how those of another one are cleaned up.
func kitOptions() capstantest.Options {
	return capstantest.Options{
		Jobs:         jobs.run,
		Transport:    requests.wrap,
		Prompts:      prompts.note,
		EgressAllow:  loopback,
		EgressRoots:  testRoots(),
		JobRetention: time.Hour,
	}
}

// onOwnServer gives an Ordered container an API server of its own, on which no manager runs until one is started, and
// then as many as are. Behind each spec, kit is again that of all.
func onOwnServer(options capstantest.Options) (another func() *capstantest.Kit) {
	var separate *rest.Config
	BeforeAll(func() {
		separate = apiserver.Start().Config
	})
	BeforeEach(func() {
		restore := kit
		DeferCleanup(func() { kit = restore })
	})
	return func() *capstantest.Kit {
		GinkgoHelper()
		started, err := capstantest.Start(context.Background(), separate, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })
		return started
	}
}

// newNamespace returns a namespace of the spec's own with a Harness and a Model that the given script drives.
func newNamespace(ctx context.Context, simulation v1alpha1.Simulation, tools ...*v1alpha1.Tool) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "turns-"}}
	Expect(kit.Client.Create(ctx, namespace)).To(Succeed())
	create(ctx, &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace.Name,
			Name:        "simulated",
			Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
		},
		Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &simulation},
	})
	harness := &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "base"}}
	for _, tool := range tools {
		tool.Namespace = namespace.Name
		create(ctx, tool)
		harness.Spec.Tools = append(harness.Spec.Tools, v1alpha1.LocalReference{Name: tool.Name})
	}
	create(ctx, harness)
	return namespace.Name
}

func create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(kit.Client.Create(ctx, object)).To(Succeed())
}

func newSession(namespace, name string) *v1alpha1.Session {
	return &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
	}
}

func newTurn(namespace, session, name, input string) *v1alpha1.Turn {
	return &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: session}, Input: input},
	}
}

func jobTool(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ToolSpec{
			Description: "A tool of the tests.",
			SideEffect:  class,
			Job:         &v1alpha1.JobTool{Image: "capstan.dev/toolbox:test", Command: []string{"/toolbox", name}},
		},
	}
}

func clientTool(name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ToolSpec{Description: "A tool of the client.", Client: &v1alpha1.ClientTool{}},
	}
}

func fixed(text string) *v1alpha1.SimulatedResponse {
	return &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: text}
}

// calling is a script that makes one step of calls after another and then answers with text.
func calling(text string, steps ...[]v1alpha1.SimulatedToolCall) v1alpha1.Simulation {
	sequence := []v1alpha1.SimulatedStep{}
	for _, calls := range steps {
		sequence = append(sequence, v1alpha1.SimulatedStep{Calls: calls})
	}
	sequence = append(sequence, v1alpha1.SimulatedStep{})
	return v1alpha1.Simulation{Response: fixed(text), ToolCalls: &v1alpha1.SimulatedToolCalls{Sequence: sequence}}
}

func call(name string) v1alpha1.SimulatedToolCall {
	return v1alpha1.SimulatedToolCall{Name: name}
}

// jobScripts lets each spec say what the tools of its namespace do.
type jobScripts struct {
	mu      sync.Mutex
	scripts map[string]capstantest.JobRunner
}

func (j *jobScripts) in(namespace string, run capstantest.JobRunner) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.scripts == nil {
		j.scripts = map[string]capstantest.JobRunner{}
	}
	j.scripts[namespace] = run
}

func (j *jobScripts) run(call capstantest.Call) (stdout, stderr string, exit int) {
	j.mu.Lock()
	script := j.scripts[call.Namespace]
	j.mu.Unlock()
	if script == nil {
		return fmt.Sprintf("result of %s", call.ID), "", 0
	}
	return script(call)
}
