package policies_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// gets lets a user read Secrets of these names.
func gets(secrets ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: secrets,
	}
}

func notYours(secret string) string {
	const refusal = "you are not allowed to use Secret %q: a Tool that refers to it requires permission to get it."
	return fmt.Sprintf(refusal, secret)
}

func notYourKey(secret string) string {
	const refusal = "you are not allowed to use Secret %q: a Model that refers to it requires permission to get it."
	return fmt.Sprintf(refusal, secret)
}

const bound = "is bound to hosts by capstan.dev/allowed-hosts and cannot be given to a tool that runs as a Job, " +
	"which could send it anywhere."

var _ = Describe("The policy tool-identities", func() {
	It("lets a Tool name a Secret that its writer may get", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine", "mine-2")))
		accepts(
			creating(ctx, user, newTool("tool", fromSecret("A", "mine"), fromSecret("B", "mine-2"), fromSecret("C", "mine"))),
		)
		refuses(creating(ctx, user, newTool("tool", fromSecret("A", "theirs"))), notYours("theirs"))
		refuses(creating(ctx, user, newTool("tool", fromSecret("A", "mine"), fromSecret("B", "theirs"))), notYours("theirs"))
		accepts(creating(ctx, user, newTool("tool", v1alpha1.EnvVar{Name: "A", Value: "theirs"})))
	})

	It("lets a Tool send a Secret in a header that its writer may get", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine", "mine-2")))
		accepts(
			creating(
				ctx,
				user,
				newHTTPTool("tool", secretHeader("A", "mine"), secretHeader("B", "mine-2"), secretHeader("C", "mine")),
			),
		)
		refuses(creating(ctx, user, newHTTPTool("tool", secretHeader("A", "theirs"))), notYours("theirs"))
		refuses(
			creating(ctx, user, newHTTPTool("tool", secretHeader("A", "mine"), secretHeader("B", "theirs"))),
			notYours("theirs"),
		)
		accepts(creating(ctx, user, newHTTPTool("tool", v1alpha1.HTTPHeader{Name: "A", Value: ptr.To("theirs")})))
		nine := make([]v1alpha1.HTTPHeader, 0, 9)
		for i := range 9 {
			nine = append(nine, secretHeader(fmt.Sprintf("S%d", i), fmt.Sprintf("s-%d", i)))
		}
		refuses(creating(ctx, user, newHTTPTool("tool", nine...)), "a Tool may refer to at most 8 Secrets.")
		tool := stored(ctx, user, newHTTPTool("sent", secretHeader("A", "mine")))
		other, _ := newUser(ctx, "capstan-tools")
		refuses(
			updating(ctx, other, tool, func(t *v1alpha1.Tool) { t.Spec.HTTP.URL = "https://evil.example" }),
			notYours("mine"),
		)
	})

	It("checks each of at most eight Secrets", func(ctx context.Context) {
		names := []string{"s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7"}
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets(append(names, "s-8")...)))
		env := make([]v1alpha1.EnvVar, 0, len(names))
		for i, name := range names {
			env = append(env, fromSecret(fmt.Sprintf("S%d", i), name))
		}
		accepts(creating(ctx, user, newTool("tool", env...)))
		for i := range env {
			theirs := slices.Clone(env)
			theirs[i] = fromSecret(theirs[i].Name, "theirs")
			refuses(creating(ctx, user, newTool("tool", theirs...)), notYours("theirs"))
		}
		refuses(
			creating(ctx, user, newTool("tool", append(env, fromSecret("S8", "s-8"))...)),
			"a Tool may refer to at most 8 Secrets.",
		)
	})

	It("lets a Tool pull its images with a Secret that its writer may get", func(ctx context.Context) {
		names := []string{"s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7"}
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets(append(names, "s-8")...)))
		accepts(creating(ctx, user, pulling(newTool("tool"), names...)))
		accepts(creating(ctx, user, pulling(newTool("tool", fromSecret("A", "s-0"), fromSecret("B", "s-0")), names...)))
		refuses(
			creating(ctx, user, pulling(newTool("tool", fromSecret("A", "s-8")), names...)),
			"a Tool may refer to at most 8 Secrets.",
		)
		for i := range names {
			theirs := slices.Clone(names)
			theirs[i] = "theirs"
			refuses(creating(ctx, user, pulling(newTool("tool"), theirs...)), notYours("theirs"))
		}
		refuses(creating(ctx, user, pulling(newTool("tool", fromSecret("A", "s-0")), "theirs")), notYours("theirs"))
		shared := stored(ctx, user, pulling(newTool("pulled"), "s-0"))
		other, _ := newUser(ctx, "capstan-tools")
		refuses(
			updating(ctx, other, shared, func(t *v1alpha1.Tool) { t.Spec.Job.Image = "registry.evil.example/tool:1" }),
			notYours("s-0"),
		)
	})

	It("lets a Tool name a ServiceAccount that its writer may get tokens of", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, rbacv1.PolicyRule{
			APIGroups: []string{
				"",
			},
			Resources:     []string{"serviceaccounts/token"},
			Verbs:         []string{"create"},
			ResourceNames: []string{"mine"},
		}))
		running := func(account string) *v1alpha1.Tool {
			tool := newTool("tool")
			tool.Spec.Job.ServiceAccountName = account
			return tool
		}
		accepts(creating(ctx, user, running("mine")))
		refuses(
			creating(ctx, user, running("theirs")),
			`you are not allowed to use ServiceAccount "theirs": a Tool that runs as it requires permission to create `+
				`serviceaccounts/token for it.`,
		)
		clusterEditor, _ := newUser(ctx, clusterEdit, "capstan-tools")
		accepts(creating(ctx, clusterEditor, running("theirs")))
		for _, account := range []string{"default", "capstan-tool"} {
			refuses(creating(ctx, user, running(account)), fmt.Sprintf("you are not allowed to use ServiceAccount %q", account))
		}
		accepts(creating(ctx, user, newTool("tool")))
	})

	It("checks again when another user changes the command of the Tool", func(ctx context.Context) {
		writer, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine")))
		other, _ := newUser(ctx, "capstan-tools")
		tool := stored(ctx, writer, newTool("shared", fromSecret("A", "mine")))
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"a"}}}`))
		accepts(func() error { return other.Patch(ctx, tool.DeepCopy(), label, client.DryRunAll) })
		refuses(
			updating(ctx, other, tool, func(t *v1alpha1.Tool) { t.Spec.Job.Command = []string{"/bin/env"} }),
			notYours("mine"),
		)
		accepts(updating(ctx, other, tool, func(t *v1alpha1.Tool) { t.Spec.Job.Env = nil }))
		accepts(updating(ctx, writer, tool, func(t *v1alpha1.Tool) { t.Spec.Job.Command = []string{"/bin/env"} }))
	})
})

var _ = Describe("The policies bound-secrets", func() {
	It(
		"keep a Secret that is bound to hosts from Tools, also from those that were there before",
		func(ctx context.Context) {
			user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("free", "to-bind")))
			stored(ctx, admin, newSecret("free"))
			secret := stored(ctx, admin, newSecret("to-bind"))
			turn := stored(ctx, admin, builder.Turn("bound").In(teamA).Obj())
			tool, free := newTool("tool", fromSecret("A", "to-bind")), newTool("tool", fromSecret("A", "free"))
			accepts(creating(ctx, user, tool))
			accepts(creating(ctx, as(managerUser), callJob(turn, tool)))

			secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "api.example.org"}
			Expect(admin.Update(ctx, secret)).To(Succeed())
			refuses(creating(ctx, user, tool), `Secret "to-bind" `+bound)
			refuses(creating(ctx, admin, tool), `Secret "to-bind" `+bound)
			refuses(creating(ctx, as(managerUser), callJob(turn, tool)), `Secret "to-bind" `+bound)
			accepts(creating(ctx, user, free))
			accepts(creating(ctx, as(managerUser), callJob(turn, free)))

			task := taskJob()
			task.Spec.Template.Spec.Containers[0].Env = callJob(turn, tool).Spec.Template.Spec.Containers[0].Env
			refuses(creating(ctx, as(managerUser), task), `Secret "to-bind" `+bound)

			initial := callJob(turn, newTool("tool"))
			initial.Spec.Template.Spec.InitContainers[0].Env = callJob(turn, tool).Spec.Template.Spec.Containers[0].Env
			refuses(creating(ctx, as(managerUser), initial), `Secret "to-bind" `+bound)

			pulled := pulling(newTool("tool"), "to-bind")
			refuses(creating(ctx, admin, pulled), `Secret "to-bind" `+bound)
			refuses(creating(ctx, as(managerUser), callJob(turn, pulled)), `Secret "to-bind" `+bound)
			accepts(creating(ctx, as(managerUser), callJob(turn, pulling(newTool("tool"), "free"))))
		},
	)
})

var _ = Describe("The policy bound-secrets-tools", func() {
	It("lets a Secret that is bound to hosts be sent to these, and to no others", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("bound-to")))
		secret := newSecret("bound-to")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "api.example.org, Other.example:8443"}
		stored(ctx, admin, secret)
		to := func(url string) *v1alpha1.Tool {
			tool := newHTTPTool("tool", secretHeader("A", "bound-to"))
			tool.Spec.HTTP.URL = url
			return tool
		}
		for _, url := range []string{
			"https://api.example.org/v1", "https://API.example.org:443", "https://other.example:8443/?a=b",
		} {
			accepts(creating(ctx, user, to(url)))
		}
		for url, place := range map[string]string{
			"https://evil.example":                  "evil.example:443",
			"https://api.example.org:8443":          "api.example.org:8443",
			"https://other.example":                 "other.example:443",
			"https://example.org":                   "example.org:443",
			"https://api.example.org.evil.example/": "api.example.org.evil.example:443",
			"https://evil.example/api.example.org":  "evil.example:443",
		} {
			refuses(
				creating(ctx, user, to(url)),
				`Secret "bound-to" is bound to hosts by capstan.dev/allowed-hosts and cannot be sent to `+place+".",
			)
		}
		without := to("https://evil.example")
		without.Spec.HTTP.Headers = nil
		accepts(creating(ctx, user, without))

		secret.Annotations[v1alpha1.AnnotationAllowedHosts] = ""
		Expect(admin.Update(ctx, secret)).To(Succeed())
		refuses(creating(ctx, user, to("https://api.example.org")), "cannot be sent to api.example.org:443.")
	})
})

var _ = Describe("The policy model-identities", func() {
	It("lets a Model name a Secret that its writer may get", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine")))
		accepts(creating(ctx, user, newRealModel("model", "mine")))
		refuses(creating(ctx, user, newRealModel("model", "theirs")), notYourKey("theirs"))
		accepts(creating(ctx, user, newModel("model")))
		accepts(creating(ctx, admin, newRealModel("model", "theirs")))
	})

	It("checks again when another user changes the destination of the key", func(ctx context.Context) {
		writer, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine")))
		other, _ := newUser(ctx, "capstan-tools")
		shared := stored(ctx, writer, newRealModel("shared", "mine"))
		label := client.RawPatch(
			"application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"capstan.dev/is-default-model":"true"}}}`),
		)
		accepts(func() error { return other.Patch(ctx, shared.DeepCopy(), label, client.DryRunAll) })
		for what, change := range map[string]func(*v1alpha1.ModelSpec){
			"baseURL":    func(s *v1alpha1.ModelSpec) { s.BaseURL = "https://evil.example" },
			"provider":   func(s *v1alpha1.ModelSpec) { s.Provider = v1alpha1.ModelProviderOpenAI },
			"key":        func(s *v1alpha1.ModelSpec) { s.SecretKeyRef.Key = "other" },
			"model":      func(s *v1alpha1.ModelSpec) { s.Model = "dearer" },
			"parameters": func(s *v1alpha1.ModelSpec) { s.Parameters = &v1alpha1.ModelParameters{StopSequences: []string{"."}} },
		} {
			By(what)
			refuses(updating(ctx, other, shared, func(m *v1alpha1.Model) { change(&m.Spec) }), notYourKey("mine"))
			accepts(updating(ctx, writer, shared, func(m *v1alpha1.Model) { change(&m.Spec) }))
		}
		accepts(updating(ctx, other, shared, func(m *v1alpha1.Model) { m.Spec = newModel("shared").Spec }))
	})
})

