package policies_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// may lets a user do one thing with objects of these names.
func may(verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names,
	}
}

// toService are an object of each kind with a serviceRef.
func toService(service string, scheme v1alpha1.ServiceScheme) (
	*v1alpha1.Model, *v1alpha1.Tool, *v1alpha1.MCPServer,
) {
	ref := &v1alpha1.ServiceReference{Name: service, Port: 8000, Scheme: scheme}
	model := &v1alpha1.Model{ObjectMeta: named("model"), Spec: v1alpha1.ModelSpec{
		Provider: v1alpha1.ModelProviderOpenAI, Model: "qwen", ServiceRef: ref,
	}}
	tool := newHTTPTool("tool")
	tool.Spec.HTTP.URL, tool.Spec.HTTP.ServiceRef = "", ref
	server := newMCPServer("server")
	server.Spec.URL, server.Spec.ServiceRef = "", ref
	return model, tool, server
}

var _ = Describe("The policy service-references", func() {
	refusal := func(service string) string {
		return fmt.Sprintf("you are not allowed to use Service %q: a serviceRef requires permission to create "+
			"services/proxy for it.", service)
	}

	It("lets an object refer to a Service that its writer reaches through the API server", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, may("create", "services/proxy", "mine")))
		editor, _ := newUser(ctx, clusterEdit, "capstan-tools")
		for _, service := range []string{"mine", "theirs"} {
			model, tool, server := toService(service, v1alpha1.ServiceSchemeHTTP)
			accepts(creating(ctx, editor, model.DeepCopy()))
			accepts(creating(ctx, editor, tool.DeepCopy()))
			accepts(creating(ctx, editor, server.DeepCopy()))
			if service == "mine" {
				accepts(creating(ctx, user, model))
				accepts(creating(ctx, user, tool))
				accepts(creating(ctx, user, server))
				continue
			}
			refuses(creating(ctx, user, model), refusal(service))
			refuses(creating(ctx, user, tool), refusal(service))
			refuses(creating(ctx, user, server), refusal(service))
		}
		reader, _ := newUser(ctx, "capstan-tools", newRole(ctx, may("get", "services/proxy"), may("get", "services")))
		model, _, _ := toService("mine", "")
		refuses(creating(ctx, reader, model), refusal("mine"))
	})

	It("checks again when another user changes what is sent there", func(ctx context.Context) {
		other, _ := newUser(ctx, "capstan-tools")
		model, tool, server := toService("mine", v1alpha1.ServiceSchemeHTTP)
		model.Name, tool.Name, server.Name = "served", "served", "served"
		refuses(updating(ctx, other, stored(ctx, admin, model), func(m *v1alpha1.Model) {
			m.Spec.ServiceRef.Path = "/admin"
		}), refusal("mine"))
		refuses(updating(ctx, other, stored(ctx, admin, tool), func(t *v1alpha1.Tool) {
			t.Spec.HTTP.Method = v1alpha1.HTTPMethodDelete
		}), refusal("mine"))
		refuses(updating(ctx, other, stored(ctx, admin, server), func(s *v1alpha1.MCPServer) {
			s.Spec.ServiceRef.Port = 1
		}), refusal("mine"))
	})
})

