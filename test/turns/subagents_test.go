package turns_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// newTeam returns a namespace whose default model calls these tools at once and then repeats the result of the first
// one. The tool helper is a sub-agent whose model follows a script and has the tools of that.
func newTeam(
	ctx context.Context, calls []string, script v1alpha1.Simulation, changes ...func(*v1alpha1.Tool),
) string {
	GinkgoHelper()
	helper := builder.AgentTool("helper", "helping").Obj()
	for _, change := range changes {
		change(helper)
	}
	own := []*v1alpha1.Tool{helper, builder.ClientTool("ask-ann").Obj()}
	namespace := newNamespace(ctx, builder.Script("It found {{tool:helper}}.", builder.Calls(calls...)), own...)
	create(ctx,
		builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).In(namespace).Obj(),
		builder.Model("helping").In(namespace).Simulated(script).Obj(),
		builder.Harness("helping").In(namespace).Model("helping").Tools("work", "ask-ann", "helper").Obj(),
	)
	return namespace
}

// begin creates the Session and the Turn.
func begin(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
}

// agentsIn are the Sessions of sub-agents.
func agentsIn(ctx context.Context, namespace string) []v1alpha1.Session {
	GinkgoHelper()
	var found v1alpha1.SessionList
	Expect(kit.Client.List(ctx, &found, client.InNamespace(namespace))).To(Succeed())
	var agents []v1alpha1.Session
	for _, session := range found.Items {
		if session.Spec.Origin.SubAgentOf() != nil {
			agents = append(agents, session)
		}
	}
	return agents
}

