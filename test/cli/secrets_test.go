package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

var _ = Describe("secrets", func() {
	// Rules: KV-02.
	It("of a Session are set, listed and removed, and never printed", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, storing())...)
		session := builder.Session("demo").In(namespace).Obj()
		suite.Create(ctx, kit.Client, session)
		name, edits := tokenUser(ctx, namespace, "capstan-edit")
		suite.Create(ctx, kit.Client,
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secrets"},
				Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "get", "patch"},
				}},
			},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secrets"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"},
				Subjects: []rbacv1.Subject{{
					Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name[strings.LastIndex(name, ":")+1:],
				}},
			})
		ann := as(edits, namespace)
		run := func(input string, arguments ...string) string {
			GinkgoHelper()
			r := ann.Pipe(ctx, input, append([]string{"secret"}, append(arguments, "--session", "demo")...)...)
			Expect(r.Out + r.Err).NotTo(ContainSubstring("hunter2"))
			return r.Out + r.Err
		}
		Expect(run("", "ls")).To(Equal("Session demo has no secrets\n"))
		Expect(run("hunter2\n", "set", "api", "--host", "api.example.com", "--host", "http://web.team.svc:80")).To(Equal(
			"secret api of Session demo is set, and is sent to api.example.com, http://web.team.svc:80\n"))
		file := filepath.Join(GinkgoT().TempDir(), "key.pem")
		Expect(os.WriteFile(file, []byte("hunter2\nhunter2\n"), 0o600)).To(Succeed())
		Expect(run("", "set", "pem", "--from-file", file)).To(ContainSubstring("is sent nowhere, because it has no --host"))
		secret := &corev1.Secret{}
		read := func() {
			GinkgoHelper()
			key := client.ObjectKey{Namespace: namespace, Name: sessionsecret.Name(session.UID)}
			Expect(kit.Client.Get(ctx, key, secret)).To(Succeed())
		}
		read()
		Expect(secret.OwnerReferences).To(ConsistOf(HaveField("UID", session.UID)))
		Expect(secret.Data).To(Equal(map[string][]byte{"api": []byte("hunter2"), "pem": []byte("hunter2\nhunter2\n")}))
		Expect(run("", "ls")).To(MatchRegexp(
			`^NAME +HOSTS\napi +api.example.com,http://web.team.svc:80\npem +none\n$`))
		before := secret.Annotations
		Expect(run("hunter2-new", "set", "api", "--host", "api.example.com")).To(ContainSubstring("is set"))
		read()
		Expect(secret.Annotations["secrets.capstan.dev/api"]).NotTo(Equal(before["secrets.capstan.dev/api"]))
		Expect(secret.Annotations["secrets.capstan.dev/pem"]).To(Equal(before["secrets.capstan.dev/pem"]))
		Expect(run("", "rm", "api")).To(Equal("secret api of Session demo is removed\n"))
		Expect(run("", "rm", "api")).To(ContainSubstring(`secret "api" of Session demo does not exist`))
		Expect(run("", "ls")).NotTo(ContainSubstring("api"))
		for want, arguments := range map[string][]string{
			"is not the name of a secret": {"set", "API"},
			"is not a host":               {"set", "api", "--host", "a/b"},
			"must have 4 to 16384":        {"set", "api"},
		} {
			Expect(run("a\n", arguments...)).To(ContainSubstring(want))
		}
		Expect(run(strings.Repeat("x", 1<<20), "set", "api")).To(ContainSubstring("must have 4 to 16384"))
	})
})
