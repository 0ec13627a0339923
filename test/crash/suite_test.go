// Package crash_test disturbs the real controllers at every request that they make: requests that fail, answers that are lost, processes that
// die or are paused while another takes over. Whatever happens, a conversation must end as it does undisturbed, its log must be whole, and no
// AtMostOnce call may start twice.
package crash_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller"
)

func TestCrash(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Crash")
}

var (
	config *rest.Config
	user   client.WithWatch
	seen   *observer
	tools  = &toolPlayers{}
	web    = newServer()
)

var _ = BeforeSuite(func() {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		Fail("KUBEBUILDER_ASSETS is not set: run the tests with make, or set it to the directory that has etcd and kube-apiserver")
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true), zap.StacktraceLevel(zapcore.PanicLevel)))
	environment := &envtest.Environment{}
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
	DeferCleanup(web.Close)
	config.QPS, config.Burst = -1, 0
	Expect(capstantest.Install(context.Background(), config)).To(Succeed())
	user, err = client.NewWithWatch(config, client.Options{Scheme: controller.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	seen, err = observe(ctx, user)
	Expect(err).NotTo(HaveOccurred())
})

// process is a kit whose connection to the API server the test holds in its hands.
type process struct {
	*capstantest.Kit
	wire *wire
}

// startProcess starts a kit. The one that plays the kubelet must be the only one that does.
func startProcess(playsKubelet bool) *process {
	GinkgoHelper()
	p := &process{wire: newWire()}
	var err error
	p.Kit, err = capstantest.Start(context.Background(), config, capstantest.Options{
		Jobs: tools.run, Transport: p.wire.wrap, NoJobPlayer: !playsKubelet, EgressAllow: loopback, EgressRoots: web.roots(),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(p.Stop()).To(Succeed()) })
	return p
}

// disturbed is one run of a scenario with one fault.
type disturbed struct {
	scenario int
	fault    fault
}

func (d disturbed) String() string {
	return fmt.Sprintf("%s, %s", scenarios[d.scenario].name, d.fault)
}

// report is what several runs found wrong.
type report struct {
	mu   sync.Mutex
	errs []error
}

func (r *report) add(what fmt.Stringer, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Errorf("%s: %w", what, err))
}

func (r *report) expectNothing() {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(errors.Join(r.errs...)).NotTo(HaveOccurred())
}

// undisturbed is what a scenario is like when nothing goes wrong.
type undisturbed struct {
	outcome []string
	writes  []string
	reads   []string
}

// measure runs every scenario undisturbed.
func measure(ctx context.Context, p *process) []undisturbed {
	GinkgoHelper()
	found := make([]undisturbed, len(scenarios))
	for i, s := range scenarios {
		r, err := prepare(ctx, s, user, seen)
		Expect(err).NotTo(HaveOccurred(), s.name)
		r.starts = p.Starts
		p.wire.arm(r.namespace, fault{})
		began := time.Now()
		Expect(r.play(ctx)).To(Succeed(), s.name)
		AddReportEntry(s.name, fmt.Sprint(time.Since(began).Round(time.Millisecond)))
		Expect(r.verify(ctx)).To(Succeed(), s.name)
		found[i].outcome, err = r.outcome(ctx)
		Expect(err).NotTo(HaveOccurred(), s.name)
		found[i].writes = p.wire.counted(r.namespace, writes)
		found[i].reads = p.wire.counted(r.namespace, reads)
		Expect(found[i].writes).NotTo(BeEmpty())
	}
	return found
}

// finish checks a run that has come to its end.
func (r *run) finish(ctx context.Context, want undisturbed) error {
	if err := r.verify(ctx); err != nil {
		return err
	}
	got, err := r.outcome(ctx)
	if err != nil {
		return err
	}
	if r.rivals && r.unknown() {
		return nil
	}
	return difference(want.outcome, got)
}
