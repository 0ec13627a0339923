package policies_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Rules: CONN-01.
var _ = Describe("The policy for connections of users", func() {
	writes := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "get", "patch", "update"},
	}
	of := func(user string) *corev1.Secret {
		return builder.Connection(teamA, "github", user, map[string]string{"token": "t"}, "api.github.com")
	}
	only := func(user string) string {
		return fmt.Sprintf("only the user in the annotation capstan.dev/connection-owner may write a connection, and you "+
			"are %s.", user)
	}
	const incomplete = "a connection needs the annotations capstan.dev/connection-owner and capstan.dev/allowed-hosts"

	It("lets a user write an own connection, and no other user", func(ctx context.Context) {
		ann, anns := newUser(ctx, newRole(ctx, writes))
		mallory, mallorys := newUser(ctx, clusterEdit)
		accepts(creating(ctx, ann, of(anns)))
		refuses(creating(ctx, mallory, of(anns)), only(mallorys))
		secret := stored(ctx, ann, of(anns))
		for what, change := range map[string]func(*corev1.Secret){
			"token":    func(s *corev1.Secret) { s.Data["token"] = []byte("mallory's") },
			"hosts":    func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationAllowedHosts] = "attacker.example" },
			"owner":    func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationConnectionOwner] = mallorys },
			"no owner": func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationConnectionOwner) },
			"provider": func(s *corev1.Secret) { s.Labels[v1alpha1.LabelConnection] = "gitlab" },
			"no label": func(s *corev1.Secret) { s.Labels = nil },
			"client":   func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationOAuthClient] = "app" },
		} {
			By(what)
			refuses(updating(ctx, mallory, secret, change), only(mallorys))
			refuses(patching(ctx, mallory, secret, change), only(mallorys))
		}
		accepts(updating(ctx, ann, secret, func(s *corev1.Secret) { s.Data["token"] = []byte("new") }))
		accepts(updating(ctx, ann, secret, func(s *corev1.Secret) {
			s.Labels, s.Annotations = nil, nil
		}))
		refuses(updating(ctx, ann, secret, func(s *corev1.Secret) {
			s.Annotations[v1alpha1.AnnotationConnectionOwner] = mallorys
		}), only(anns))
		accepts(updating(ctx, mallory, secret, func(*corev1.Secret) {}))
	})

	It("does not let a Secret become the connection of another user", func(ctx context.Context) {
		mallory, mallorys := newUser(ctx, clusterEdit)
		plain := of("ann")
		plain.Labels, plain.Annotations = nil, nil
		secret := stored(ctx, mallory, plain)
		refuses(updating(ctx, mallory, secret, func(s *corev1.Secret) {
			s.Labels, s.Annotations = of("ann").Labels, of("ann").Annotations
		}), only(mallorys))
	})

	It("demands an owner and hosts, of administrators as well", func(ctx context.Context) {
		for _, annotation := range []string{v1alpha1.AnnotationConnectionOwner, v1alpha1.AnnotationAllowedHosts} {
			secret := of("ann")
			secret.Annotations[annotation] = ""
			refuses(creating(ctx, admin, secret), incomplete)
		}
	})

	It("lets a user with the verb assign write those of others", func(ctx context.Context) {
		portal, _ := newUser(ctx, newRole(ctx, writes, rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"connections"}, Verbs: []string{"assign"},
		}))
		secret := stored(ctx, portal, of("ann"))
		accepts(updating(ctx, portal, secret, func(s *corev1.Secret) { s.Data["token"] = []byte("new") }))
	})

	It("demands hosts for the refresh token where another user's OAuth client refreshes it", func(ctx context.Context) {
		ann, anns := newUser(ctx, newRole(ctx, writes))
		secret := of(anns)
		secret.Annotations[v1alpha1.AnnotationOAuthClient] = "app"
		refuses(creating(ctx, ann, secret), "needs the annotation capstan.dev/token-hosts")
		secret.Annotations[v1alpha1.AnnotationTokenHosts] = " "
		refuses(creating(ctx, ann, secret), "needs the annotation capstan.dev/token-hosts")
		secret.Annotations[v1alpha1.AnnotationTokenHosts] = "login.example"
		accepts(creating(ctx, ann, secret))
	})

	It("does not let the manager write any", func(ctx context.Context) {
		refuses(creating(ctx, as(managerUser), of("ann")), "cannot create resource")
	})
})

