package turns_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// reader is a Capability with a blueprint that calls the Tool ask-ann, and whose Model is helping.
func reader(namespace string) *v1alpha1.Capability {
	return &v1alpha1.Capability{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "research"},
		Spec: v1alpha1.CapabilitySpec{Blueprints: []v1alpha1.Blueprint{{
			Name: "reader", Description: "Reads.", SystemPrompt: "Read.", ModelPolicy: v1alpha1.BlueprintModelFixed,
			ModelRef: &v1alpha1.LocalReference{Name: "helping"}, Tools: []v1alpha1.LocalReference{{Name: "ask-ann"}},
			ConfigSchema: &v1alpha1.JSON{Raw: []byte(
				`{"type":"object","properties":{"depth":{"type":"number"}},"required":["depth"]}`)},
		}}},
	}
}

// Rules: BP-02, BP-04, GAP-09, SPAWN-01, SPAWN-05.
var _ = Describe("A blueprint of a Capability", func() {
	stage := func(ctx context.Context, simulation v1alpha1.Simulation) string {
		GinkgoHelper()
		namespace := newNamespace(ctx, simulation)
		create(
			ctx,
			builder.ClientTool("ask-ann").In(namespace).Obj(),
			builder.Model("helping").
				In(namespace).
				Simulated(builder.Script("Ann: {{tool:ask-ann}}", builder.Calls("ask-ann"))).
				Obj(),
		)
		return namespace
	}

	It("is what a Session is", func(ctx context.Context) {
		namespace := stage(ctx, builder.Script("No."))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Blueprint = &v1alpha1.BlueprintReference{
			Capability: "research", Name: "reader", Config: &v1alpha1.JSON{Raw: []byte(`{"depth":1.0}`)},
		}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		conditions := func() []metav1.Condition { return session.Status.Conditions }
		Eventually(readyOf(ctx, namespace, "demo", session, conditions)).Should(HavePrefix(v1alpha1.ReasonCapabilityNotFound))
		create(ctx, reader(namespace))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		create(ctx, builder.ToolResult("answer", "1-0").In(namespace).Turn("demo-1").Result("Yes.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Ann: Yes."))
		Expect(turn.Status.Model).NotTo(BeNil())
	})

	It("is what a sub-agent is that the model starts", func(ctx context.Context) {
		arguments := `{"message":"Look.","config":{"depth":2.0}}`
		call := builder.Call("spawn_reader")
		call.RawArguments = &arguments
		namespace := stage(ctx, builder.Script("It says {{tool:spawn_reader}}", []v1alpha1.SimulatedToolCall{call}))
		create(ctx, reader(namespace))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Name: "research"}, {Builtin: "subagents"}}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		name := agentOf(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.WaitForTools("ask-ann"))
		agents := agentsIn(ctx, namespace)
		Expect(agents).To(HaveLen(1))
		Expect(agents[0].Spec.Blueprint).NotTo(BeNil())
		Expect(string(agents[0].Spec.Blueprint.Config.Raw)).To(MatchJSON(`{"depth":2}`))
		Expect(agents[0].Spec.Capabilities).To(BeEmpty())
		create(ctx, builder.ToolResult("answer", "1-0").In(namespace).Turn(name).Result("Yes.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-1").Status.Output).To(Equal("It says Ann: Yes."))
	})

	It("does not run with a config that it does not accept", func(ctx context.Context) {
		arguments := `{"message":"Look.","config":{"depth":"x"}}`
		call := builder.Call("spawn_reader")
		call.RawArguments = &arguments
		namespace := stage(ctx, builder.Script("done", []v1alpha1.SimulatedToolCall{call}))
		create(ctx, reader(namespace))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Name: "research"}, {Builtin: "subagents"}}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0].SubAgent).To(BeNil())
		Expect(agentsIn(ctx, namespace)).To(BeEmpty())
	})
})
