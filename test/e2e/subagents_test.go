//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// branches is how many sub-agents a Turn of a tree calls.
	branches = 5
	// treeLimit bounds a spec with a tree.
	treeLimit = 6 * time.Minute
)

// narrow are the arguments of a manager with one slot, one place, and memory for one conversation.
var narrow = []string{"--max-active-turns=1", "--max-activities=1", "--conversation-bytes=16777216"}

// newTree creates a namespace whose Turn calls five sub-agents, each of which calls five, which respond within a time.
func newTree(ctx context.Context, leaf time.Duration) string {
	GinkgoHelper()
	five := func(name string) calls {
		var all calls
		for i := range branches {
			all = append(all, call(name, arguments{"branch": i}))
		}
		return all
	}
	namespace := newStage(
		ctx,
		builder.Script("{{tool:middle}}", five("middle")),
		builder.AgentTool("middle", "middle").Obj(),
	)
	for _, object := range []client.Object{
		builder.AgentTool("leaf", "leaf").In(namespace).Obj(),
		builder.Model("middle").In(namespace).Simulated(builder.Script("{{tool:leaf}}", five("leaf"))).Obj(),
		builder.Model("leaf").In(namespace).Simulated(slow(leaf, builder.Script("the fruit"))).Obj(),
		builder.Harness("middle").In(namespace).Model("middle").Tools("leaf").Obj(),
		builder.Harness("leaf").In(namespace).Model("leaf").Obj(),
	} {
		create(ctx, object)
	}
	return namespace
}

// agentsIn are the Turns of the sub-agents of a namespace.
func agentsIn(ctx context.Context, namespace string) []v1alpha1.Turn {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	Expect(api.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
	var agents []v1alpha1.Turn
	for _, turn := range turns.Items {
		if turn.Spec.Origin.SubAgentOf() != nil {
			agents = append(agents, turn)
		}
	}
	return agents
}

// expectTree checks that each sub-agent of the tree has run once, and that the Turn has the totals of all.
func expectTree(ctx context.Context, namespace string) {
	GinkgoHelper()
	top := read(ctx, namespace, "demo-1")
	Expect(top.Status.Output).To(Equal("the fruit"))
	Expect(top.Status.Summary.SubAgents.Calls).To(BeEquivalentTo(branches))
	Expect(top.Status.Summary.SubAgents.ModelCalls).To(BeEquivalentTo(2*branches + branches*branches))
	agents, depths := agentsIn(ctx, namespace), map[int32]int{}
	for i := range agents {
		agent := &agents[i]
		depths[agent.Spec.Origin.SubAgent.Depth]++
		Expect(agent).To(capstantest.HaveSucceeded())
		for step, entries := range finalEntries(ctx, agent) {
			Expect(entries).To(Equal(1), "%s of %s", step, agent.Name)
		}
	}
	Expect(depths).To(Equal(map[int32]int{1: branches, 2: branches * branches}))
}

// Rules: SPAWN-01, SPAWN-02, SPAWN-03, SPAWN-05.
var _ = Describe("A tree of 31 Turns", alone, func() {
	It("ends although the manager dies again and again", SpecTimeout(treeLimit), func(ctx SpecContext) {
		namespace := newTree(ctx, time.Second)
		ask(ctx, namespace, "demo-1")
		for range 5 {
			known := len(agentsIn(ctx, namespace))
			Eventually(ctx, func() bool {
				return len(agentsIn(ctx, namespace)) > known || known == branches+branches*branches
			}).Should(BeTrue())
			dies(ctx)
		}
		Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(2 * takeover).Should(capstantest.HaveSucceeded())
		expectTree(ctx, namespace)
	})

	It("ends with one slot, one place and memory for one conversation", SpecTimeout(treeLimit), func(ctx SpecContext) {
		runManagerWith(ctx, narrow...)
		namespace := newTree(ctx, 200*time.Millisecond)
		ask(ctx, namespace, "demo-1")
		Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(2 * takeover).Should(capstantest.HaveSucceeded())
		expectTree(ctx, namespace)
	})
})

var _ = Describe("A sub-agent beside a Job", alone, func() {
	It("is waited for, while its caller is approved", SpecTimeout(treeLimit), func(ctx SpecContext) {
		runManagerWith(ctx, narrow...)
		review := &authenticationv1.SelfSubjectReview{}
		Expect(api.Create(ctx, review)).To(Succeed())
		guarded := toolbox("guarded", "word-count", v1alpha1.SideEffectAtMostOnce)
		guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
		namespace := newStage(ctx, builder.Script("{{tool:count}}, {{tool:helper}}, {{tool:guarded}}", calls{
			call("count", arguments{"text": "one"}), call("helper", arguments{}),
			call("guarded", arguments{"text": "one two"}),
		}), toolbox("count", "word-count", v1alpha1.SideEffectAtMostOnce), guarded,
			builder.AgentTool("helper", "helper").Obj())
		create(ctx, builder.Model("helper").In(namespace).Simulated(slow(10*time.Second, builder.Script("helped"))).Obj())
		create(ctx, builder.Harness("helper").In(namespace).Model("helper").Obj())
		ask(ctx, namespace, "demo-1")
		Eventually(ctx, turn(namespace, "demo-1")).Should(And(
			capstantest.WaitForApproval("guarded"),
			capstantest.HaveToolCall("count", v1alpha1.ToolCallStateSucceeded),
			capstantest.HaveToolCall("helper", v1alpha1.ToolCallStateRunning),
		))
		waiting := read(ctx, namespace, "demo-1")
		decision := capstantest.Decision(waiting, "1-2", v1alpha1.DecisionApprove, review.Status.UserInfo.Username)
		decision.Name = "decision"
		create(ctx, decision)
		Eventually(ctx, acceptance(namespace, "decision")).Should(HavePrefix("True Accepted: The call was approved."))
		Expect(read(ctx, namespace, "demo-1")).To(capstantest.HaveToolCall("helper", v1alpha1.ToolCallStateRunning))
		// The sub-agent has the only slot: the approved call starts once it is free.
		Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(read(ctx, namespace, "demo-1").Status.Output).To(Equal("1, helped, 2"))
		Expect(jobsIn(ctx, namespace)).To(HaveLen(2))
		Expect(agentsIn(ctx, namespace)).To(HaveLen(1))
	})
})
