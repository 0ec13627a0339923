package suite

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

	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/controller"
)

// Server is an API server with its etcd. It stops when the node that started it is cleaned up.
type Server struct {
	environment *envtest.Environment
	// Config is that of a user of the group system:masters.
	Config *rest.Config
	// Kubeconfig is the path of a file with the same.
	Kubeconfig string
}

// Start starts an API server without the kinds of Capstan.
func Start() *Server {
	GinkgoHelper()
	return start(&envtest.Environment{})
}

// StartWithKinds starts an API server that has the kinds of Capstan.
func StartWithKinds() *Server {
	GinkgoHelper()
	definitions, err := crd.Definitions()
	Expect(err).NotTo(HaveOccurred())
	return start(&envtest.Environment{CRDs: definitions})
}

func start(environment *envtest.Environment) *Server {
	GinkgoHelper()
	assets()
	s := &Server{environment: environment}
	var err error
	s.Config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred(), "the API server must start and accept every CustomResourceDefinition")
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
	s.Kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(s.Kubeconfig, environment.KubeConfig, 0o600)).To(Succeed())
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
	own := append([]string{"--kubeconfig", s.Kubeconfig}, arguments...)
	command := exec.CommandContext(ctx, KubectlPath(), own...)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// KubectlPath is the path of kubectl.
func KubectlPath() string {
	GinkgoHelper()
	return filepath.Join(assets(), "kubectl")
}
