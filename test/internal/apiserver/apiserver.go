// Package apiserver starts the API server of a suite, or of a spec.
package apiserver

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/internal/controller"
)

// Server is an API server with its etcd. It stops when the node that started it is cleaned up.
type Server struct {
	environment *envtest.Environment
	kubeconfig  string
	// Config is that of a user of the group system:masters.
	Config *rest.Config
}

// Start starts an API server without the kinds of Capstan.
func Start() *Server {
	GinkgoHelper()
	assets()
	s := &Server{environment: &envtest.Environment{}}
	var err error
	s.Config, err = s.environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.environment.Stop()).To(Succeed()) })
	s.kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(s.kubeconfig, s.environment.KubeConfig, 0o600)).To(Succeed())
	return s
}

// assets is the directory of etcd, kube-apiserver and kubectl.
func assets() string {
	GinkgoHelper()
	directory := os.Getenv("KUBEBUILDER_ASSETS")
	Expect(directory).NotTo(BeEmpty(),
		`KUBEBUILDER_ASSETS is not set: run the tests with make, or set it to "$(go -C hack/cluster run . assets)"`)
	return directory
}

// Client is a client with the kinds of Kubernetes and of Capstan.
func Client(config *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(config, client.Options{Scheme: controller.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// User adds a user with the groups, who has no permissions otherwise.
func (s *Server) User(name string, groups ...string) *envtest.AuthenticatedUser {
	GinkgoHelper()
	user, err := s.environment.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	Expect(err).NotTo(HaveOccurred())
	return user
}

// Kubectl runs kubectl as the user of Config, and returns its output.
func (s *Server) Kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	own := append([]string{"--kubeconfig", s.kubeconfig}, arguments...)
	command := exec.CommandContext(ctx, filepath.Join(assets(), "kubectl"), own...)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}
