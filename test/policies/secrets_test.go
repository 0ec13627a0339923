package policies_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Rules: KV-02.
var _ = Describe("The policy for secrets of Sessions", func() {
	writes := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch", "update"},
	}
	updates := func(sessions ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"sessions/secrets"},
			Verbs: []string{"update"}, ResourceNames: sessions,
		}
	}
	const (
		key         = v1alpha1.AnnotationSecretPrefix + "key"
		unpermitted = "the secrets of a Session are written by users with the verb update on sessions/secrets"
		unread      = "the hosts of a secret are changed together with its value, or by a user who may get this Secret"
		misshapen   = "the Secret with the secrets of a Session has the name session-secrets-UID"
		unbounded   = "a Session has at most 64 secrets"
	)
	newSecret := func(values map[string]string) *corev1.Secret {
		return builder.SessionSecrets(teamA, "demo", "uid-1", values, "api.example.com")
	}
	one := map[string]string{"key": "the value"}

	It("lets users with the right for the Session write them, and no others", func(ctx context.Context) {
		ann, _ := newUser(ctx, newRole(ctx, writes, updates()))
		mallory, _ := newUser(ctx, clusterEdit)
		elsewhere, _ := newUser(ctx, newRole(ctx, writes, updates("other")))
		editor, _ := newUser(ctx, clusterEdit, "capstan-edit")
		refuses(creating(ctx, mallory, newSecret(one)), unpermitted)
		refuses(creating(ctx, elsewhere, newSecret(one)), unpermitted)
		accepts(creating(ctx, editor, newSecret(one)))
		secret := stored(ctx, ann, newSecret(one))
		for what, change := range map[string]func(*corev1.Secret){
			"value":   func(s *corev1.Secret) { s.Data["key"] = []byte("another") },
			"hosts":   func(s *corev1.Secret) { s.Annotations[key] = `{"id":"00000001","hosts":"evil.example"}` },
			"session": func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationSecretsSession] = "other" },
			"label":   func(s *corev1.Secret) { delete(s.Labels, v1alpha1.LabelSessionSecrets) },
			"further": func(s *corev1.Secret) { s.Data["b"], s.Annotations[key[:len(key)-3]+"b"] = []byte("bbbb"), "{}" },
		} {
			By(what)
			refuses(updating(ctx, mallory, secret, change), unpermitted)
			refuses(patching(ctx, elsewhere, secret, change), unpermitted)
		}
		accepts(updating(ctx, mallory, secret, func(*corev1.Secret) {}))
	})

	It("does not let a user who may not read a value have it sent elsewhere", func(ctx context.Context) {
		ann, _ := newUser(ctx, newRole(ctx, writes, updates()))
		reader, _ := newUser(ctx, newRole(ctx, writes, updates(), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
		}))
		secret := stored(ctx, ann, newSecret(one))
		rebind := func(s *corev1.Secret) { s.Annotations[key] = `{"id":"00000001","hosts":"evil.example"}` }
		refuses(patching(ctx, ann, secret, rebind), unread)
		accepts(patching(ctx, reader, secret, rebind))
		accepts(patching(ctx, ann, secret, func(s *corev1.Secret) {
			rebind(s)
			s.Data["key"] = []byte("a value of her own")
		}))
		accepts(patching(ctx, ann, secret, func(s *corev1.Secret) {
			delete(s.Annotations, key)
			delete(s.Data, "key")
		}))
		By("nor a Secret that becomes one")
		plain := newSecret(one)
		plain.Name, plain.Labels, plain.Annotations = "session-secrets-uid-2", nil, nil
		plain = stored(ctx, admin, plain)
		refuses(patching(ctx, ann, plain, func(s *corev1.Secret) {
			s.Labels = map[string]string{v1alpha1.LabelSessionSecrets: "uid-2"}
			s.Annotations = newSecret(one).Annotations
		}), unread)
	})

	It("demands its form and its bounds, of administrators as well", func(ctx context.Context) {
		accepts(creating(ctx, admin, newSecret(map[string]string{"key": strings.Repeat("x", 16<<10), "a.b_c-1": "text"})))
		many, large := map[string]string{}, map[string]string{}
		for i := range 65 {
			many[fmt.Sprint("k", i)] = "value"
		}
		for i := range 33 {
			large[fmt.Sprint("k", i)] = strings.Repeat("x", 16<<10)
		}
		for what, test := range map[string]struct {
			secret *corev1.Secret
			change func(*corev1.Secret)
			want   string
		}{
			"another name": {newSecret(one), func(s *corev1.Secret) { s.Name = "mine" }, misshapen},
			"no hosts of the Secret": {
				newSecret(one), func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationAllowedHosts) }, misshapen,
			},
			"hosts of the Secret": {
				newSecret(one), func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationAllowedHosts] = "a.example" }, misshapen,
			},
			"no Session": {
				newSecret(one), func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationSecretsSession] = "" }, misshapen,
			},
			"no annotation": {newSecret(one), func(s *corev1.Secret) { delete(s.Annotations, key) }, unbounded},
			"a long annotation": {
				newSecret(one), func(s *corev1.Secret) { s.Annotations[key] = strings.Repeat("x", 4097) }, unbounded,
			},
			"a bad name":    {newSecret(map[string]string{"KEY": "value"}), nil, unbounded},
			"a large value": {newSecret(map[string]string{"key": strings.Repeat("x", 16<<10+4)}), nil, unbounded},
			"many":          {newSecret(many), nil, unbounded},
			"large":         {newSecret(large), nil, "have at most 512 KiB together"},
		} {
			By(what)
			if test.change != nil {
				test.change(test.secret)
			}
			refuses(creating(ctx, admin, test.secret), test.want)
		}
	})

	It("does not let the manager write any", func(ctx context.Context) {
		refuses(creating(ctx, as(managerUser), newSecret(one)), "cannot create resource")
	})
})
