// Package cli_test runs the built kubectl-capstan, under a pseudo-terminal where a person would, against a real API
// server with the real controllers, roles and policies.
package cli_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "kubectl capstan")
}

var (
	server *suite.Server
	kit    *capstantest.Kit
	binary string
	jobs   = &suite.Jobs{}
)

var _ = BeforeSuite(func(ctx context.Context) {
	suite.Configure(suite.Logger(), 10*time.Second, suite.Polling)
	binary = filepath.Join(GinkgoT().TempDir(), "kubectl-capstan")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "../../cmd/kubectl-capstan")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))

	server = suite.Start()
	admin := suite.Client(server.Config)
	suite.Create(ctx, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capstan-system"}})
	installRoles(ctx, admin)
	kit, err = capstantest.Start(context.Background(), server.Config, capstantest.Options{
		Policies: true, Jobs: jobs.Run, JobRetention: time.Hour, Streams: publishStreams(ctx, admin),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
})

// installRoles creates the roles for users, as an install has them.
func installRoles(ctx context.Context, admin client.Client) {
	GinkgoHelper()
	documents := yaml.NewYAMLOrJSONDecoder(
		strings.NewReader(server.Kubectl(ctx, "kustomize", "../../config/default")),
		4096,
	)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		if object.GetKind() == "ClusterRole" || object.GetName() == "capstan-stream-address" {
			suite.Create(ctx, admin, object)
		}
	}
}

// publishStreams returns where the event streams are served, and tells clients in capstan-system, where they are looked
// for by default.
func publishStreams(ctx context.Context, admin client.Client) *capstantest.Streams {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	known := httptest.NewTLSServer(nil)
	certificate := known.TLS.Certificates[0]
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})
	known.Close()
	suite.Create(ctx, admin, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: "capstan-stream"},
		Data:       map[string]string{"address": listener.Addr().String(), "ca.crt": string(authority)},
	})
	return &capstantest.Streams{Listener: listener, Certificate: &certificate}
}

// stage returns a namespace with a default Model that follows a script, a Harness, and the Session demo.
func stage(ctx context.Context, script v1alpha1.Simulation, tools ...*v1alpha1.Tool) string {
	GinkgoHelper()
	namespace := suite.Namespace(ctx, kit.Client, "cli-")
	suite.Create(ctx, kit.Client, builder.Stage(namespace, script, tools...)...)
	suite.Create(ctx, kit.Client, builder.Session("demo").In(namespace).Obj())
	return namespace
}

// as runs the program with a kubeconfig in a namespace.
func as(kubeconfig, namespace string) terminal.User {
	return terminal.User{Binary: binary, Kubeconfig: kubeconfig, Namespace: namespace}
}

// The number of users that were made.
var users int

// certificateUser is a user of a client certificate who holds ClusterRoles in a namespace, and nothing else. It returns
// the user's name and the path of a kubeconfig.
func certificateUser(ctx context.Context, namespace string, roles ...string) (name, kubeconfig string) {
	GinkgoHelper()
	users++
	name = fmt.Sprintf("user-%d@example.org", users)
	user := server.User(name)
	for _, role := range roles {
		bind(ctx, namespace, role, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
	}
	content, err := user.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "certificate")
	Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
	return name, kubeconfig
}

// tokenUser is the same with the token of a ServiceAccount.
func tokenUser(ctx context.Context, namespace string, roles ...string) (name, kubeconfig string) {
	GinkgoHelper()
	users++
	account := fmt.Sprintf("robot-%d", users)
	suite.Create(ctx, kit.Client, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
	})
	for _, role := range roles {
		bind(ctx, namespace, role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace})
	}
	clients, err := kubernetes.NewForConfig(server.Config)
	Expect(err).NotTo(HaveOccurred())
	token, err := clients.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: server.Config.Host, CertificateAuthorityData: server.Config.CAData,
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["robot"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "robot"
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "token")
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	return "system:serviceaccount:" + namespace + ":" + account, kubeconfig
}

func bind(ctx context.Context, namespace, role string, subject rbacv1.Subject) {
	GinkgoHelper()
	suite.Create(ctx, kit.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	})
}