var _ = Describe("The policy bound-secrets-models", func() {
	It("lets an API key that is bound to hosts be sent to these, and to no others", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("bound-key", "free-key")))
		secret := newSecret("bound-key")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "api.anthropic.com, Other.example:8443"}
		stored(ctx, admin, secret)
		stored(ctx, admin, newSecret("free-key"))
		to := func(provider v1alpha1.ModelProvider, url string) *v1alpha1.Model {
			made := newRealModel("model", "bound-key")
			made.Spec.Provider, made.Spec.BaseURL = provider, url
			return made
		}
		for _, url := range []string{
			"", "https://api.anthropic.com/v1", "https://API.Anthropic.com:443", "https://other.example:8443/anthropic",
		} {
			accepts(creating(ctx, user, to(v1alpha1.ModelProviderAnthropic, url)))
		}
		for url, place := range map[string]string{
			"https://evil.example":                   "evil.example:443",
			"https://api.anthropic.com:8443":         "api.anthropic.com:8443",
			"https://api.anthropic.com.evil.example": "api.anthropic.com.evil.example:443",
			"https://evil.example/api.anthropic.com": "evil.example:443",
		} {
			refuses(
				creating(ctx, user, to(v1alpha1.ModelProviderAnthropic, url)),
				`Secret "bound-key" is bound to hosts by capstan.dev/allowed-hosts and cannot be sent to `+place+".",
			)
		}
		free := to(v1alpha1.ModelProviderAnthropic, "https://evil.example")
		free.Spec.SecretKeyRef.Name = "free-key"
		accepts(creating(ctx, user, free))

		secret.Annotations[v1alpha1.AnnotationAllowedHosts] = ""
		Expect(admin.Update(ctx, secret)).To(Succeed())
		refuses(creating(ctx, user, to(v1alpha1.ModelProviderAnthropic, "")), "cannot be sent to api.anthropic.com:443.")
	})

	It("has the same default hosts of providers as the manager", func(ctx context.Context) {
		secret := newSecret("bound-own")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "nowhere.example"}
		stored(ctx, admin, secret)
		for _, provider := range model.Providers() {
			own := newRealModel("model", "bound-own")
			own.Spec.Provider = provider
			endpoint, err := url.Parse(model.Endpoint(own))
			Expect(err).NotTo(HaveOccurred())
			Expect(endpoint.Hostname()).NotTo(BeEmpty())
			refuses(creating(ctx, admin, own), "cannot be sent to "+endpoint.Hostname()+":443.")
		}
	})
})

