//go:build e2e

// Package e2e_test uses Capstan as its users do: with kubectl and a client against a real cluster, in which the manager
// runs as a pod of config/default and tools run in real containers. hack/e2e.sh prepares the cluster and runs the
// suite.
package e2e_test

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// patience is how long a spec waits for what takes a pod or two.
	patience = 60 * time.Second
	// interval is how often it looks.
	interval = 100 * time.Millisecond
	// promptly is how often it looks where the time that something takes is measured.
	promptly = 20 * time.Millisecond
	// specLimit bounds a spec that nothing disturbs.
	specLimit = 2 * time.Minute
	// crashLimit bounds a spec in which the manager dies: the kubelet may wait before it starts a container again.
	crashLimit = 4 * time.Minute
)

// Environment variables of the suite.
const (
	// envKubectl is the kubectl to use. Default: the one on PATH.
	envKubectl = "E2E_KUBECTL"
	// envCLI is the kubectl-capstan to use. Default: the one on PATH.
	envCLI = "E2E_CLI"
	// envHostAddress is the address at which pods reach this process. Default: the first node's internal address.
	envHostAddress = "E2E_HOST_ADDRESS"
	// envRepository is the directory of this repository, whose pages have commands.
	envRepository = "E2E_REPOSITORY"
)

// hereLabel marks the specs that need the node to be this machine: `--label-filter '!here && !load'` leaves them out
// elsewhere.
const hereLabel = "here"

// alone decorates the specs during which no other spec may run, because they end the manager, fill the cluster, or
// measure time. Their label lets hack/e2e.sh run them apart, while the CPUs, which they leave idle, do something else.
var alone = []any{Serial, Label("alone")}

var (
	api       client.WithWatch
	clientset kubernetes.Interface
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Capstan on a real cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(interval)
	EnforceDefaultTimeoutsWhenUsingContexts()
	path := os.Getenv("KUBECONFIG")
	Expect(path).NotTo(BeEmpty(), "KUBECONFIG is not set: run the suite with hack/e2e.sh")
	config, err := clientcmd.BuildConfigFromFlags("", path)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	clientset, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	settled(ctx)
})

var _ = BeforeEach(func() {
	namespaces = nil
	if spec := CurrentSpecReport(); spec.IsSerial {
		Expect(spec.Labels()).To(ContainElement("alone"), "decorate the spec with alone instead of Serial")
	}
})

var _ = AfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		reportFailure(ctx)
	}
}, NodeTimeout(time.Minute))
