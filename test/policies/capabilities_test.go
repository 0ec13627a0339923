package policies_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// risky is a reference to a Capability that accepts a high risk.
func risky(name string) v1alpha1.CapabilityReference {
	return v1alpha1.CapabilityReference{Name: name, MaxRisk: v1alpha1.CapabilityRiskHigh}
}

// mayAssign lets a user assign capabilities of a high risk.
func mayAssign(ids ...string) rbacv1.PolicyRule {
	rule := assigns()
	rule.ResourceNames = ids
	return rule
}

// Rules: CAP-01.
var _ = Describe("The policy capability-risks", func() {
	notYours := func(id string) string {
		return fmt.Sprintf("you are not allowed to assign %q with the maxRisk High: it requires the verb "+
			"assign-high-risk on capabilities.capstan.dev/%s.", id, id)
	}
	// Whatever can name a capability, by the fields that assigning lists.
	carriers := map[string]func(...v1alpha1.CapabilityReference) client.Object{
		"an Agent": func(refs ...v1alpha1.CapabilityReference) client.Object {
			return &v1alpha1.Agent{ObjectMeta: named("a"), Spec: v1alpha1.AgentSpec{
				ConfigLayer: v1alpha1.ConfigLayer{Capabilities: refs},
			}}
		},
		"a Harness": func(refs ...v1alpha1.CapabilityReference) client.Object {
			return &v1alpha1.Harness{ObjectMeta: named("h"), Spec: v1alpha1.HarnessSpec{
				ConfigLayer: v1alpha1.ConfigLayer{Capabilities: refs},
			}}
		},
		"a Session": func(refs ...v1alpha1.CapabilityReference) client.Object {
			return &v1alpha1.Session{ObjectMeta: named("s"), Spec: v1alpha1.SessionSpec{
				HarnessRef: v1alpha1.LocalReference{Name: "h"}, ConfigLayer: v1alpha1.ConfigLayer{Capabilities: refs},
			}}
		},
		"a Capability": func(refs ...v1alpha1.CapabilityReference) client.Object {
			c := &v1alpha1.Capability{ObjectMeta: named("c")}
			for _, ref := range refs {
				c.Spec.Dependencies = append(c.Spec.Dependencies, v1alpha1.CapabilityDependency{
					Builtin: ref.Builtin, Name: ref.Name, MaxRisk: ref.MaxRisk,
				})
			}
			return c
		},
	}
	blueprint := func(name string) *v1alpha1.BlueprintReference {
		return &v1alpha1.BlueprintReference{Capability: name, Name: "b", MaxRisk: v1alpha1.CapabilityRiskHigh}
	}
	It("holds for blueprints", func(ctx context.Context) {
		session := carriers["a Session"]().(*v1alpha1.Session)
		session.Spec.Blueprint = blueprint("x")
		helper := &v1alpha1.Tool{ObjectMeta: named("helper"), Spec: v1alpha1.ToolSpec{
			Description: "Helps.", Agent: &v1alpha1.AgentTool{Blueprint: &v1alpha1.AgentBlueprint{
				Capability: "x", Name: "b", MaxRisk: v1alpha1.CapabilityRiskHigh,
			}},
		}}
		user, _ := newUser(ctx, "capstan-tools", "capstan-edit")
		refuses(creating(ctx, user, session), notYours("object/x"))
		refuses(creating(ctx, user, helper), notYours("object/x"))
		user, _ = newUser(ctx, "capstan-tools", "capstan-edit", newRole(ctx, mayAssign("object/x")))
		accepts(creating(ctx, user, session))
		accepts(creating(ctx, user, helper))
	})

	for what, build := range carriers {
		It("holds for "+what, func(ctx context.Context) {
			user, _ := newUser(ctx, "capstan-tools", "capstan-edit")
			accepts(creating(ctx, user, build(v1alpha1.CapabilityReference{Name: "x"})))
			refuses(creating(ctx, user, build(risky("x"))), notYours("object/x"))
			builtin := v1alpha1.CapabilityReference{Builtin: "x", MaxRisk: v1alpha1.CapabilityRiskHigh}
			refuses(creating(ctx, user, build(builtin)), notYours("x"))
			user, _ = newUser(ctx, "capstan-tools", "capstan-edit", newRole(ctx, mayAssign("object/x")))
			accepts(creating(ctx, user, build(risky("x"))))
			refuses(creating(ctx, user, build(builtin)), notYours("x"))
		})
	}

	It("checks each of at most eight references", func(ctx context.Context) {
		var refs []v1alpha1.CapabilityReference
		var ids []string
		for i := range 9 {
			name := fmt.Sprintf("c-%d", i)
			refs, ids = append(refs, risky(name)), append(ids, "object/"+name)
		}
		user, _ := newUser(ctx, "capstan-edit", newRole(ctx, mayAssign(ids...)))
		session := carriers["a Session"]
		accepts(creating(ctx, user, session(refs[:8]...)))
		for i := range 8 {
			theirs := append([]v1alpha1.CapabilityReference{}, refs[:8]...)
			theirs[i] = risky("theirs")
			refuses(creating(ctx, user, session(theirs...)), notYours("object/theirs"))
		}
		refuses(creating(ctx, user, session(refs...)), "a request may add at most 8 references with the maxRisk High.")
	})

	It("checks only references that a request adds or changes", func(ctx context.Context) {
		agent := carriers["an Agent"](risky("x"), v1alpha1.CapabilityReference{Name: "y"}).(*v1alpha1.Agent)
		agent.Name = "assigned"
		stored(ctx, admin, agent)
		user, _ := newUser(ctx, "capstan-tools")
		accepts(updating(ctx, user, agent, func(a *v1alpha1.Agent) { a.Spec.SystemPrompt = "Be kind." }))
		accepts(updating(ctx, user, agent, func(a *v1alpha1.Agent) { a.Spec.Capabilities = a.Spec.Capabilities[:1] }))
		refuses(updating(ctx, user, agent, func(a *v1alpha1.Agent) {
			a.Spec.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(`{"a":1}`)}
		}), notYours("object/x"))
		refuses(updating(ctx, user, agent, func(a *v1alpha1.Agent) {
			a.Spec.Capabilities[1].MaxRisk = v1alpha1.CapabilityRiskHigh
		}), notYours("object/y"))
	})

	It("lets nobody else raise, lower or change a high risk", func(ctx context.Context) {
		const noVerb = "you are not allowed to write a Capability with the riskLevel High: it requires the verb " +
			"assign-high-risk on it."
		of := func(name string, risk v1alpha1.CapabilityRisk) *v1alpha1.Capability {
			return &v1alpha1.Capability{ObjectMeta: named(name), Spec: v1alpha1.CapabilitySpec{RiskLevel: risk}}
		}
		set := func(risk v1alpha1.CapabilityRisk) func(*v1alpha1.Capability) {
			return func(c *v1alpha1.Capability) { c.Spec.RiskLevel, c.Spec.SystemPrompt = risk, "Do." }
		}
		high, low := v1alpha1.CapabilityRiskHigh, v1alpha1.CapabilityRiskLow
		stored(ctx, admin, of("risky", high))
		stored(ctx, admin, of("safe", low))
		user, _ := newUser(ctx, "capstan-tools")
		refuses(creating(ctx, user, of("new", high)), noVerb)
		refuses(updating(ctx, user, of("safe", low), set(high)), noVerb)
		refuses(updating(ctx, user, of("risky", high), set(low)), noVerb)
		refuses(updating(ctx, user, of("risky", high), set(high)), noVerb)
		accepts(updating(ctx, user, of("safe", low), set(v1alpha1.CapabilityRiskMedium)))
		user, _ = newUser(ctx, "capstan-tools", newRole(ctx, mayAssign("object/risky")))
		accepts(updating(ctx, user, of("risky", high), set(low)))
		accepts(updating(ctx, user, of("risky", high), set(high)))
	})

	It("lets an administrator of the namespace assign and write all", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-admin")
		accepts(creating(ctx, user, carriers["a Session"](risky("x"))))
		accepts(creating(ctx, user, &v1alpha1.Capability{
			ObjectMeta: named("any"), Spec: v1alpha1.CapabilitySpec{RiskLevel: v1alpha1.CapabilityRiskHigh},
		}))
	})
})

// assigning are the fields of our kinds by which a capability of a high risk is assigned.
var assigning = []string{
	"Agent spec.capabilities[].maxRisk",
	"Capability spec.dependencies[].maxRisk",
	"Harness spec.capabilities[].maxRisk",
	"Session spec.capabilities[].maxRisk",
	"Schedule spec.sessionTemplate.blueprint.maxRisk",
	"Session spec.blueprint.maxRisk",
	"Tool spec.agent.blueprint.maxRisk",
}
