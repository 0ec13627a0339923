// Package validation_test asks a real API server what it makes of Capstan's CustomResourceDefinitions: every rule has
// an object that is accepted and one that is rejected with the message that a user sees, and a machine compares the
// list of rules with the schemas.
package validation_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
)

const (
	// dryRunNamespace only ever sees requests that store nothing, so names may be used again and again.
	dryRunNamespace = "dry-run"
	// storedNamespace holds the objects that must exist.
	storedNamespace = "stored"
	fieldOwner      = "validation-test"
)

var (
	environment *envtest.Environment
	api         client.Client
	scheme      = runtime.NewScheme()
	kubeconfig  string
)

func TestValidation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Validation of the API")
}

var _ = BeforeSuite(func(ctx context.Context) {
	logf.SetLogger(GinkgoLogr)
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(),
		"KUBEBUILDER_ASSETS must name the directory of etcd, kube-apiserver and kubectl: run `make test-unit`, which builds them and sets it")

	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(capstanv1alpha1.AddToScheme(scheme)).To(Succeed())

	definitions, err := crd.Definitions()
	Expect(err).NotTo(HaveOccurred())
	environment = &envtest.Environment{CRDs: definitions, Scheme: scheme}
	DeferCleanup(func() error { return environment.Stop() })
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred(), "the API server must start and accept every CustomResourceDefinition")

	api, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{dryRunNamespace, storedNamespace} {
		Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}

	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
})