var _ = Describe("The policy ca-bundles", func() {
	It("lets an object refer to certificates that its writer may read", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine"), may("get", "configmaps", "mine"),
			may("create", "services/proxy", "service")))
		for name, of := range map[string]func(string) *v1alpha1.CABundleSource{
			"Secret": func(name string) *v1alpha1.CABundleSource {
				return &v1alpha1.CABundleSource{SecretKeyRef: &v1alpha1.SecretKeyReference{Name: name, Key: "ca.crt"}}
			},
			"ConfigMap": func(name string) *v1alpha1.CABundleSource {
				return &v1alpha1.CABundleSource{ConfigMapKeyRef: &v1alpha1.ConfigMapKeyReference{Name: name, Key: "ca.crt"}}
			},
		} {
			model, tool, server := toService("service", v1alpha1.ServiceSchemeHTTPS)
			model.Spec.CABundle, tool.Spec.HTTP.CABundle, server.Spec.CABundle = of("mine"), of("mine"), of("mine")
			accepts(creating(ctx, user, model.DeepCopy()))
			accepts(creating(ctx, user, tool.DeepCopy()))
			accepts(creating(ctx, user, server.DeepCopy()))
			refusal := fmt.Sprintf("you are not allowed to use %s %q: a caBundle that refers to it requires permission to "+
				"get it.", name, "theirs")
			model.Spec.CABundle, tool.Spec.HTTP.CABundle, server.Spec.CABundle = of("theirs"), of("theirs"), of("theirs")
			refuses(creating(ctx, user, model), refusal)
			refuses(creating(ctx, user, tool), refusal)
			refuses(creating(ctx, user, server), refusal)
		}
	})
})

var _ = Describe("A Secret for a Service", func() {
	It("is sent over plain HTTP only if it is bound to just that", func(ctx context.Context) {
		user, _ := newUser(ctx, clusterEdit, "capstan-tools", newRole(ctx, gets("free-p", "secure-p", "plain-p")))
		const place = "models.team-a.svc:8000"
		for name, hosts := range map[string]string{
			"free-p": "", "secure-p": place, "plain-p": "https://other.example, HTTP://" + place,
		} {
			secret := newSecret(name)
			if hosts != "" {
				secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: hosts}
			}
			stored(ctx, admin, secret)
			for _, scheme := range []v1alpha1.ServiceScheme{"", v1alpha1.ServiceSchemeHTTP, v1alpha1.ServiceSchemeHTTPS} {
				model, tool, server := toService("models", scheme)
				model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: name, Key: "key"}
				tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{secretHeader("A", name)}
				server.Spec.Headers = []v1alpha1.HTTPHeader{secretHeader("A", name)}
				By(fmt.Sprintf("Secret %s, scheme %q", name, scheme))
				encrypted := scheme == v1alpha1.ServiceSchemeHTTPS
				attempts := []func() error{
					creating(ctx, user, model), creating(ctx, user, tool), creating(ctx, user, server),
				}
				for _, attempt := range attempts {
					switch {
					case encrypted && name != "plain-p", !encrypted && name == "plain-p":
						accepts(attempt)
					case encrypted:
						refuses(attempt, "cannot be sent to "+place+".")
					default:
						refuses(attempt, fmt.Sprintf("Secret %q is sent over plain HTTP only if capstan.dev/allowed-hosts lists "+
							"http://%s.", name, place))
					}
				}
			}
		}
	})

	It("is sent to a plain HTTP url only if it is bound to just that", func(ctx context.Context) {
		secret := newSecret("plain-url")
		secret.Annotations = map[string]string{
			v1alpha1.AnnotationAllowedHosts: "http://models.example.org,api.example.org:8080",
		}
		stored(ctx, admin, secret)
		for url, place := range map[string]string{
			"http://models.example.org/v1": "", "http://models.example.org:80": "",
			"http://models.example.org:8080": "http://models.example.org:8080",
			"http://api.example.org:8080":    "http://api.example.org:8080",
			"https://models.example.org":     "models.example.org:443",
			"https://api.example.org:8080":   "",
		} {
			model := newRealModel("model", "plain-url")
			model.Spec.BaseURL = url
			tool := newHTTPTool("tool", secretHeader("A", "plain-url"))
			tool.Spec.HTTP.URL = url
			server := newMCPServer("server", secretHeader("A", "plain-url"))
			server.Spec.URL = url
			for _, attempt := range []func() error{
				creating(ctx, admin, model), creating(ctx, admin, tool), creating(ctx, admin, server),
			} {
				if place == "" {
					accepts(attempt)
					continue
				}
				refuses(attempt, place+".")
			}
		}
	})
})
