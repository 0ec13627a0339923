//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// hack/e2e.sh --focus 'An agent that manages agents' runs it alone.
var _ = Describe("An agent that manages agents", func() {
	It("talks to another Session with the rights of its ServiceAccount", SpecTimeout(specLimit), func(ctx SpecContext) {
		const operator = "operator"
		namespace := newStage(ctx, builder.Script(
			"{{tool:send_message}} {{tool:wait_for_idle}} {{tool:recent_messages}} {{tool:platform_create}}",
			calls{call("send_message", arguments{"session": "demo", "message": "Begin."})},
			calls{call("wait_for_idle", arguments{"session": "demo"})},
			calls{
				call("recent_messages", arguments{"session": "demo"}),
				call("platform_create", arguments{"kind": "agent", "spec": map[string]any{}}),
			},
		))
		own := named(namespace, operator)
		session := builder.Session("supervisor").In(namespace).Obj()
		session.Spec.ServiceAccountName = operator
		session.Spec.ModelRef = &v1alpha1.LocalReference{Name: builder.ModelName}
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{
			{Builtin: "platform", MaxRisk: v1alpha1.CapabilityRiskHigh},
		}
		for _, object := range []client.Object{
			&corev1.ServiceAccount{ObjectMeta: own},
			&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{
				{
					APIGroups: []string{"capstan.dev"}, Resources: []string{"sessions", "turns"},
					Verbs: []string{"get", "list", "watch"},
				},
				{APIGroups: []string{"capstan.dev"}, Resources: []string{"turns"}, Verbs: []string{"create"}},
			}},
			&rbacv1.RoleBinding{
				ObjectMeta: own, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: operator},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: operator, Namespace: namespace}},
			},
			session,
			builder.Turn("supervisor-1").In(namespace).Session("supervisor").Obj(),
		} {
			create(ctx, object)
		}
		Eventually(ctx, turn(namespace, "supervisor-1")).Should(capstantest.HaveSucceeded())
		answer := read(ctx, namespace, "supervisor-1")
		show("the agent responded", answer.Status.Output)
		Expect(answer.Status.Output).To(And(
			MatchRegexp(`"session":"demo","turn":"msg-[0-9a-f]{20}"`),
			ContainSubstring(`"status":"Idle","timed_out":false`),
			ContainSubstring(`"role":"user","text":"Begin."`),
			ContainSubstring(`agents.capstan.dev is forbidden`),
		))
		pods := podsOf(ctx, answer)
		Expect(pods).NotTo(BeEmpty())
		for _, pod := range pods {
			Expect(pod.Spec.ServiceAccountName).To(Equal(operator))
			Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
			for _, container := range pod.Spec.InitContainers {
				Expect(container.VolumeMounts).NotTo(ContainElement(HaveField("Name", "capstan-token")))
			}
		}
		var turns v1alpha1.TurnList
		Expect(api.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
		Expect(turns.Items).To(HaveLen(2), "the agent's own Turn and that of its message")
	})
})
