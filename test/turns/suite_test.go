// Package turns_test runs Turns against a real API server, with the real controllers and the kit that users have for
// their own tests.
package turns_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

func TestTurns(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Turns")
}

var (
	server   *suite.Server
	config   *rest.Config
	kit      *capstantest.Kit
	requests *requestLog
	jobs     = &suite.Jobs{}
	prompts  = &promptLog{}
)

var _ = BeforeSuite(func(context.Context) {
	suite.Configure(reconciled.Count(suite.Logger(managerLog)), 30*time.Second, suite.Polling)
	server = suite.Start()
	config = server.Config
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
		Jobs:         jobs.Run,
		Transport:    requests.wrap,
		Prompts:      prompts.note,
		Providers:    providers.All(),
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
		separate = suite.Start().Config
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
	GinkgoHelper()
	namespace := suite.Namespace(ctx, kit.Client, "turns-")
	create(ctx, builder.Stage(namespace, simulation, tools...)...)
	return namespace
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	suite.Create(ctx, kit.Client, objects...)
}