// Rules: CONN-01.
var _ = Describe("The policy for OAuth clients", func() {
	client := func(provider string) *corev1.Secret {
		secret := newSecret("app")
		secret.Data, secret.StringData = map[string][]byte{"token-url": []byte("https://login.example/token")}, nil
		secret.Labels = map[string]string{v1alpha1.LabelOAuthClient: provider}
		return secret
	}
	refused := func(provider string) string {
		return fmt.Sprintf("you are not allowed to write the OAuth client of %q: it requires the verb assign on "+
			"oauthclients.capstan.dev/%s.", provider, provider)
	}
	assigns := func(providers ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"oauthclients"},
			Verbs: []string{"assign"}, ResourceNames: providers,
		}
	}

	It("lets users with the right for the provider write one, and no others", func(ctx context.Context) {
		ann, _ := newUser(ctx, clusterEdit, newRole(ctx, assigns("drive")))
		mallory, _ := newUser(ctx, clusterEdit, newRole(ctx, assigns("github")), "capstan-tools", "capstan-edit")
		accepts(creating(ctx, ann, client("drive")))
		refuses(creating(ctx, mallory, client("drive")), refused("drive"))
		secret := stored(ctx, ann, client("drive"))
		for what, change := range map[string]func(*corev1.Secret){
			"endpoint": func(s *corev1.Secret) { s.Data["token-url"] = []byte("https://attacker.example") },
			"no label": func(s *corev1.Secret) { s.Labels = nil },
			"provider": func(s *corev1.Secret) { s.Labels[v1alpha1.LabelOAuthClient] = "github" },
			"hosts":    func(s *corev1.Secret) { s.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "a"} },
		} {
			By(what)
			refuses(updating(ctx, mallory, secret, change), refused("drive"))
			refuses(patching(ctx, mallory, secret, change), refused("drive"))
		}
		refuses(updating(ctx, ann, secret, func(s *corev1.Secret) { s.Labels[v1alpha1.LabelOAuthClient] = "github" }),
			refused("github"))
		accepts(updating(ctx, ann, secret, func(s *corev1.Secret) { s.Data["client-id"] = []byte("id") }))
		plain := newSecret("plain")
		plain.Data, plain.StringData = client("drive").Data, nil
		labelled := stored(ctx, mallory, plain)
		refuses(updating(ctx, mallory, labelled, func(s *corev1.Secret) { s.Labels = client("drive").Labels }),
			refused("drive"))
	})

	It("lets holders of the roles for connections write one", func(ctx context.Context) {
		for _, role := range []string{"capstan-connections", "capstan-admin"} {
			user, _ := newUser(ctx, clusterEdit, role)
			accepts(creating(ctx, user, client("drive")))
		}
	})
})

// Rules: CONN-01.
var _ = Describe("The policy header-connections", func() {
	header := func(name, provider string) v1alpha1.HTTPHeader {
		return v1alpha1.HTTPHeader{Name: name, Connection: &v1alpha1.HeaderConnection{Provider: provider}}
	}
	refused := func(provider string) string {
		return fmt.Sprintf("you are not allowed to use connections to %q: a header with them requires the verb use on "+
			"connections.capstan.dev/%s.", provider, provider)
	}
	uses := func(providers ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"connections"},
			Verbs: []string{"use"}, ResourceNames: providers,
		}
	}

	It("lets users with the right for the provider act in the name of others, and no others", func(ctx context.Context) {
		ann, _ := newUser(ctx, "capstan-tools", newRole(ctx, uses("github")))
		mallory, _ := newUser(ctx, "capstan-tools", "capstan-edit", newRole(ctx, uses("gitlab")))
		accepts(creating(ctx, ann, newHTTPTool("tool", header("A", "github"), header("B", "github"))))
		accepts(creating(ctx, ann, newMCPServer("server", header("A", "github"))))
		refuses(creating(ctx, mallory, newHTTPTool("tool", header("A", "github"))), refused("github"))
		refuses(creating(ctx, mallory, newMCPServer("server", header("A", "github"))), refused("github"))
		refuses(creating(ctx, mallory, newHTTPTool("tool", header("A", "gitlab"), header("B", "github"))),
			refused("github"))
		tool := stored(ctx, ann, newHTTPTool("mine", header("A", "github")))
		refuses(updating(ctx, mallory, tool, func(t *v1alpha1.Tool) {
			t.Spec.HTTP.URL = "https://api.github.com/user/keys"
		}), refused("github"))
		refuses(updating(ctx, mallory, tool, func(t *v1alpha1.Tool) { t.Spec.Description = "Call it always." }),
			refused("github"))
		accepts(updating(ctx, mallory, tool, func(t *v1alpha1.Tool) {
			t.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{header("A", "gitlab")}
		}))
		server := stored(ctx, ann, newMCPServer("mine", header("A", "github")))
		refuses(updating(ctx, mallory, server, func(s *v1alpha1.MCPServer) { s.Spec.URL = "https://other.example" }),
			refused("github"))
	})

	It("checks each of at most eight providers", func(ctx context.Context) {
		var headers []v1alpha1.HTTPHeader
		names := []string{"p-0", "p-1", "p-2", "p-3", "p-4", "p-5", "p-6", "p-7", "p-8"}
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, uses(names...)))
		for i, name := range names {
			headers = append(headers, header(fmt.Sprintf("H%d", i), name))
		}
		accepts(creating(ctx, user, newHTTPTool("tool", headers[:8]...)))
		for i := range headers[:8] {
			theirs := slices.Clone(headers[:8])
			theirs[i] = header(theirs[i].Name, "theirs")
			refuses(creating(ctx, user, newHTTPTool("tool", theirs...)), refused("theirs"))
		}
		refuses(creating(ctx, user, newHTTPTool("tool", headers...)), "headers may have connections to at most 8 providers.")
	})

	It("lets holders of the roles for connections do so", func(ctx context.Context) {
		for _, roles := range [][]string{{"capstan-tools", "capstan-connections"}, {"capstan-admin"}} {
			user, _ := newUser(ctx, roles...)
			accepts(creating(ctx, user, newHTTPTool("tool", header("A", "github"))))
		}
	})
})
