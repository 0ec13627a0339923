package policies_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		unread      = "the hosts of a secret are changed together with its value, which must be a new one, or by a user"
		unlabelled  = "the label capstan.dev/session-secrets of a Secret with values is set and removed by a user who may get"
		unowned     = "the only owner of the Secret with the secrets of a Session is this Session"
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
		becomes := func(s *corev1.Secret) {
			like := builder.SessionSecrets(teamA, "demo", "uid-2", one, "api.example.com")
			s.Labels, s.Annotations, s.OwnerReferences = like.Labels, like.Annotations, like.OwnerReferences
		}
		refuses(patching(ctx, ann, plain, becomes), unlabelled)
		accepts(patching(ctx, reader, plain, becomes))
		By("nor one that had its hosts changed before it becomes one")
		hosted := newSecret(one)
		hosted.Name, hosted.Labels = "session-secrets-uid-3", nil
		rebind(hosted)
		hosted = stored(ctx, ann, hosted)
		refuses(patching(ctx, ann, hosted, func(s *corev1.Secret) {
			like := builder.SessionSecrets(teamA, "demo", "uid-3", one, "api.example.com")
			s.Labels, s.OwnerReferences = like.Labels, like.OwnerReferences
		}), unlabelled)
		By("nor one that is one no more")
		remove := func(s *corev1.Secret) { delete(s.Labels, v1alpha1.LabelSessionSecrets) }
		refuses(patching(ctx, ann, secret, remove), unlabelled)
		accepts(patching(ctx, reader, secret, remove))
		accepts(patching(ctx, ann, secret, func(s *corev1.Secret) {
			remove(s)
			s.Data = nil
		}))
	})

	It("does not let a user who may not read a value give it another name", func(ctx context.Context) {
		ann, _ := newUser(ctx, newRole(ctx, writes, updates()))
		secret := stored(ctx, ann, newSecret(map[string]string{"key": "the value", "second": "another value"}))
		hosts := `{"id":"00000002","hosts":"evil.example"}`
		for what, operation := range map[string]string{
			"moved":       `{"op":"move","from":"/data/key","path":"/data/key2"}`,
			"copied":      `{"op":"copy","from":"/data/key","path":"/data/key2"}`,
			"put over it": `{"op":"copy","from":"/data/second","path":"/data/key2"}`,
		} {
			By(what)
			patch := client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
				`[%s,{"op":"add","path":"/metadata/annotations/secrets.capstan.dev~1key2","value":%q}]`, operation, hosts))
			refuses(func() error { return ann.Patch(ctx, secret.DeepCopy(), patch, client.DryRunAll) }, unread)
		}
		accepts(patching(ctx, ann, secret, func(s *corev1.Secret) {
			for _, name := range []string{"key", "second", "third"} {
				s.Data[name], s.Annotations[v1alpha1.AnnotationSecretPrefix+name] = []byte("a new value of "+name), hosts
			}
		}))
		By("within the budget of an expression, with as many and as large values as there may be")
		full := map[string]string{}
		for i := range 64 {
			full[fmt.Sprint("k", i)] = fmt.Sprint(strings.Repeat("x", 8180), 100+i)
		}
		large := builder.SessionSecrets(teamA, "demo", "uid-4", full, "api.example.com")
		large = stored(ctx, ann, large)
		accepts(patching(ctx, ann, large, func(s *corev1.Secret) {
			for i := range 64 {
				s.Data[fmt.Sprint("k", i)] = fmt.Append(nil, strings.Repeat("x", 8180), 200+i)
			}
		}))
	})

	// The garbage collector compares the name and the UID of the owner with the Session: with both in the Secret it
	// deletes one that was made for the UID of a Session with the right for another.
	It("demands the Session as the only owner, by its name and its UID", func(ctx context.Context) {
		bob, _ := newUser(ctx, newRole(ctx, writes, updates("bobs")))
		theirs := builder.SessionSecrets(teamA, "bobs", "uid-1", one, "api.example.com")
		owner := theirs.OwnerReferences[0]
		for what, change := range map[string]func(*metav1.OwnerReference){
			"name": func(o *metav1.OwnerReference) { o.Name = "demo" },
			"UID":  func(o *metav1.OwnerReference) { o.UID = "uid-2" },
			"kind": func(o *metav1.OwnerReference) { o.Kind = "Turn" },
			"API":  func(o *metav1.OwnerReference) { o.APIVersion = "example.org/v1" },
		} {
			By("of another " + what)
			other := owner
			change(&other)
			theirs.OwnerReferences = []metav1.OwnerReference{other}
			refuses(creating(ctx, bob, theirs), unowned)
		}
		second := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "own", UID: "uid-9"}
		theirs.OwnerReferences = []metav1.OwnerReference{owner, second}
		refuses(creating(ctx, bob, theirs), unowned)
		theirs.OwnerReferences = nil
		refuses(creating(ctx, bob, theirs), unowned)
		theirs.OwnerReferences = []metav1.OwnerReference{owner}
		theirs = stored(ctx, bob, theirs)
		By("changed by users who may delete the Secret alone, as the garbage collector may")
		collector, _ := newUser(ctx, newRole(ctx, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"delete", "patch"},
		}))
		for _, change := range []func(*corev1.Secret){
			func(s *corev1.Secret) { s.OwnerReferences = nil },
			func(s *corev1.Secret) { s.OwnerReferences = append(s.OwnerReferences, second) },
		} {
			refuses(patching(ctx, bob, theirs, change), unowned)
			accepts(patching(ctx, collector, theirs, change))
		}
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
