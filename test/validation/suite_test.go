// Package validation_test checks Capstan's CustomResourceDefinitions at a real API server: every rule has an object
// that is accepted and one that is rejected with the message that a user sees, and a spec compares the list of rules
// with the schemas.
package validation_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

const (
	// dryRunNamespace only ever sees requests that store nothing, so names may be used again and again.
	dryRunNamespace = "dry-run"
	// storedNamespace holds the objects that must exist.
	storedNamespace = "stored"
	fieldOwner      = "validation-test"
)

var (
	server *suite.Server
	api    client.Client
	scheme = runtime.NewScheme()
)

func TestValidation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Validation of the API")
}

var _ = BeforeSuite(func(ctx context.Context) {
	ctrl.SetLogger(GinkgoLogr)
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(capstanv1alpha1.AddToScheme(scheme)).To(Succeed())

	server = suite.StartWithKinds()
	var err error
	api, err = client.New(server.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{dryRunNamespace, storedNamespace} {
		Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
})
