//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// The number of users that this process has made.
var users atomic.Int32

// login makes a user who holds ClusterRoles in a namespace, may forward ports to the manager, and may do nothing else.
type login func(ctx context.Context, namespace string, roles ...string) *clientcmdapi.AuthInfo

// withToken is a login with the token of a ServiceAccount.
func withToken(ctx context.Context, namespace string, roles ...string) *clientcmdapi.AuthInfo {
	GinkgoHelper()
	account, user := newAccount(ctx, namespace)
	bind(ctx, namespace, account, roles)
	return user
}

// withoutPort is withToken for a user who may not forward ports to the manager.
func withoutPort(ctx context.Context, namespace string, roles ...string) *clientcmdapi.AuthInfo {
	GinkgoHelper()
	account, user := newAccount(ctx, namespace)
	hold(ctx, namespace, account, roles)
	return user
}

// asAnother is a login with a client certificate of a user who may do nothing but impersonate the one who holds the
// roles.
func asAnother(ctx context.Context, namespace string, roles ...string) *clientcmdapi.AuthInfo {
	GinkgoHelper()
	user := withCertificate(ctx, namespace)
	user.Impersonate = fmt.Sprintf("other-%d@%s.example.org", users.Add(1), namespace)
	bind(ctx, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Impersonate}, roles)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{user.Impersonate},
		Verbs: []string{"impersonate"},
	}}}
	create(ctx, role)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		RoleRef:    reference("ClusterRole", role.Name),
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: certified(user)}},
	}
	create(ctx, binding)
	DeferCleanup(func(ctx SpecContext) {
		for _, object := range []client.Object{binding, role} {
			Expect(client.IgnoreNotFound(api.Delete(ctx, object))).To(Succeed())
		}
	}, NodeTimeout(patience))
	return user
}

// certified is the name in the certificate of a user.
func certified(user *clientcmdapi.AuthInfo) string {
	GinkgoHelper()
	block, _ := pem.Decode(user.ClientCertificateData)
	Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate.Subject.CommonName
}

// newAccount is a ServiceAccount, with its token.
func newAccount(ctx context.Context, namespace string) (rbacv1.Subject, *clientcmdapi.AuthInfo) {
	GinkgoHelper()
	account := fmt.Sprintf("robot-%d", users.Add(1))
	create(ctx, &corev1.ServiceAccount{ObjectMeta: named(namespace, account)})
	token, err := clientset.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace},
		&clientcmdapi.AuthInfo{Token: token.Status.Token}
}

// withCertificate is a login with a client certificate that the cluster has signed.
func withCertificate(ctx context.Context, namespace string, roles ...string) *clientcmdapi.AuthInfo {
	GinkgoHelper()
	name := fmt.Sprintf("user-%d@%s.example.org", users.Add(1), namespace)
	bind(ctx, namespace, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}, roles)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	encoded, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	asked, err := x509.CreateCertificateRequest(
		rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	Expect(err).NotTo(HaveOccurred())
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	create(ctx, request)
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, request))).To(Succeed())
	}, NodeTimeout(patience))
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	requests := clientset.CertificatesV1().CertificateSigningRequests()
	_, err = requests.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) ([]byte, error) {
		request, err = requests.Get(ctx, request.Name, metav1.GetOptions{})
		return request.Status.Certificate, err
	}).ShouldNot(BeEmpty())
	return &clientcmdapi.AuthInfo{
		ClientCertificateData: request.Status.Certificate,
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}),
	}
}

// forwarder is the Role of those who may forward ports to the manager.
const forwarder = "e2e-forwarder"

func reference(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// hold gives ClusterRoles in a namespace.
func hold(ctx context.Context, namespace string, subject rbacv1.Subject, roles []string) {
	GinkgoHelper()
	for _, role := range roles {
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"},
			RoleRef:    reference("ClusterRole", role), Subjects: []rbacv1.Subject{subject},
		})
	}
}

// bind gives ClusterRoles in a namespace, and the right to forward ports to the manager.
func bind(ctx context.Context, namespace string, subject rbacv1.Subject, roles []string) {
	GinkgoHelper()
	hold(ctx, namespace, subject, roles)
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, &rbacv1.Role{
		ObjectMeta: named(managerNamespace, forwarder),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"create"}},
		},
	}))).To(Succeed())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, GenerateName: "e2e-user-"},
		RoleRef:    reference("Role", forwarder), Subjects: []rbacv1.Subject{subject},
	}
	create(ctx, binding)
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(api.Delete(ctx, binding))).To(Succeed())
	}, NodeTimeout(patience))
}

// reach is the program as a user of the cluster, which is reached at a server.
func reach(server *clientcmdapi.Cluster, namespace string, user *clientcmdapi.AuthInfo) terminal.User {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"] = server, user
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "e2e"
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return terminal.User{
		Binary: cmp.Or(os.Getenv(envCLI), "kubectl-capstan"), Kubeconfig: path, Namespace: namespace,
	}
}

// cluster is the one of the suite, without the relay.
func cluster() *clientcmdapi.Cluster {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	if len(config.CAData) == 0 && config.CAFile != "" {
		config.CAData, err = os.ReadFile(config.CAFile)
		Expect(err).NotTo(HaveOccurred())
	}
	return &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
}

// administrator is the program as the user of the suite.
func administrator(namespace string) terminal.User {
	return terminal.User{
		Binary: cmp.Or(os.Getenv(envCLI), "kubectl-capstan"), Kubeconfig: os.Getenv("KUBECONFIG"), Namespace: namespace,
	}
}
