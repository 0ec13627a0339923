// Package manager_test runs the manager's own binary against a real API server, with the install of config/namespaced
// and the rights of the manager's account.
package manager_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

const (
	install     = "../../config/namespaced"
	teamA       = "team-a"
	teamB       = "team-b"
	managerUser = "system:serviceaccount:capstan-system:capstan-manager"
	// version is stamped into the binary.
	version = "v1.2.3-test"
)

var (
	// admin is a user of the group system:masters.
	admin     client.Client
	clientset kubernetes.Interface
	server    *suite.Server
	binary    string
	// metrics and probes are where the manager serves them.
	metrics, probes string
)

func TestManager(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The manager's binary")
}

var _ = BeforeSuite(func(ctx context.Context) {
	suite.Configure(suite.Logger(), time.Minute, 50*time.Millisecond)
	directory := GinkgoT().TempDir()
	binary = filepath.Join(directory, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary,
		"-ldflags=-X github.com/capstan-dev/capstan/internal/version.version="+version, "../../cmd/manager")
	// As the images are built, so that most of it is compiled already.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))

	server = suite.Start()
	admin = suite.Client(server.Config)
	clientset, err = kubernetes.NewForConfig(server.Config)
	Expect(err).NotTo(HaveOccurred())
	for _, namespace := range []string{teamA, teamB} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	}
	server.Kubectl(ctx, "apply", "--server-side", "-k", install)

	user := server.User(managerUser, "system:serviceaccounts", "system:serviceaccounts:capstan-system")
	kubeconfig, err := user.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	managers := filepath.Join(directory, "manager.kubeconfig")
	Expect(os.WriteFile(managers, kubeconfig, 0o600)).To(Succeed())
	metrics, probes = free(), free()
	running, stop := context.WithCancel(context.Background())
	manager := exec.CommandContext(
		running,
		binary,
		"--launcher-image=example.org/launcher:1",
		"--launcher-delivery=InitContainer",
		"--watch-namespaces=team-a,team-b",
		"--egress-allow-cidr=127.0.0.0/8",
		"--metrics-bind-address="+metrics,
		"--health-probe-bind-address="+probes,
	)
	manager.Env = append(os.Environ(), "KUBECONFIG="+managers)
	manager.Stdout, manager.Stderr = GinkgoWriter, GinkgoWriter
	manager.Cancel = func() error { return manager.Process.Signal(os.Interrupt) }
	Expect(manager.Start()).To(Succeed())
	DeferCleanup(func() { stop(); _ = manager.Wait() })
	Eventually(ready(ctx)).Should(Succeed())
})

// free is an address of this machine that no process listens at.
func free() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// ready asks the manager whether it is ready.
func ready(ctx context.Context) func() error {
	return func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz?verbose", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", text)
		}
		return err
	}
}
