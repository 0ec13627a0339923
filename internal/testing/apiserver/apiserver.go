// Package apiserver runs the tests of a package on an API server that has the kinds of Capstan.
package apiserver

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
)

// Run starts the API server, passes its configuration to use, runs the tests and returns the exit code of the process.
func Run(m *testing.M, use func(*rest.Config)) int {
	code, err := run(m, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, use func(*rest.Config)) (code int, err error) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, errors.New(
			"KUBEBUILDER_ASSETS is not set: these tests need a directory with etcd and kube-apiserver in it")
	}
	definitions, err := crd.Definitions()
	if err != nil {
		return 0, fmt.Errorf("reading the CustomResourceDefinitions: %w", err)
	}
	environment := &envtest.Environment{CRDs: definitions}
	config, err := environment.Start()
	if err != nil {
		return 0, fmt.Errorf("starting the API server: %w", err)
	}
	defer func() {
		if stop := environment.Stop(); stop != nil {
			err = errors.Join(err, fmt.Errorf("stopping the API server: %w", stop))
		}
	}()
	config.QPS, config.Burst = -1, -1
	use(config)
	return m.Run(), nil
}

// NewClient returns a client with the kinds of Capstan and the core ones of Kubernetes.
func NewClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
