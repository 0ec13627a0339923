//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/mcpwire"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// toolAt is a tool of the MCPServer, as the model calls it.
func toolAt(name string) string { return "mcp_" + mcpName + "__" + name }

// reportsTo is a call of a tool of the MCPServer that reports to a toolServer.
func reportsTo(w *toolServer, tool string) v1alpha1.SimulatedToolCall {
	GinkgoHelper()
	return call(toolAt(tool), arguments{"url": w.url + "/" + tool})
}

var _ = Describe("An MCPServer in a pod", alone, Ordered, ContinueOnFailure, Label(hereLabel), func() {
	var host *mcpHost
	BeforeAll(func(ctx SpecContext) { host = newMCPHost(ctx) }, NodeTimeout(rolloutLimit+patience))

	// Rules: MCP-01, MCP-02, MCP-03.
	DescribeTable("is listened to, discovered and called", func(ctx SpecContext, g site.Generation, version string) {
		echo := toolAt("echo")
		p := host.newMCPStage(ctx, g, "plain", builder.Script("Told: {{tool:"+echo+"}}",
			calls{call(echo, arguments{"word": "a"})}, calls{call(echo, arguments{"word": "b"})}), nil)
		answer := answered(ctx, p.namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal(`Told: {"word":"b"}`))
		Expect(callOf(answer, echo).Executor).To(Equal(v1alpha1.ToolExecutorMCP))
		server, err := p.discovered(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(server.Status.ProtocolVersion).To(Equal(version))
		Expect(server.Status.DiscoveredTools).To(HaveExactElements(HaveField("Name", "echo"), HaveField("Name", "report")))
		Expect(api.Delete(ctx, server)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { p.showMessages(ctx, "messages with a "+string(g)+" server") },
			NodeTimeout(patience))
		Eventually(ctx, func(ctx context.Context) (map[mcpwire.Purpose]mcpwire.Conversation, error) {
			messages, err := p.messages(ctx)
			return mcpwire.ByPurpose(messages), err
		}).Should(Equal(mcpwire.Expected(g)))
		keys := p.called(ctx, 2)
		Expect(keys[0]).NotTo(Equal(keys[1]), "two calls have the same idempotency key")
	},
		Entry("with sessions", site.Stateful, "2025-11-25", SpecTimeout(specLimit)),
		Entry("without sessions", site.Stateless, "2026-07-28", SpecTimeout(specLimit)),
	)

	// Rules: DUR-01, DUR-02, MCP-02.
	DescribeTable("is killed during a call",
		func(ctx SpecContext, g site.Generation, class v1alpha1.SideEffect) {
			w, report := newToolServer(ctx), toolAt("report")
			w.hold("report")
			var rules []v1alpha1.MCPToolRule
			if class != v1alpha1.SideEffectAtMostOnce {
				rules = []v1alpha1.MCPToolRule{{Name: "report", SideEffect: class}}
			}
			p := host.newMCPStage(ctx, g, "plain", builder.Script("{{tool:"+report+"}}", calls{reportsTo(w, "report")}), rules)
			ask(ctx, p.namespace, "demo-1")
			w.visited(ctx, "report", 1)
			first := p.called(ctx, 1)
			p.kill(ctx)
			w.letGo("report")
			made := callOf(succeeded(ctx, p.namespace, "demo-1"), report)
			Expect(made.SideEffect).To(Equal(class))
			if class == v1alpha1.SideEffectAtMostOnce {
				Expect(made.State).To(Equal(v1alpha1.ToolCallStateUnknown))
				Expect(made.Reason).To(Equal(v1alpha1.ToolCallReasonConnectionLost))
				Expect(made.Attempt).To(BeEquivalentTo(1))
				p.called(ctx, 0)
				Expect(w.of("report")).To(HaveLen(1), "runs of the tool")
			} else {
				Expect(made.State).To(Equal(v1alpha1.ToolCallStateSucceeded))
				Expect(made.Attempt).To(BeEquivalentTo(2))
				Expect(p.called(ctx, 1)).To(Equal(first), "idempotency keys of the attempts")
				Expect(read(ctx, p.namespace, "demo-1").Status.Output).To(Equal(w.of("report")[1].receipt))
			}
			before := len(w.of("report"))
			again := answered(ctx, p.namespace, "demo-2")
			Expect(callOf(again, report).State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(w.of("report")).To(HaveLen(before+1), "runs of the tool")
			p.showMessages(ctx, "messages with the next pod")
		},
		Entry("with sessions, AtMostOnce", site.Stateful, v1alpha1.SideEffectAtMostOnce, SpecTimeout(specLimit)),
		Entry("with sessions, Idempotent", site.Stateful, v1alpha1.SideEffectIdempotent, SpecTimeout(specLimit)),
		Entry("without sessions, AtMostOnce", site.Stateless, v1alpha1.SideEffectAtMostOnce, SpecTimeout(specLimit)),
		Entry("without sessions, Idempotent", site.Stateless, v1alpha1.SideEffectIdempotent, SpecTimeout(specLimit)),
	)

	// Rules: MCP-02.
	It("that was replaced between two Turns has a new session", SpecTimeout(specLimit), func(ctx SpecContext) {
		echo := toolAt("echo")
		p := host.newMCPStage(ctx, site.Stateful, "plain", builder.Script("{{tool:"+echo+"}}",
			calls{call(echo, arguments{"word": "a"})}), nil)
		answered(ctx, p.namespace, "demo-1")
		p.kill(ctx)
		Expect(answered(ctx, p.namespace, "demo-2").Status.Output).To(Equal(`{"word":"a"}`))
		p.showMessages(ctx, "messages with the next pod")
		messages, err := p.messages(ctx)
		Expect(err).NotTo(HaveOccurred())
		expected := mcpwire.Expected(site.Stateful)[mcpwire.Calls]
		Expect(mcpwire.Conversations(messages)).To(ContainElements(
			ContainElement(mcpwire.Exchange{Request: "POST ping", Session: true, Response: "404"}),
			Equal(expected[:4]),
		))
		p.called(ctx, 1)
	})

	// Rules: DUR-01, MCP-02.
	It("has a task that outlives two managers", SpecTimeout(crashLimit), func(ctx SpecContext) {
		w, report := newToolServer(ctx), toolAt("report")
		w.hold("report")
		p := host.newMCPStage(ctx, site.Stateless, "tasks", builder.Script("{{tool:"+report+"}}",
			calls{reportsTo(w, "report")}), nil)
		asked := func(ctx context.Context) (int, error) {
			found, err := p.requests("tasks/get")(ctx)
			return len(found), err
		}
		ask(ctx, p.namespace, "demo-1")
		for range 2 {
			before, err := asked(ctx)
			Expect(err).NotTo(HaveOccurred())
			Eventually(ctx, asked).WithTimeout(takeover).Should(BeNumerically(">", before))
			dies(ctx)
		}
		before, err := asked(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, asked).WithTimeout(takeover).Should(BeNumerically(">", before))
		w.letGo("report")
		answer := succeeded(ctx, p.namespace, "demo-1")
		Expect(w.of("report")).To(HaveLen(1), "runs of the task")
		Expect(answer.Status.Output).To(Equal(w.of("report")[0].receipt))
		Expect(callOf(answer, report).Attempt).To(BeEquivalentTo(1))
		p.called(ctx, 1)
		Expect(p.requests("tasks/cancel")(ctx)).To(BeEmpty())
		Expect(finalEntries(ctx, answer)).To(Equal(map[string]int{"step 1": 1, "step 2": 1, "step 3": 1}))
		Expect(outcomes(ctx, answer)).To(HaveKey(report))
		p.showMessages(ctx, "messages about the task")
	})

	// Rules: MCP-01, MCP-02, PHASE-07.
	It("changes a tool during a Turn, which is not called before the model was shown it", SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			// A server is asked for its tools at most every 30 s: both wait at the same time.
			var changed []func()
			for _, g := range []site.Generation{site.Stateful, site.Stateless} {
				changed = append(changed, host.changesTool(ctx, g))
			}
			for _, expect := range changed {
				expect()
			}
		})

	// Rules: MCP-02, DUR-02.
	It("with hints that lie has tools that wait for approval, and run at most once", SpecTimeout(specLimit),
		func(ctx SpecContext) {
			w, wipe := newToolServer(ctx), toolAt("wipe")
			w.hold("wipe")
			p := host.newMCPStage(ctx, site.Stateless, "lying", builder.Script("{{tool:"+wipe+"}}", calls{reportsTo(w, "wipe")}),
				[]v1alpha1.MCPToolRule{{Name: "wipe", Policy: v1alpha1.ToolPolicyRequiresApproval}})
			server, err := p.discovered(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(server.Status.DiscoveredTools).To(ConsistOf(HaveField("Hints", BeEmpty())))
			ask(ctx, p.namespace, "demo-1")
			Eventually(ctx, turn(p.namespace, "demo-1")).Should(capstantest.WaitForApproval(wipe))
			Expect(w.of("wipe")).To(BeEmpty())
			p.called(ctx, 0)
			waiting := read(ctx, p.namespace, "demo-1")
			Expect(callOf(waiting, wipe).SideEffect).To(Equal(v1alpha1.SideEffectAtMostOnce))
			create(ctx, capstantest.Decision(waiting, "1-0", v1alpha1.DecisionApprove, whoAmI(ctx)))
			w.visited(ctx, "wipe", 1)
			p.kill(ctx)
			w.letGo("wipe")
			Expect(callOf(succeeded(ctx, p.namespace, "demo-1"), wipe)).To(And(
				HaveField("State", v1alpha1.ToolCallStateUnknown), HaveField("Attempt", BeEquivalentTo(1))))
			p.called(ctx, 0)
			Expect(w.of("wipe")).To(HaveLen(1), "runs of the tool")
		})

	// Rules: CLIENT-03, MCP-02.
	It("asks a question that is answered with kubectl", SpecTimeout(specLimit), func(ctx SpecContext) {
		tool := toolAt("ask")
		p := host.newMCPStage(ctx, site.Stateless, "asking", builder.Script("Told: {{tool:"+tool+"}}",
			calls{call(tool, nil)}), nil)
		ask(ctx, p.namespace, "demo-1")
		kubectl(ctx, "wait", "--namespace", p.namespace, "--for=condition=WaitingForToolResults", "turn/demo-1",
			"--timeout=60s")
		waiting := read(ctx, p.namespace, "demo-1")
		Expect(waiting).To(capstantest.WaitForInput(tool))
		condition := meta.FindStatusCondition(waiting.Status.Conditions, v1alpha1.ConditionWaitingForToolResults)
		Expect(condition.Reason).To(Equal(v1alpha1.ReasonInput))
		made := callOf(waiting, tool)
		Expect(made.Input.Requests).To(ConsistOf(And(HaveField("ID", "size"), HaveField("Message", "Which size?"))))
		apply(ctx, p.namespace, fmt.Sprintf(`
apiVersion: capstan.dev/v1alpha1
kind: ToolResult
metadata: {name: demo-1-size}
spec:
  turnRef: {name: demo-1, uid: %s}
  callID: %s
  callDigest: %s
  submittedBy: %s
  input: {id: size, action: Accept, content: {size: large}}
`, waiting.UID, made.ID, made.CallDigest, whoAmI(ctx)))
		Eventually(ctx, acceptance(p.namespace, "demo-1-size")).Should(HavePrefix("True Accepted: "))
		answer := succeeded(ctx, p.namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal(`Told: cart-7 {"size":{"action":"accept","content":{"size":"large"}}}`))
		keys := p.called(ctx, 2)
		Expect(keys[0]).NotTo(Equal(keys[1]), "the rounds have the same idempotency key")

		By("answering with the plugin")
		ask(ctx, p.namespace, "demo-2")
		Eventually(ctx, turn(p.namespace, "demo-2")).Should(capstantest.WaitForInput(tool))
		ann := reach(cluster(), p.namespace, withToken(ctx, p.namespace, "capstan-edit"))
		Expect(ann.Run(ctx, "answer", "demo-2").Out).To(And(ContainSubstring("Which size?"),
			ContainSubstring("size (string), required [small, large]"), ContainSubstring("--question size --set size=VALUE")))
		refused := ann.Run(ctx, "answer", "demo-2", "--set", "color=red")
		Expect(refused.Code).To(Equal(1))
		Expect(refused.Err).To(ContainSubstring("add --set size=VALUE"))
		accepted := ann.Run(ctx, "answer", "demo-2", "1-0", "--question", "size", "--set", "size=large")
		Expect(accepted.Code).To(Equal(0), accepted.Err)
		Expect(succeeded(ctx, p.namespace, "demo-2").Status.Output).To(Equal(answer.Status.Output))
		p.showMessages(ctx, "messages about the question")
	})
})

// changesTool lets a server change one of its tools while a Turn waits for a client, after the change. It returns a
// function that expects that the tool is called only once the model was shown its new definition.
func (h *mcpHost) changesTool(ctx context.Context, g site.Generation) (expect func()) {
	GinkgoHelper()
	change, find := toolAt("change"), toolAt("find")
	p := h.newMCPStage(ctx, g, "changing", builder.Script("{{tool:"+find+"}}", calls{call(change, nil)},
		calls{call("ask-ann", nil)}, calls{call(find, arguments{"word": "a"})}, calls{call(find, arguments{"word": "b"})},
	), nil, builder.ClientTool("ask-ann").Obj())
	digest := func(ctx context.Context) (string, error) {
		server, err := p.discovered(ctx)
		for _, t := range server.Status.DiscoveredTools {
			if t.Name == "find" {
				return t.Digest, err
			}
		}
		return "", err
	}
	before, err := digest(ctx)
	Expect(err).NotTo(HaveOccurred())
	ask(ctx, p.namespace, "demo-1")
	Eventually(ctx, turn(p.namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
	return func() {
		GinkgoHelper()
		Eventually(ctx, digest).Should(Not(Or(BeEmpty(), Equal(before))))
		id := callOf(read(ctx, p.namespace, "demo-1"), "ask-ann").ID
		create(ctx, builder.ToolResult("ann", id).In(p.namespace).Result("yes").Obj())
		answer := succeeded(ctx, p.namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal(`{"word":"b"}`))
		p.called(ctx, 2)
		var refused []string
		for _, entry := range journal(ctx, p.namespace) {
			for _, c := range entry.Calls {
				if c.Refusal != "" {
					refused = append(refused, c.Name+" "+c.Arguments+": "+c.Refusal)
				}
			}
		}
		Expect(refused).To(HaveExactElements(And(
			HavePrefix(find+` {"word":"a"}: `), ContainSubstring("present definition"))))
		p.showMessages(ctx, "messages with a "+string(g)+" server that changes a tool")
		messages, err := p.messages(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(mcpwire.Conversations(messages)).To(ContainElement(ContainElement(
			HaveField("Response", HaveSuffix(", notifications/tools/list_changed")))))
	}
}

// whoAmI is the user name of this process at the API server.
func whoAmI(ctx context.Context) string {
	GinkgoHelper()
	return strings.TrimSpace(kubectl(ctx, "auth", "whoami", "--output", "jsonpath={.status.userInfo.username}"))
}