// agentOf waits until the first call of a Turn runs as a sub-agent, and returns its name.
func agentOf(ctx context.Context, namespace, turn string) string {
	GinkgoHelper()
	var name string
	Eventually(func(g Gomega) {
		found, err := kit.Turn(ctx, namespace, turn)()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Status.ToolCalls).NotTo(BeEmpty())
		g.Expect(found.Status.ToolCalls[0].SubAgent).NotTo(BeNil())
		name = found.Status.ToolCalls[0].SubAgent.Name
		_, err = kit.Turn(ctx, namespace, name)()
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
	return name
}

func turnOf(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	found, err := kit.Turn(ctx, namespace, name)()
	Expect(err).NotTo(HaveOccurred())
	return found
}

func exists(ctx context.Context, object client.Object, namespace, name string) func() (bool, error) {
	return func() (bool, error) {
		err := kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
		return err == nil, client.IgnoreNotFound(err)
	}
}

// Rules: SPAWN-01, SPAWN-02, SPAWN-03, SPAWN-05.
var _ = Describe("A call of a Tool with an agent", func() {
	It("runs as a Session of its own, whose response is the result", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("{{tool:work}}", builder.Calls("work")))
		begin(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		caller := turnOf(ctx, namespace, "demo-1")
		Expect(caller.Status.Output).To(Equal("It found result of 1-0."))
		Expect(caller.Status.ToolCalls).To(HaveLen(1))
		call := caller.Status.ToolCalls[0]
		Expect(call.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
		Expect(call.SubAgent.Totals.ModelCalls).To(BeEquivalentTo(2))
		Expect(caller.Status.Summary.SubAgents.ModelCalls).To(BeEquivalentTo(2))
		Expect(caller.Status.Summary.ModelCalls).To(BeEquivalentTo(2), "model calls of sub-agents are not the Turn's own")

		agents := agentsIn(ctx, namespace)
		Expect(agents).To(HaveLen(1))
		agent := agents[0]
		demo := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, demo)).To(Succeed())
		Expect(agent.Name).To(Equal(call.SubAgent.Name))
		Expect(agent.UID).To(Equal(call.SubAgent.SessionUID))
		Expect(agent.OwnerReferences).To(ConsistOf(HaveField("UID", demo.UID)))
		of := agent.Spec.Origin.SubAgentOf()
		Expect(of.Turn.UID).To(Equal(caller.UID))
		Expect(of.Root.UID).To(Equal(demo.UID))
		own := turnOf(ctx, namespace, agent.Name)
		Expect(own.Spec.Origin.SubAgentOf()).To(Equal(of))
		Expect(own.Spec.Input).To(Equal("{}"))
		Expect(own.Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(300)))
	})

	It("returns the whole of a long response", func(ctx context.Context) {
		words := int32(4000)
		namespace := newTeam(ctx, []string{"helper"}, v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: &words},
		})
		begin(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		text, err := kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()
		Expect(err).NotTo(HaveOccurred())
		Expect(len(text)).To(BeNumerically(">", 16<<10))
		Expect(text).NotTo(ContainSubstring("…"))
	})

	It("fails when the sub-agent fails", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Text: "No.", Code: v1alpha1.ErrorCodeProviderQuotaExhausted,
		}})
		begin(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		call := turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0]
		Expect(call.Reason).To(Equal(v1alpha1.ToolCallReasonSubAgentFailed))
		Expect(call.Preview).To(ContainSubstring("provider_quota_exhausted"))
	})

	It("waits without a write, also for what the sub-agent waits for, and a message does not end that", func(
		ctx context.Context,
	) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("{{tool:ask-ann}}", builder.Calls("ask-ann")))
		begin(ctx, namespace)
		agent := agentOf(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, agent)).Should(capstantest.WaitForTools("ask-ann"))
		Eventually(phaseOf(ctx, namespace, agent)).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		caller := turnOf(ctx, namespace, "demo-1")
		Expect(caller.Status.Phase).To(Equal(v1alpha1.TurnPhaseWaiting))
		Expect(caller.Status.WaitsFor).To(ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeSubAgent), HaveField("Message", ContainSubstring(agent)))))
		Expect(phaseOf(ctx, namespace, "demo")()).To(Equal(v1alpha1.SessionPhaseActive))
		quietly(ctx, namespace)
		waiting := requests.in(namespace)
		Consistently(func() []string { return requests.in(namespace) }).WithTimeout(2 * time.Second).Should(Equal(waiting))

		steer := builder.Turn("demo-2").In(namespace).Obj()
		steer.Spec.Delivery = v1alpha1.DeliverySteer
		create(ctx, steer)
		quietly(ctx, namespace)
		Expect(turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateRunning))
		Expect(kit.Answer(ctx, namespace, agent, "ask-ann", "a needle")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-1").Status.Output).To(Equal("It found a needle."))
	})

	It("is cancelled with its Turn, which ends after it", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper", "helper"}, builder.Script("never", builder.Calls("ask-ann")))
		begin(ctx, namespace)
		agent := agentOf(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, agent)).Should(capstantest.WaitForTools("ask-ann"))
		cancelled(ctx, namespace)
		caller := turnOf(ctx, namespace, "demo-1")
		for _, call := range caller.Status.ToolCalls {
			Expect(call.State).To(Equal(v1alpha1.ToolCallStateUnknown))
			own := turnOf(ctx, namespace, call.SubAgent.Name)
			Expect(own).To(capstantest.HaveFailed("Cancelled"))
		}
	})

	It("is cancelled and deleted when its Turn is deleted", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("never", builder.Calls("ask-ann")))
		begin(ctx, namespace)
		agent := agentOf(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, agent)).Should(capstantest.WaitForTools("ask-ann"))
		Expect(kit.Client.Delete(ctx, turnOf(ctx, namespace, "demo-1"))).To(Succeed())
		Eventually(exists(ctx, &v1alpha1.Session{}, namespace, agent)).Should(BeFalse())
		Eventually(exists(ctx, &v1alpha1.Turn{}, namespace, agent)).WithTimeout(time.Minute).Should(BeFalse())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
	})

	It("is unknown when its Session is deleted, and is not made again", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("never", builder.Calls("ask-ann")))
		begin(ctx, namespace)
		agent := agentOf(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, agent)).Should(capstantest.WaitForTools("ask-ann"))
		session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: agent}}
		Expect(kit.Client.Delete(ctx, session)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		call := turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0]
		Expect(call.State).To(Equal(v1alpha1.ToolCallStateUnknown))
		Expect(call.Reason).To(Equal(v1alpha1.ToolCallReasonSubAgentGone))
		Expect(agentsIn(ctx, namespace)).To(BeEmpty())
	})

	DescribeTable("adopts a Session of its name only if it is the one that it needs", func(
		ctx context.Context, change func(*v1alpha1.Session), state v1alpha1.ToolCallState, reason string,
	) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("done"))
		suspended := builder.Turn("demo-1").In(namespace).Obj()
		suspended.Spec.Suspend = ptr.To(true)
		create(ctx, builder.Session("demo").In(namespace).Obj(), suspended)
		demo, tool := &v1alpha1.Session{}, &v1alpha1.Tool{}
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, demo)).To(Succeed())
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "helper"}, tool)).To(Succeed())
		existing := subagent.Call{
			Session: demo, Turn: turnOf(ctx, namespace, "demo-1"), Step: 2, Call: v1alpha1.ToolCall{ID: "1-0"}, Tool: tool,
		}.NewSession()
		change(existing)
		create(ctx, existing)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))
		Expect(kit.Client.Patch(ctx, suspended, patch)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		call := turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0]
		Expect(call.State).To(Equal(state))
		Expect(call.Reason).To(Equal(reason))
		if state == v1alpha1.ToolCallStateSucceeded {
			Expect(call.SubAgent.SessionUID).To(Equal(existing.UID))
		} else {
			Expect(exists(ctx, &v1alpha1.Turn{}, namespace, existing.Name)()).To(BeFalse())
		}
	},
		Entry("the same", func(*v1alpha1.Session) {}, v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted),
		Entry("without the owner", func(s *v1alpha1.Session) { s.OwnerReferences = nil },
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNameTaken),
		Entry("without the origin", func(s *v1alpha1.Session) { s.Spec.Origin = nil },
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNameTaken),
		Entry("of another depth", func(s *v1alpha1.Session) { s.Spec.Origin.SubAgent.Depth = 2 },
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNameTaken),
		Entry("with a system prompt", func(s *v1alpha1.Session) { s.Spec.SystemPrompt = "Obey me." },
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNameTaken),
		Entry("of another Harness", func(s *v1alpha1.Session) { s.Spec.HarnessRef.Name = "base" },
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNameTaken),
	)

	It("is not executed when a Turn has its name already", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("done"))
		suspended := builder.Turn("demo-1").In(namespace).Obj()
		suspended.Spec.Suspend = ptr.To(true)
		create(ctx, builder.Session("demo").In(namespace).Obj(), suspended)
		name := subagent.Name(turnOf(ctx, namespace, "demo-1").UID, 2, "1-0")
		foreign := builder.Turn(name).In(namespace).Obj()
		foreign.Spec.SessionRef.Name = "elsewhere"
		create(ctx, foreign)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))
		Expect(kit.Client.Patch(ctx, suspended, patch)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		call := turnOf(ctx, namespace, "demo-1").Status.ToolCalls[0]
		Expect(call.Reason).To(Equal(v1alpha1.ToolCallReasonNameTaken))
		Expect(call.State).To(Equal(v1alpha1.ToolCallStateNotExecuted))
	})

	It("leaves behind a Session that the user deletes with the calling one", func(ctx context.Context) {
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("never", builder.Calls("ask-ann")))
		begin(ctx, namespace)
		agent := agentOf(ctx, namespace, "demo-1")
		Expect(kit.Client.Delete(ctx, builder.Session("demo").In(namespace).Obj())).To(Succeed())
		Eventually(exists(ctx, &v1alpha1.Turn{}, namespace, "demo-1")).WithTimeout(time.Minute).Should(BeFalse())
		Eventually(exists(ctx, &v1alpha1.Session{}, namespace, agent)).WithTimeout(time.Minute).Should(BeFalse())
	})
})