var _ = Describe("A Secret that is planted", func() {
	It("cannot be read through any kind by a user with the roles edit and capstan-tools", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-edit", "capstan-tools")
		stored(ctx, admin, newSecret("planted"))
		published := stored(ctx, admin, newTool("published", fromSecret("TOKEN", "planted")))
		lent := newTool("lent")
		lent.Spec.Job.ServiceAccountName = "default"
		stored(ctx, admin, lent)
		cannot := fmt.Sprintf("User %q cannot ", name)

		By("directly")
		refuses(func() error {
			return user.Get(ctx, client.ObjectKey{Namespace: teamA, Name: "planted"}, &corev1.Secret{})
		}, cannot)
		refuses(func() error { return user.List(ctx, &corev1.SecretList{}, client.InNamespace(teamA)) }, cannot)
		By("through the kinds of Kubernetes that run containers")
		refuses(creating(ctx, user, plainJob("x")), cannot)
		refuses(creating(ctx, user, podOf(plainJob("x"))), cannot)
		refuses(func() error {
			account := &corev1.ServiceAccount{ObjectMeta: named("default")}
			return user.SubResource("token").Create(ctx, account, tokenRequest())
		}, cannot)
		By("through a Tool of his own")
		accepts(creating(ctx, user, newTool("own")))
		refuses(creating(ctx, user, newTool("own", fromSecret("TOKEN", "planted"))), notYours("planted"))
		own := stored(ctx, user, newTool("own"))
		refuses(
			updating(
				ctx,
				user,
				own,
				func(t *v1alpha1.Tool) { t.Spec.Job.Env = []v1alpha1.EnvVar{fromSecret("TOKEN", "planted")} },
			),
			notYours("planted"),
		)
		patch := client.RawPatch(
			"application/merge-patch+json",
			[]byte(`{"spec":{"job":{"env":[{"name":"T","secretKeyRef":{"name":"planted","key":"token"}}]}}}`),
		)
		refuses(func() error { return user.Patch(ctx, own.DeepCopy(), patch, client.DryRunAll) }, notYours("planted"))
		refuses(creating(ctx, user, pulling(newTool("own-image"), "planted")), notYours("planted"))
		refuses(creating(ctx, user, newHTTPTool("own-request", secretHeader("A", "planted"))), notYours("planted"))
		refuses(updating(ctx, user, own, func(t *v1alpha1.Tool) {
			t.Spec = newHTTPTool("own", secretHeader("A", "planted")).Spec
		}), notYours("planted"))
		refuses(
			updating(ctx, user, own, func(t *v1alpha1.Tool) { t.Spec.Job.ServiceAccountName = "default" }),
			`you are not allowed to use ServiceAccount "default"`,
		)
		By("through a Tool of another user")
		for what, change := range map[string]func(*v1alpha1.JobTool){
			"command":  func(j *v1alpha1.JobTool) { j.Command = []string{"/bin/env"} },
			"args":     func(j *v1alpha1.JobTool) { j.Args = []string{"$(TOKEN)"} },
			"image":    func(j *v1alpha1.JobTool) { j.Image = "example.org/theirs:1" },
			"variable": func(j *v1alpha1.JobTool) { j.Env[0].Name = "LD_PRELOAD" },
			"another":  func(j *v1alpha1.JobTool) { j.Env = append(j.Env, v1alpha1.EnvVar{Name: "COPY", Value: "$(TOKEN)"}) },
		} {
			By(what)
			refuses(updating(ctx, user, published, func(t *v1alpha1.Tool) { change(t.Spec.Job) }), notYours("planted"))
		}
		sent := stored(ctx, admin, newHTTPTool("sent", secretHeader("Authorization", "planted")))
		for what, change := range map[string]func(*v1alpha1.HTTPTool){
			"url":    func(h *v1alpha1.HTTPTool) { h.URL = "https://evil.example" },
			"method": func(h *v1alpha1.HTTPTool) { h.Method = v1alpha1.HTTPMethodDelete },
			"header": func(h *v1alpha1.HTTPTool) { h.Headers[0].Name = "X-Echo" },
			"another": func(h *v1alpha1.HTTPTool) {
				h.Headers = append(h.Headers, v1alpha1.HTTPHeader{Name: "A", Value: ptr.To("b")})
			},
		} {
			By(what)
			refuses(updating(ctx, user, sent, func(t *v1alpha1.Tool) { change(t.Spec.HTTP) }), notYours("planted"))
		}
		refuses(
			updating(ctx, user, lent, func(t *v1alpha1.Tool) { t.Spec.Job.Command = []string{"/bin/sh"} }),
			`you are not allowed to use ServiceAccount "default"`,
		)
		By("through a Model of his own, which sends it where he wants")
		collects := newRealModel("collects", "planted")
		collects.Spec.BaseURL = "https://evil.example"
		refuses(creating(ctx, user, collects), notYourKey("planted"))
		By("through layers that lend the tokens of another account")
		for _, object := range actingAs("default") {
			refuses(creating(ctx, user, object), notYourAccount("default"))
		}
		By("through a Model of another user")
		keyed := stored(ctx, admin, newRealModel("keyed", "planted"))
		refuses(
			updating(ctx, user, keyed, func(m *v1alpha1.Model) { m.Spec.BaseURL = "https://evil.example" }),
			notYourKey("planted"),
		)
		By("through objects that the manager would trust")
		refuses(creating(ctx, user, newEntry("forged")), cannot)
		refuses(func() error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":7}}`))
			return user.Status().Patch(ctx, own.DeepCopy(), patch, client.DryRunAll)
		}, cannot)
	})

	It(
		"is read by the manager by name only, and only where a RoleBinding permits it",
		func(ctx context.Context) {
			stored(ctx, admin, newSecret("planted-too"))
			cannot := fmt.Sprintf("User %q cannot ", managerUser)
			get := func(namespace string) func() error {
				return func() error {
					return as(managerUser).Get(ctx, client.ObjectKey{Namespace: namespace, Name: "planted-too"}, &corev1.Secret{})
				}
			}
			refuses(get(teamA), cannot)
			binding := &rbacv1.RoleBinding{
				ObjectMeta: named("capstan-manager-secrets"),
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-manager-secrets"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
			}
			Expect(admin.Create(ctx, binding)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(admin.Delete(ctx, binding)).To(Succeed()) })
			Eventually(get(teamA)).Should(Succeed())
			refuses(get(teamB), cannot)
			refuses(get(elsewhere), cannot)
			refuses(func() error { return as(managerUser).List(ctx, &corev1.SecretList{}, client.InNamespace(teamA)) }, cannot)
			refuses(creating(ctx, as(managerUser), podOf(plainJob("x"))), cannot)
		},
	)

	// A new field of this sort must come with a policy, and with a request above that is refused.
	It("can be named by no other field than those above", func() {
		definitions, err := crd.Definitions()
		Expect(err).NotTo(HaveOccurred())
		var found, assigned []string
		for _, definition := range definitions {
			for _, version := range definition.Spec.Versions {
				walk("", *version.Schema.OpenAPIV3Schema, func(path string) {
					if strings.HasPrefix(path, "spec") && strings.HasSuffix(path, ".maxRisk") {
						assigned = append(assigned, definition.Spec.Names.Kind+" "+path)
					}
					lower := strings.ToLower(path)
					for _, word := range []string{
						"secret", "serviceaccount", "configmap", "credential", "password", "volume", "hostpath", "envfrom",
						"serviceref", "wallet",
					} {
						if strings.Contains(lower, word) && strings.HasPrefix(path, "spec") {
							found = append(found, definition.Spec.Names.Kind+" "+path)
							break
						}
					}
				})
			}
		}
		Expect(found).To(ConsistOf(append(pointing(), lending...)))
		Expect(assigned).To(ConsistOf(assigning))
	})
})
