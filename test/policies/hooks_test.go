package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// assigns lets a user set hooks.
func assigns() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"capabilities"}, Verbs: []string{"assign-high-risk"},
		ResourceNames: []string{"user_hooks"},
	}
}

// hooked is a layer with webhooks that send Secrets.
func hooked(secrets ...string) v1alpha1.ConfigLayer {
	webhook := func() *v1alpha1.WebhookHook { return &v1alpha1.WebhookHook{URL: "https://example.org/hook"} }
	layer := v1alpha1.ConfigLayer{Hooks: []v1alpha1.Hook{
		{Name: "plain", Event: v1alpha1.HookEventPreToolUse, CEL: &v1alpha1.CELHook{Expression: "true"}},
		{Name: "first", Event: v1alpha1.HookEventPreToolUse, Webhook: webhook()},
		{Name: "second", Event: v1alpha1.HookEventUserPromptSubmit, Webhook: webhook()},
	}}
	for i, name := range secrets {
		to := layer.Hooks[1+i%2].Webhook
		to.Headers = append(to.Headers, v1alpha1.WebhookHeader{
			Name: "X-" + name, SecretKeyRef: &v1alpha1.SecretKeyReference{Name: name, Key: "k"},
		})
	}
	return layer
}

// Rules: HOOK-23.
var _ = Describe("The policy hook-identities", func() {
	const (
		noVerb   = "you are not allowed to set or disable hooks: it requires the verb assign-high-risk"
		noSecret = `you are not allowed to use Secret "theirs": a hook that refers to it requires permission to get it.`
	)
	layers := map[string]func(v1alpha1.ConfigLayer) client.Object{
		"an Agent": func(l v1alpha1.ConfigLayer) client.Object {
			return &v1alpha1.Agent{ObjectMeta: named("a"), Spec: v1alpha1.AgentSpec{ConfigLayer: l}}
		},
		"a Harness": func(l v1alpha1.ConfigLayer) client.Object {
			return &v1alpha1.Harness{ObjectMeta: named("h"), Spec: v1alpha1.HarnessSpec{ConfigLayer: l}}
		},
		"a Session": func(l v1alpha1.ConfigLayer) client.Object {
			return &v1alpha1.Session{ObjectMeta: named("s"), Spec: v1alpha1.SessionSpec{
				HarnessRef: v1alpha1.LocalReference{Name: "h"}, ConfigLayer: l,
			}}
		},
		"a Capability": func(l v1alpha1.ConfigLayer) client.Object {
			return &v1alpha1.Capability{ObjectMeta: named("c"), Spec: v1alpha1.CapabilitySpec{Hooks: l.Hooks}}
		},
	}
	for what, build := range layers {
		It("holds for "+what, func(ctx context.Context) {
			user, _ := newUser(ctx, "capstan-tools", "capstan-edit", newRole(ctx, gets("mine", "mine-2")))
			accepts(creating(ctx, user, build(v1alpha1.ConfigLayer{})))
			refuses(creating(ctx, user, build(hooked())), noVerb)
			user, _ = newUser(ctx, "capstan-tools", "capstan-edit", newRole(ctx, gets("mine", "mine-2"), assigns()))
			accepts(creating(ctx, user, build(hooked())))
			accepts(creating(ctx, user, build(hooked("mine", "mine-2"))))
			refuses(creating(ctx, user, build(hooked("theirs"))), noSecret)
			refuses(creating(ctx, user, build(hooked("mine", "theirs"))), noSecret)
		})
	}

	It("holds for changes of hooks, and for no others", func(ctx context.Context) {
		agent := &v1alpha1.Agent{ObjectMeta: named("changed"), Spec: v1alpha1.AgentSpec{ConfigLayer: hooked("theirs")}}
		stored(ctx, admin, agent)
		user, _ := newUser(ctx, "capstan-tools")
		accepts(updating(ctx, user, agent, func(a *v1alpha1.Agent) { a.Spec.SystemPrompt = "Be kind." }))
		refuses(updating(ctx, user, agent, func(a *v1alpha1.Agent) {
			a.Spec.Hooks[1].Webhook.URL = "https://attacker.example/"
		}), noVerb)
		user, _ = newUser(ctx, "capstan-tools", newRole(ctx, assigns()))
		refuses(updating(ctx, user, agent, func(a *v1alpha1.Agent) {
			a.Spec.Hooks[1].Webhook.URL = "https://attacker.example/"
		}), noSecret)
		accepts(updating(ctx, user, agent, func(a *v1alpha1.Agent) { a.Spec.Hooks = nil }))
	})

	It("holds for hooks that are disabled, and not for those that run again", func(ctx context.Context) {
		agent := &v1alpha1.Agent{ObjectMeta: named("muting"), Spec: v1alpha1.AgentSpec{ConfigLayer: hooked("theirs")}}
		agent.Spec.DisabledHooks = []string{"session:a", "session:b"}
		stored(ctx, admin, agent)
		user, _ := newUser(ctx, "capstan-tools")
		mute := func(a *v1alpha1.Agent) { a.Spec.DisabledHooks = []string{"session:a", "session:c"} }
		refuses(updating(ctx, user, agent, mute), noVerb)
		refuses(creating(ctx, user, &v1alpha1.Agent{
			ObjectMeta: named("mute"), Spec: v1alpha1.AgentSpec{ConfigLayer: v1alpha1.ConfigLayer{
				DisabledHooks: []string{"session:a"},
			}},
		}), noVerb)
		accepts(updating(ctx, user, agent, func(a *v1alpha1.Agent) { a.Spec.DisabledHooks = []string{"session:b"} }))
		user, _ = newUser(ctx, "capstan-tools", newRole(ctx, assigns()))
		accepts(updating(ctx, user, agent, mute))
	})

	It("lets users create and change a Harness that has no spec", func(ctx context.Context) {
		harness := &unstructured.Unstructured{}
		harness.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Harness"))
		harness.SetNamespace(teamA)
		harness.SetName("bare")
		user, _ := newUser(ctx, "capstan-tools")
		accepts(creating(ctx, user, harness))
		stored(ctx, admin, harness)
		accepts(updating(ctx, user, harness, func(h *unstructured.Unstructured) {
			h.SetLabels(map[string]string{"team": "a"})
		}))
		refuses(updating(ctx, user, harness, func(h *unstructured.Unstructured) {
			hook := map[string]any{"name": "plain", "event": "PreToolUse", "cel": map[string]any{"expression": "true"}}
			h.Object["spec"] = map[string]any{"hooks": []any{hook}}
		}), noVerb)
	})

	It("lets an administrator of the namespace set hooks", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-admin")
		accepts(creating(ctx, user, layers["a Session"](hooked())))
	})
})

