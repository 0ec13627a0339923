package turns_test

import (
	"context"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

const findTool = "mcp_search__find"

// inquiring starts a Turn whose model calls a tool that asks for a size, and waits until it does.
func inquiring(ctx context.Context, rules ...v1alpha1.MCPToolRule) (string, *site) {
	GinkgoHelper()
	s := newSite(sites.MCPHandler(sites.Stateless, sites.Asking("find")).ServeHTTP)
	namespace := usingServer(ctx, serverAt(s, rules...))
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput(findTool))
	return namespace, s
}

// large is the answer to the question for a size.
func large() v1alpha1.InputAnswer {
	return v1alpha1.InputAnswer{
		ID: "size", Action: v1alpha1.InputActionAccept, Content: &v1alpha1.JSON{Raw: []byte(`{"size":"large"}`)},
	}
}

// acceptedOf is the reason for which a ToolResult was accepted or refused.
func acceptedOf(ctx context.Context, namespace, name string) func() string {
	result := &v1alpha1.ToolResult{}
	return func() string {
		if err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, result); err != nil {
			return err.Error()
		}
		for _, c := range result.Status.Conditions {
			if c.Type == v1alpha1.ConditionAccepted {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
}

// answerTo is an answer as a user writes it after reading the Turn.
func answerTo(ctx context.Context, namespace, name string, answer v1alpha1.InputAnswer) *v1alpha1.ToolResult {
	GinkgoHelper()
	turn, err := kit.Turn(ctx, namespace, "demo-1")()
	Expect(err).NotTo(HaveOccurred())
	result := builder.ToolResult(name, "1-0").In(namespace).Obj()
	result.Spec = v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: turn.Name, UID: turn.UID}, CallID: "1-0",
		CallDigest: turn.Status.ToolCalls[0].CallDigest, SubmittedBy: "ann", Input: &answer,
	}
	return result
}

