package policies_test

import (
	"context"
	"fmt"

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

	It("does not let the manager write any", func(ctx context.Context) {
		refuses(creating(ctx, as(managerUser), of("ann")), "cannot create resource")
	})
})