// With one place for Turns, a tree of sub-agents ends only if no waiting Turn holds it.
// Rules: SPAWN-05.
var _ = Describe("A tree of sub-agents", Serial, Ordered, func() {
	another := onOwnServer(capstantest.Options{MaxActiveTurns: 1, JobRetention: time.Second})

	// tree is a script that calls the agent below three times, at each of two levels.
	tree := func(ctx context.Context) string {
		GinkgoHelper()
		namespace := suite.Namespace(ctx, kit.Client, "tree-")
		calls := builder.Calls("below", "below", "below")
		leaf := builder.AgentTool("leaf", "leaf").In(namespace).Obj()
		below := builder.AgentTool("below", "middle").In(namespace).Obj()
		create(ctx, leaf, below,
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).In(namespace).Obj(),
			builder.Model("top").In(namespace).Simulated(builder.Script("{{tool:below}}", calls)).Default().Obj(),
			builder.Model("middle").In(namespace).Simulated(
				builder.Script("{{tool:leaf}}", builder.Calls("leaf", "leaf", "work"))).Obj(),
			builder.Model("leaf").In(namespace).Simulated(builder.Script("leaf", builder.Calls("work"))).Obj(),
			builder.Harness("base").In(namespace).Tools("below").Obj(),
			builder.Harness("middle").In(namespace).Model("middle").Tools("leaf", "work").Obj(),
			builder.Harness("leaf").In(namespace).Model("leaf").Tools("work").Obj())
		return namespace
	}

	It("ends with one place, and its Sessions are deleted", func(ctx context.Context) {
		kit = another()
		namespace := tree(ctx)
		begin(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(2 * time.Minute).Should(capstantest.HaveSucceeded())
		caller := turnOf(ctx, namespace, "demo-1")
		Expect(caller.Status.Output).To(Equal("leaf"))
		// 3 at the middle with 2 model calls each, and 6 leaves with 2 each.
		Expect(caller.Status.Summary.SubAgents.ModelCalls).To(BeEquivalentTo(3*2 + 6*2))
		Eventually(func() int { return len(agentsIn(ctx, namespace)) }).WithTimeout(time.Minute).Should(BeZero())
	})

	It("ends although the manager is replaced again and again, and starts each sub-agent once", func(
		ctx context.Context,
	) {
		kit = another()
		namespace := tree(ctx)
		begin(ctx, namespace)
		for range 4 {
			agents := len(agentsIn(ctx, namespace))
			Eventually(func() bool {
				turn, err := kit.Turn(ctx, namespace, "demo-1")()
				return err == nil && turn.Status.Phase == v1alpha1.TurnPhaseSucceeded ||
					len(agentsIn(ctx, namespace)) > agents
			}).WithTimeout(time.Minute).Should(BeTrue())
			Expect(kit.Stop()).To(Succeed())
			kit = another()
		}
		Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(2 * time.Minute).Should(capstantest.HaveSucceeded())
		Expect(turnOf(ctx, namespace, "demo-1").Status.Output).To(Equal("leaf"))
		Expect(turnOf(ctx, namespace, "demo-1").Status.Summary.SubAgents.Calls).To(BeEquivalentTo(3))
	})

	It("keeps the Sessions of a Tool that says so, until the calling Session is deleted", func(ctx context.Context) {
		kit = another()
		namespace := newTeam(ctx, []string{"helper"}, builder.Script("done"), func(t *v1alpha1.Tool) {
			t.Spec.Agent.Retention = v1alpha1.SubAgentRetentionKeep
		})
		begin(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Consistently(func() int { return len(agentsIn(ctx, namespace)) }).WithTimeout(3 * time.Second).Should(Equal(1))
		agent := agentsIn(ctx, namespace)[0]
		_, err := kit.Turn(ctx, namespace, agent.Name)()
		Expect(apierrors.IsNotFound(err)).To(BeFalse())
		Expect(strings.HasPrefix(agent.Name, "agent-")).To(BeTrue())
	})
})
