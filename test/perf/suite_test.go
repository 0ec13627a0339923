// Package perf_test measures what Capstan costs on a real API server when there is much of it.
package perf_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/passes"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// reconciled names in a failure the objects whose passes were not to come.
var reconciled = &passes.Counter{}

func TestPerf(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Perf")
}

var (
	config *rest.Config
	kit    *capstantest.Kit
)

var _ = BeforeSuite(func() {
	ctrl.SetLogger(reconciled.Count(suite.Logger()))
	config = suite.Start().Config
	config.QPS = -1
})

// start starts the controllers. Their requests are counted.
func start(requests *traffic) {
	GinkgoHelper()
	var err error
	kit, err = capstantest.Start(context.Background(), config, capstantest.Options{Transport: requests.wrap})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kit.Stop)
}

// newNamespace returns a namespace with a model that follows the script, the Tools, and a Harness that offers them.
func newNamespace(ctx context.Context, script v1alpha1.Simulation, tools ...*v1alpha1.Tool) string {
	GinkgoHelper()
	namespace := suite.Namespace(ctx, kit.Client, "perf-")
	create(ctx, builder.Stage(namespace, script, tools...)...)
	return namespace
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	suite.Create(ctx, kit.Client, objects...)
}

// phases returns a function that counts the Turns of a namespace by phase.
func phases(ctx context.Context, namespace string) func() (map[v1alpha1.TurnPhase]int, error) {
	return func() (map[v1alpha1.TurnPhase]int, error) {
		var turns v1alpha1.TurnList
		err := kit.Client.List(ctx, &turns, client.InNamespace(namespace))
		counts := map[v1alpha1.TurnPhase]int{}
		for i := range turns.Items {
			counts[turns.Items[i].Status.Phase]++
		}
		return counts, err
	}
}

// show adds a measurement to the report, also if the spec fails.
func show(what string, value any) {
	AddReportEntry(what, ReportEntryVisibilityAlways, value)
}

// took is the time since then, for people to read.
func took(since time.Time) string {
	return time.Since(since).Round(time.Millisecond).String()
}