// lending are the fields of our kinds that make something of a namespace reach a tool, or a provider of models.
var lending = []string{
	"Agent spec.hooks[].webhook.headers[].secretKeyRef.key",
	"Agent spec.hooks[].webhook.headers[].secretKeyRef.name",
	"Capability spec.hooks[].webhook.headers[].secretKeyRef.key",
	"Capability spec.hooks[].webhook.headers[].secretKeyRef.name",
	"Harness spec.hooks[].webhook.headers[].secretKeyRef.key",
	"Harness spec.hooks[].webhook.headers[].secretKeyRef.name",
	"Session spec.hooks[].webhook.headers[].secretKeyRef.key",
	"Session spec.hooks[].webhook.headers[].secretKeyRef.name",
	"MCPServer spec.headers[].secretKeyRef.key",
	"MCPServer spec.headers[].secretKeyRef.name",
	"Model spec.secretKeyRef.key",
	"Model spec.secretKeyRef.name",
	"Tool spec.http.headers[].secretKeyRef.key",
	"Tool spec.http.headers[].secretKeyRef.name",
	"Tool spec.http.payment.walletRef.key",
	"Tool spec.http.payment.walletRef.name",
	"Record spec.secret", // of the payments from a wallet; the policy records
	"Tool spec.job.env[].secretKeyRef.key",
	"Tool spec.job.env[].secretKeyRef.name",
	"Tool spec.job.imagePullSecrets[].name",
	"Tool spec.job.serviceAccountName",
	"Agent spec.serviceAccountName",
	"Harness spec.serviceAccountName",
	"Session spec.serviceAccountName",
	"MCPServer spec.caBundle.configMapKeyRef.key",
	"MCPServer spec.caBundle.configMapKeyRef.name",
	"MCPServer spec.caBundle.secretKeyRef.key",
	"MCPServer spec.caBundle.secretKeyRef.name",
	"MCPServer spec.serviceRef.name",
	"MCPServer spec.serviceRef.path",
	"MCPServer spec.serviceRef.port",
	"MCPServer spec.serviceRef.scheme",
	"Model spec.caBundle.configMapKeyRef.key",
	"Model spec.caBundle.configMapKeyRef.name",
	"Model spec.caBundle.secretKeyRef.key",
	"Model spec.caBundle.secretKeyRef.name",
	"Model spec.serviceRef.name",
	"Model spec.serviceRef.path",
	"Model spec.serviceRef.port",
	"Model spec.serviceRef.scheme",
	"Tool spec.http.caBundle.configMapKeyRef.key",
	"Tool spec.http.caBundle.configMapKeyRef.name",
	"Tool spec.http.caBundle.secretKeyRef.key",
	"Tool spec.http.caBundle.secretKeyRef.name",
	"Tool spec.http.serviceRef.name",
	"Tool spec.http.serviceRef.path",
	"Tool spec.http.serviceRef.port",
	"Tool spec.http.serviceRef.scheme",
}
