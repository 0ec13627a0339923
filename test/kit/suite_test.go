// Package kit_test shows that capstantest keeps what it promises to those who test their own agents: the clock, and
// every fault.
package kit_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/passes"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

func TestKit(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Kit")
}

// start is the first time of the kit's clock: not the present, so that code that mixes up the two fails.
var start = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

var (
	config *rest.Config
	kit    *capstantest.Kit
	clock  *capstantest.Clock
	tools  = &suite.Jobs{}
	// reconciled counts the passes of the controllers.
	reconciled = &passes.Counter{}
)

var _ = BeforeSuite(func(context.Context) {
	suite.Configure(reconciled.Count(suite.Logger()), 20*time.Second, suite.Polling)
	config = suite.Start().Config
	shop = newStore()
	DeferCleanup(shop.Close)
	toolServer = startToolServer()
	clock = capstantest.NewClock(start)
	var err error
	kit, err = capstantest.Start(context.Background(), config, capstantest.Options{
		Clock: clock, Jobs: tools.Run, Prompts: func(p capstantest.Prompt) { archives.asked(p.System) },
		EgressRoots: shop.roots(), EgressAllow: loopback, OnSpan: spans.add,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
})

// begin creates a namespace with a Turn whose model calls the tool once and responds with the tool result.
func begin(ctx context.Context, tool *v1alpha1.Tool) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	beginIn(ctx, namespace, tool)
	return namespace
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return suite.Namespace(ctx, kit.Client, "kit-")
}

// beginIn does so in a namespace that is there.
func beginIn(ctx context.Context, namespace string, tool *v1alpha1.Tool) {
	GinkgoHelper()
	script := builder.Script("The result: {{tool:"+tool.Name+"}}", builder.Calls(tool.Name))
	for _, object := range []client.Object{
		builder.Model("scripted").Simulated(script).Obj(),
		tool,
		builder.Harness("base").Model("scripted").Tools(tool.Name).Obj(),
		builder.Session("demo").Obj(),
		builder.Turn("demo-1").Input("Go.").Obj(),
	} {
		object.SetNamespace(namespace)
		Expect(kit.Client.Create(ctx, object)).To(Succeed())
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// worker is a tool that may start for two minutes and run for five.
func worker(class v1alpha1.SideEffect) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: named("work"),
		Spec: v1alpha1.ToolSpec{
			Description: "Works.",
			SideEffect:  class,
			Job:         &v1alpha1.JobTool{Image: "example.org/work:1", Command: []string{"/work"}},
		},
	}
}

// turn reads the Turn of a namespace.
func turn(ctx context.Context, namespace string) func() (*v1alpha1.Turn, error) {
	return kit.Turn(ctx, namespace, "demo-1")
}
