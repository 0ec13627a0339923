// Package perf_test measures what Capstan costs on a real API server when there is much of it.
package perf_test

import (
	"context"
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
	"github.com/capstan-dev/capstan/test/internal/passes"
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
	ctrl.SetLogger(reconciled.Count(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true))))
	config = apiserver.Start().Config
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
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "perf-"}}
	create(ctx, namespace)
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace.Name, Name: name} }
	model := &v1alpha1.Model{
		ObjectMeta: in("simulated"),
		Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &script},
	}
	model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	create(ctx, model)
	harness := &v1alpha1.Harness{ObjectMeta: in("base")}
	for _, tool := range tools {
		tool.Namespace = namespace.Name
		create(ctx, tool)
		harness.Spec.Tools = append(harness.Spec.Tools, v1alpha1.LocalReference{Name: tool.Name})
	}
	create(ctx, harness)
	return namespace.Name
}

func newSession(namespace, name string) *v1alpha1.Session {
	return &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
	}
}

func newTurn(namespace, session, name string) *v1alpha1.Turn {
	return &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: session}, Input: "Please."},
	}
}

func create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(kit.Client.Create(ctx, object)).To(Succeed())
}

// phases says how many Turns of a namespace are in each phase.
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

// show puts a measurement into the report whatever becomes of the spec.
func show(what string, value any) {
	AddReportEntry(what, ReportEntryVisibilityAlways, value)
}

// took is the time since then, for people to read.
func took(since time.Time) string {
	return time.Since(since).Round(time.Millisecond).String()
}