var _ = Describe("A question of a tool", func() {
	// Rules: CLIENT-03, LIFE-07, MCP-02.
	It("is shown, answered by a ToolResult, and sent to the tool with its state", func(ctx context.Context) {
		namespace, s := inquiring(ctx)
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		call := turn.Status.ToolCalls[0]
		Expect(call.Input.Round).To(BeEquivalentTo(1))
		Expect(call.Input.Requests).To(ConsistOf(And(HaveField("ID", "size"), HaveField("Message", "Which size?"))))
		Expect(turn.Status.WaitsFor).To(ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeInput), HaveField("Message", ContainSubstring(call.CallDigest)))))
		waits := conditionOf(turn, v1alpha1.ConditionWaitingForToolResults)
		Expect(waits.Reason).To(Equal(v1alpha1.ReasonInput))
		Expect(waits.Message).To(ContainSubstring("1-0 (" + findTool + ")"))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))

		wrong := large()
		wrong.Content.Raw = []byte(`{"size":"huge"}`)
		create(ctx, answerTo(ctx, namespace, "wrong", wrong))
		Eventually(acceptedOf(ctx, namespace, "wrong")).Should(Equal("False " + v1alpha1.ReasonInvalidInput))
		bulky := large()
		bulky.Content.Raw = []byte(`{"size":"` + strings.Repeat("x", 17<<10) + `"}`)
		create(ctx, answerTo(ctx, namespace, "bulky", bulky))
		Eventually(acceptedOf(ctx, namespace, "bulky")).Should(Equal("False " + v1alpha1.ReasonInvalidInput))
		other := answerTo(ctx, namespace, "other", large())
		other.Spec.CallDigest = strings.Repeat("0", 64)
		create(ctx, other)
		Eventually(acceptedOf(ctx, namespace, "other")).Should(Equal("False " + v1alpha1.ReasonCallDigestMismatch))

		late := answerTo(ctx, namespace, "late", large())
		create(ctx, answerTo(ctx, namespace, "right", large()))
		output := answered(ctx, namespace).Status.Output
		Expect(output).To(ContainSubstring(`cart-7 {"size":{"action":"accept","content":{"size":"large"}}}`))
		Expect(acceptedOf(ctx, namespace, "right")()).To(Equal("True " + v1alpha1.ReasonAccepted))
		Expect(mcpCalls(s)).To(HaveLen(2))
		Expect(s.keys()).To(HaveLen(3), "two keys, and the requests without one")
		rounds, by := []int32{}, ""
		for _, entry := range journalOf(ctx, namespace) {
			if entry.Claimed != nil {
				rounds = append(rounds, entry.Claimed.Round)
			}
			if entry.Settled != nil && entry.Settled.Answered != nil {
				by = entry.Settled.By
			}
		}
		Expect(rounds).To(Equal([]int32{0, 1}), "the claims of the requests")
		Expect(by).To(Equal("ann"), "who has answered")

		create(ctx, late)
		Eventually(acceptedOf(ctx, namespace, "late")).Should(Equal("False " + v1alpha1.ReasonCallClosed))
	})

	It("is answered once, by the first of two answers", func(ctx context.Context) {
		namespace, s := inquiring(ctx)
		declined := v1alpha1.InputAnswer{ID: "size", Action: v1alpha1.InputActionDecline}
		first, second := answerTo(ctx, namespace, "a-first", large()), answerTo(ctx, namespace, "b-second", declined)
		create(ctx, first, second)
		Expect(answered(ctx, namespace).Status.Output).To(ContainSubstring(`"action":"`))
		Eventually(func() []string {
			return []string{acceptedOf(ctx, namespace, "a-first")(), acceptedOf(ctx, namespace, "b-second")()}
		}).Should(ContainElements(HavePrefix("True "), HavePrefix("False ")))
		Expect(mcpCalls(s)).To(HaveLen(2))
	})

	// Rules: CLIENT-05.
	It("ends with the time limit of the wait, and the tool may have done a part of its work", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Asking("find")).ServeHTTP)
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls(findTool)))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.WaitTimeout = seconds(1)
		server := serverAt(s)
		server.Namespace = namespace
		create(ctx, session, server, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("WaitTimeout"))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(And(
			capstantest.HaveToolCall(findTool, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonTurnEnded),
			HaveField("Status.ToolCalls", ConsistOf(HaveField("Input", BeNil())))))
	})

	It("that a message comes after is still to be answered", func(ctx context.Context) {
		namespace, _ := inquiring(ctx)
		create(ctx, newSteer(namespace, "demo-2", "Hurry up."))
		Consistently(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(seconds(1).Duration).Should(
			capstantest.WaitForInput(findTool))
		Expect(kit.AnswerInput(ctx, namespace, "demo-1", findTool, large())).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
		Expect(answered(ctx, namespace).Status.Output).To(ContainSubstring(`"large"`))
	})

	// Rules: TOOL-16, LIFE-07.
	It("for a connection is answered once that exists, and the call is sent again", func(ctx context.Context) {
		var exists atomic.Bool
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Connecting("find", "shop", exists.Load)).ServeHTTP)
		namespace := usingServer(ctx, serverAt(s))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput(findTool))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(conditionOf(turn, v1alpha1.ConditionWaitingForToolResults).Reason).To(Equal(v1alpha1.ReasonConnection))
		Expect(turn.Status.WaitsFor).To(ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeConnection), HaveField("Message", ContainSubstring(`a connection to "shop"`)))))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		exists.Store(true)
		Expect(kit.AnswerInput(ctx, namespace, "demo-1", findTool, v1alpha1.InputAnswer{
			ID: "shop", Action: v1alpha1.InputActionAccept,
		})).To(Succeed())
		Expect(answered(ctx, namespace).Status.Output).To(Equal(`Told: {"word":"a"}`))
		Expect(mcpCalls(s)).To(HaveLen(2))
		Expect(s.keys()).To(HaveLen(3), "two keys, and the requests without one")
	})

	It("of a repeatable tool needs no claim", func(ctx context.Context) {
		namespace, _ := inquiring(ctx, v1alpha1.MCPToolRule{Name: "find", SideEffect: v1alpha1.SideEffectIdempotent})
		Expect(kit.AnswerInput(ctx, namespace, "demo-1", findTool, large())).To(Succeed())
		Expect(answered(ctx, namespace).Status.Output).To(ContainSubstring(`"large"`))
		for _, entry := range journalOf(ctx, namespace) {
			Expect(entry.Claimed).To(BeNil())
		}
	})
})
