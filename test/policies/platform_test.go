package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// Rules: SVC-04.
var _ = Describe("An agent with the capability platform", func() {
	// The agent may do everything with the kinds that its tools manage.
	all := rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"agents", "harnesses", "sessions", "turns"},
		Verbs: []string{"create", "get", "list", "patch", "update", "watch"},
	}

	It("raises its rights through no tool", func(ctx context.Context) {
		run := suite.Platform(ctx, config, admin, teamA, "operator", all)
		stored(ctx, admin, actingAs("operator")["Session"])
		stored(ctx, admin, builder.Turn("acting-1").In(teamA).Session("acting").Obj())
		theirs := actingAs("admin")["Agent"]
		stored(ctx, admin, theirs)
		outcome := func(tool, arguments string) func() string {
			return func() string {
				stdout, stderr, exit := run(capstantest.Call{
					Tool: tool, Session: "acting", Turn: "acting-1", IdempotencyKey: arguments, Arguments: arguments, Context: ctx,
				})
				if exit != 0 {
					return "refused: " + stderr
				}
				return stdout
			}
		}
		Eventually(outcome("platform_list", `{"kind": "agent"}`)).Should(ContainSubstring("items"))

		for _, kind := range []string{"agent", "harness", "session"} {
			harness := ""
			if kind == "session" {
				harness = `"harnessRef": {"name": "base"}, `
			}
			for fields, message := range map[string]string{
				`"serviceAccountName": "operator"`:                                             notYourAccount("operator"),
				`"serviceAccountName": "admin"`:                                                notYourAccount("admin"),
				`"hooks": [{"name": "a", "event": "PreToolUse", "cel": {"expression": "{}"}}]`: "set or disable hooks",
				`"disabledHooks": ["a"]`:                                                       "set or disable hooks",
				`"capabilities": [{"builtin": "platform", "maxRisk": "High"}]`:                 `"platform" with the maxRisk High`,
			} {
				By(kind + " with " + fields)
				create := `{"kind": "` + kind + `", "spec": {` + harness + fields + `}}`
				Eventually(outcome("platform_create", create)).Should(And(
					HavePrefix("refused: the API server refused: "), ContainSubstring(message)))
			}
		}
		for what, c := range map[string]struct{ tool, arguments, message string }{
			"its own Session": {
				"platform_update", `{"kind": "session", "name": "acting", "spec": {"title": "x"}}`, "is your own",
			},
			"an Agent with another account": {
				"platform_update", `{"kind": "agent", "name": "acting", "spec": {"systemPrompt": "Obey."}}`,
				notYourAccount("admin"),
			},
			"the account of an Agent": {
				"platform_update", `{"kind": "agent", "name": "acting", "spec": {"serviceAccountName": "operator"}}`,
				notYourAccount("operator"),
			},
			"an origin": {
				"platform_create", `{"kind": "session", "spec": {"harnessRef": {"name": "base"}, "origin": {"type": "Schedule",
				"schedule": {"schedule": {"name": "a", "uid": "u"}, "tick": "2030-01-01T00:00:00Z"}}}}`,
				"only the manager may set spec.origin",
			},
			"a Tool": {"platform_create", `{"kind": "tool", "spec": {}}`, "kind must be"},
		} {
			By(what)
			Eventually(outcome(c.tool, c.arguments)).Should(And(HavePrefix("refused: "), ContainSubstring(c.message)))
		}
	})

	It("sends messages in its own name only, and approves nothing", func(ctx context.Context) {
		run := suite.Platform(ctx, config, admin, teamA, "sender", all)
		stored(ctx, admin, builder.Session("target").In(teamA).Obj())
		stored(ctx, admin, builder.Turn("sender-1").In(teamA).Session("sender").Obj())
		var sent string
		Eventually(func() int {
			stdout, stderr, exit := run(capstantest.Call{
				Tool: "send_message", Session: "sender", Turn: "sender-1", IdempotencyKey: "k", Context: ctx,
				Arguments: `{"session": "target", "message": "Begin."}`,
			})
			sent = stdout + stderr
			return exit
		}).Should(BeZero(), sent)
		turns := &v1alpha1.TurnList{}
		Expect(admin.List(ctx, turns)).To(Succeed())
		Expect(turns.Items).To(ContainElement(And(
			HaveField("Spec.SessionRef.Name", "target"),
			HaveField("Spec.SubmittedBy", "system:serviceaccount:"+teamA+":sender"))))
		for _, turn := range turns.Items {
			if turn.Spec.SessionRef.Name == "target" {
				Expect(admin.Delete(ctx, &turn)).To(Succeed())
			}
		}
	})
})
