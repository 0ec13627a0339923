// Package observability_test checks the alert rules and the dashboard of config/observability against the engine of
// Prometheus and against what the manager's own binary serves.
package observability_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

const (
	repository  = "../.."
	ruleFile    = repository + "/config/observability/alerts.yaml"
	ruleTests   = repository + "/config/observability/alerts_test.yaml"
	managerUser = "system:serviceaccount:capstan-system:capstan-manager"
	namespace   = "team-a"
)

func TestObservability(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Alerts and dashboard")
}

// manager is the manager's own binary, with the install of config/default.
type manager struct {
	admin   client.Client
	metrics string
	// token is that of an account that may read the metrics.
	token string
}

// start builds the manager and runs it on an API server.
func start(ctx context.Context) *manager {
	GinkgoHelper()
	suite.Configure(suite.Logger(), time.Minute, 50*time.Millisecond)
	directory := GinkgoT().TempDir()
	binary := filepath.Join(directory, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/manager")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))

	server := suite.Start()
	m := &manager{admin: suite.Client(server.Config), metrics: free()}
	Expect(m.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	server.Kubectl(ctx, "apply", "--server-side", "-k", repository+"/config/default")
	m.token = m.scraper(ctx, server)
	kubeconfig, err := server.User(managerUser, "system:serviceaccounts",
		"system:serviceaccounts:capstan-system").KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(directory, "kubeconfig")
	Expect(os.WriteFile(file, kubeconfig, 0o600)).To(Succeed())
	running, stop := context.WithCancel(context.Background())
	process := exec.CommandContext(running, binary, "--launcher-image=example.org/launcher:1",
		"--launcher-delivery=InitContainer", "--metrics-bind-address="+m.metrics,
		"--health-probe-bind-address=0")
	process.Env = append(os.Environ(), "KUBECONFIG="+file)
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() { stop(); _ = process.Wait() })
	Eventually(func() error { _, err := m.scrape(ctx); return err }).Should(Succeed())
	return m
}

// scraper returns a token of an account that may read the metrics, because of the command of docs/operations.md.
func (m *manager) scraper(ctx context.Context, server *suite.Server) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus", Namespace: "monitoring"}}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: account.Namespace}}
	suite.Create(ctx, m.admin, space, account)
	page, err := os.ReadFile(repository + "/docs/operations.md")
	Expect(err).NotTo(HaveOccurred())
	command := regexp.MustCompile(`(?s)\nkubectl (create clusterrolebinding prometheus-[^` + "`" + `]*)\n`).
		FindSubmatch(page)
	Expect(command).NotTo(BeNil())
	server.Kubectl(ctx, strings.Fields(strings.ReplaceAll(string(command[1]), "\\\n", " "))...)
	request := &authenticationv1.TokenRequest{}
	Expect(m.admin.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// free is an address of this machine that no process listens at.
func free() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().String()
}

// selfSigned accepts the certificate that the manager makes at its start.
var selfSigned = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// scrape returns what the manager serves for Prometheus.
func (m *manager) scrape(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+m.token)
	response, err := selfSigned.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}

// run runs a Turn whose model calls a tool and has a price.
func (m *manager) run(ctx context.Context, name string) {
	GinkgoHelper()
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: "What time is it?"},
	}
	Expect(m.admin.Create(ctx, turn)).To(Succeed())
	Eventually(func() (v1alpha1.TurnPhase, error) {
		err := m.admin.Get(ctx, client.ObjectKeyFromObject(turn), turn)
		return turn.Status.Phase, err
	}).Should(Equal(v1alpha1.TurnPhaseSucceeded))
}
