package suite

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Platform creates a ServiceAccount with rights in its namespace. It returns a function that carries out calls of the
// capability platform as it, as the program of the launcher does in a pod, with a token of the account.
func Platform(
	ctx context.Context, config *rest.Config, c client.Client, namespace, account string, rights ...rbacv1.PolicyRule,
) capstantest.JobRunner {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	own := &corev1.ServiceAccount{ObjectMeta: meta}
	Create(ctx, c, own, &rbacv1.Role{ObjectMeta: meta, Rules: rights}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
	})
	request := &authenticationv1.TokenRequest{}
	Expect(c.SubResource("token").Create(ctx, own, request)).To(Succeed())
	server, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	directory := GinkgoT().TempDir()
	token, ca := filepath.Join(directory, "token"), filepath.Join(directory, "ca.crt")
	Expect(os.WriteFile(token, []byte(request.Status.Token), 0o600)).To(Succeed())
	Expect(os.WriteFile(ca, config.CAData, 0o600)).To(Succeed())
	return func(call capstantest.Call) (string, string, int) {
		environment := map[string]string{
			"KUBERNETES_SERVICE_HOST": server.Hostname(), "KUBERNETES_SERVICE_PORT": server.Port(),
			result.EnvTokenFile: token, result.EnvCAFile: ca, result.EnvTool: call.Tool, result.EnvTurn: call.Turn,
			result.EnvSession: call.Session, result.EnvIdempotencyKey: call.IdempotencyKey,
		}
		var stdout, stderr bytes.Buffer
		exit := platform.Main(call.Context, func(name string) string { return environment[name] },
			strings.NewReader(call.Arguments), &stdout, &stderr)
		return stdout.String(), stderr.String(), exit
	}
}
