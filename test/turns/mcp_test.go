package turns_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// serverAt is an MCPServer at a site.
func serverAt(s *site, rules ...v1alpha1.MCPToolRule) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Name: "search"},
		Spec:       v1alpha1.MCPServerSpec{URL: s.URL + "/mcp", Tools: rules},
	}
}

// mcpCalls are the calls of tools that a site has got.
func mcpCalls(s *site) []asked {
	var calls []asked
	for _, r := range s.requests() {
		if strings.Contains(r.body, `"tools/call"`) {
			calls = append(calls, r)
		}
	}
	return calls
}

// usingServer starts a Turn whose model calls the tool find of an MCPServer once and repeats the result.
func usingServer(ctx context.Context, server *v1alpha1.MCPServer) string {
	GinkgoHelper()
	call := builder.Call("mcp_search__find")
	arguments := `{"word":"a"}`
	call.RawArguments = &arguments
	namespace := newNamespace(ctx, builder.Script("Told: {{tool:mcp_search__find}}", []v1alpha1.SimulatedToolCall{call}))
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
	create(ctx, session, builder.Turn("demo-1").In(namespace).Input("Find").Obj())
	if server != nil {
		server.Namespace = namespace
		create(ctx, server)
	}
	return namespace
}

// readyOf is the Ready condition of an object, as its reason and message.
func readyOf(ctx context.Context, namespace, name string, o client.Object, of func() []metav1.Condition) func() string {
	return func() string {
		if err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return err.Error()
		}
		if ready := meta.FindStatusCondition(of(), v1alpha1.ConditionReady); ready != nil {
			return ready.Reason + ": " + ready.Message
		}
		return ""
	}
}

var _ = Describe("The tools of an MCPServer", func() {
	// Rules: MCP-01, MCP-02, MCP-03.
	DescribeTable("are discovered once and called", func(ctx context.Context, g sites.Generation) {
		s := newSite(sites.MCPHandler(g, sites.Echo("find"), sites.Echo("other")).ServeHTTP)
		namespace := usingServer(ctx, serverAt(s))
		turn := answered(ctx, namespace)
		Expect(turn.Status.Output).To(Equal(`Told: {"word":"a"}`))
		Expect(turn).To(capstantest.HaveToolCall(
			"mcp_search__find", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		call := turn.Status.ToolCalls[0]
		Expect(call.Executor).To(Equal(v1alpha1.ToolExecutorMCP))
		Expect(call.SideEffect).To(Equal(v1alpha1.SideEffectAtMostOnce))
		Expect(mcpCalls(s)).To(HaveLen(1))
		Expect(mcpCalls(s)[0].Header.Get("Idempotency-Key")).To(MatchRegexp(`^[0-9a-f]{64}$`))
		Expect(mcpCalls(s)[0].Header.Get("Traceparent")).To(MatchRegexp(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`))

		server := &v1alpha1.MCPServer{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "search"}, server)).To(Succeed())
		Expect(call.ToolUID).To(Equal(server.UID))
		Expect(server.Status.DiscoveredTools).To(HaveExactElements(
			HaveField("Name", "find"), HaveField("Name", "other")))
		Expect(server.Status.ProtocolVersion).NotTo(BeEmpty())
		var records v1alpha1.RecordList
		Expect(kit.Client.List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
		Expect(records.Items).To(HaveLen(1))
		Expect(records.Items[0].Spec.MCPServer).To(Equal("search"))
		Expect(records.Items[0].OwnerReferences).To(ConsistOf(And(
			HaveField("Kind", "MCPServer"), HaveField("UID", server.UID))))

		create(ctx, builder.Turn("demo-2").In(namespace).Input("Again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		lists := 0
		for _, r := range s.requests() {
			if strings.Contains(r.body, `"tools/list"`) {
				lists++
			}
		}
		Expect(lists).To(Equal(1), "a Turn asks the server for its tools")
	},
		Entry("of a server with sessions", sites.Stateful),
		Entry("of a server without", sites.Stateless),
	)

	// Rules: MCP-02.
	It("are called in one session of the server for a Session, until its Secret changes", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateful, sites.Echo("find")).ServeHTTP)
		server := serverAt(s)
		server.Spec.Headers = []v1alpha1.HTTPHeader{
			{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "search", Key: "value"}},
		}
		namespace := usingServer(ctx, server)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "search", Namespace: namespace}, StringData: map[string]string{"value": "one"},
		}
		create(ctx, secret)
		answered(ctx, namespace)
		inSession := func(turn string) {
			GinkgoHelper()
			create(ctx, builder.Turn(turn).In(namespace).Input("Again").Obj())
			Eventually(kit.Turn(ctx, namespace, turn)).Should(capstantest.HaveSucceeded())
		}
		inSession("demo-2")
		change(ctx, secret, `{"stringData":{"value":"two"}}`)
		inSession("demo-3")
		calls := mcpCalls(s)
		Expect(calls).To(HaveLen(3))
		of := func(i int) string { return calls[i].Header.Get("Mcp-Session-Id") }
		Expect(of(0)).To(And(Not(BeEmpty()), Equal(of(1)), Not(Equal(of(2)))))
		ended := func() []string {
			var sessions []string
			for _, r := range s.requests() {
				if r.Method == http.MethodDelete {
					sessions = append(sessions, r.Header.Get("Mcp-Session-Id"))
				}
			}
			return sessions
		}
		Eventually(ended).Should(ContainElement(of(0)))
		Expect(ended()).NotTo(ContainElement(of(2)))
		Expect(kit.Client.Delete(ctx, server)).To(Succeed())
		Eventually(ended).Should(ContainElement(of(2)), "the session outlives its MCPServer")
	})

	// Rules: DUR-01, DUR-02.
	It("are claimed before a call, and not called again when the connection is lost", func(ctx context.Context) {
		handler := sites.MCPHandler(sites.Stateless, sites.Echo("find"))
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") != "" {
				panic(http.ErrAbortHandler)
			}
			handler.ServeHTTP(w, r)
		})
		namespace := usingServer(ctx, serverAt(s))
		turn := answered(ctx, namespace)
		Expect(turn).To(capstantest.HaveToolCall(
			"mcp_search__find", v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonConnectionLost))
		Expect(mcpCalls(s)).To(HaveLen(1))
		claims := 0
		for _, entry := range journalOf(ctx, namespace) {
			if entry.Claimed != nil {
				claims++
			}
		}
		Expect(claims).To(Equal(1), "the journal has no claim of the call")
	})

	It("are tried again when they may be", func(ctx context.Context) {
		handler := sites.MCPHandler(sites.Stateless, sites.Echo("find"))
		var s *site
		s = newSite(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") != "" && len(mcpCalls(s)) == 1 {
				panic(http.ErrAbortHandler)
			}
			handler.ServeHTTP(w, r)
		})
		rule := v1alpha1.MCPToolRule{Name: "find", SideEffect: v1alpha1.SideEffectIdempotent}
		turn := answered(ctx, usingServer(ctx, serverAt(s, rule)))
		Expect(turn.Status.Output).To(Equal(`Told: {"word":"a"}`))
		Expect(turn.Status.ToolCalls[0].Attempt).To(BeEquivalentTo(2))
		Expect(s.keys()).To(HaveLen(2), "the attempts have different keys")
	})

	It("are called once they are approved, unless the MCPServer was changed meanwhile", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Echo("find")).ServeHTTP)
		rule := v1alpha1.MCPToolRule{Name: "find", Policy: v1alpha1.ToolPolicyRequiresApproval}
		approve := func(namespace, turn string) {
			GinkgoHelper()
			waiting, err := kit.Turn(ctx, namespace, turn)()
			Expect(err).NotTo(HaveOccurred())
			create(ctx, capstantest.Decision(waiting, "1-0", v1alpha1.DecisionApprove, "ann"))
		}
		namespace := usingServer(ctx, serverAt(s, rule))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("mcp_search__find"))
		Expect(mcpCalls(s)).To(BeEmpty())
		approve(namespace, "demo-1")
		Expect(answered(ctx, namespace).Status.Output).To(Equal(`Told: {"word":"a"}`))

		create(ctx, builder.Turn("demo-2").In(namespace).Input("Again").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.WaitForApproval("mcp_search__find"))
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "search"}}
		change(ctx, server, `{"spec":{"url":"`+s.URL+`/elsewhere"}}`)
		approve(namespace, "demo-2")
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-2")()).To(capstantest.HaveToolCall(
			"mcp_search__find", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged))
		Expect(mcpCalls(s)).To(HaveLen(1))
	})

	// Rules: MCP-02.
	It("are not called at another url before they are discovered there", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Echo("find")).ServeHTTP)
		namespace := newNamespace(ctx,
			builder.Script("Told: {{tool:mcp_search__find}}", builder.Calls("ask-ann"), builder.Calls("mcp_search__find")),
			builder.ClientTool("ask-ann").Obj())
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		server := serverAt(s)
		server.Namespace = namespace
		create(ctx, server, session, builder.Turn("demo-1").In(namespace).Input("Find").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		change(ctx, server, `{"spec":{"url":"`+s.URL+`/elsewhere"}}`)
		conditions := func() []metav1.Condition { return session.Status.Conditions }
		Eventually(readyOf(ctx, namespace, "demo", session, conditions)).Should(And(
			HavePrefix(v1alpha1.ReasonMCPServerNotReady), ContainSubstring("url or headers have changed")))
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(And(
			HaveField("Status.WaitsFor", ContainElement(And(
				HaveField("Type", v1alpha1.WaitTypeReference),
				HaveField("Reason", v1alpha1.ReasonToolsNotDiscovered),
				HaveField("Message", ContainSubstring(`MCPServer "search"`))))),
			capstantest.HaveToolCall("mcp_search__find", v1alpha1.ToolCallStatePending, v1alpha1.ReasonToolsNotDiscovered)))
		Expect(mcpCalls(s)).To(BeEmpty())

		change(ctx, server, `{"spec":{"url":"`+s.URL+`/mcp"}}`)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(time.Minute).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.HaveToolCall(
			"mcp_search__find", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged))
		Expect(mcpCalls(s)).To(BeEmpty())
	})

	It("may return images", func(ctx context.Context) {
		find := sites.Echo("find")
		find.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: "A plot."}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")},
			}}
		}
		s := newSite(sites.MCPHandler(sites.Stateful, find).ServeHTTP)
		turn := answered(ctx, usingServer(ctx, serverAt(s)))
		Expect(turn.Status.ToolCalls[0].Preview).To(Equal("A plot. (image/png)"))
	})

	It("are waited for before a Turn begins, by name", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Echo("find")).ServeHTTP)
		namespace := usingServer(ctx, nil)
		session := &v1alpha1.Session{}
		conditions := func() []metav1.Condition { return session.Status.Conditions }
		Eventually(readyOf(ctx, namespace, "demo", session, conditions)).Should(And(
			HavePrefix(v1alpha1.ReasonMCPServerNotFound), ContainSubstring(`"search"`)))
		server := serverAt(s)
		server.Namespace = namespace
		create(ctx, server)
		Expect(answered(ctx, namespace).Status.Output).To(Equal(`Told: {"word":"a"}`))
	})

	It("are not known while the server refuses requests, which says what to do", func(ctx context.Context) {
		s := newSite(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
		namespace := usingServer(ctx, serverAt(s))
		server, session := &v1alpha1.MCPServer{}, &v1alpha1.Session{}
		Eventually(readyOf(ctx, namespace, "search", server, func() []metav1.Condition { return server.Status.Conditions })).
			Should(And(HavePrefix(v1alpha1.ReasonDiscoveryFailed), ContainSubstring("status 401")))
		Eventually(readyOf(ctx, namespace, "demo", session, func() []metav1.Condition { return session.Status.Conditions })).
			Should(And(HavePrefix(v1alpha1.ReasonMCPServerNotReady), ContainSubstring("status 401")))
	})
})

var _ = Describe("A Secret in a header of an MCPServer", func() {
	const token = "Bearer mcp-s3cr3t-0f-the-specs"

	It("is sent to the server, waited for, and appears in no other place", func(ctx context.Context) {
		find := sites.Echo("find")
		find.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "You said " + token + "."}}}
		}
		handler := sites.MCPHandler(sites.Stateful, find)
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != token {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			handler.ServeHTTP(w, r)
		})
		server := serverAt(s)
		server.Spec.Headers = []v1alpha1.HTTPHeader{
			{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "api", Key: "token"}},
		}
		namespace := usingServer(ctx, server)
		known := &v1alpha1.MCPServer{}
		Eventually(readyOf(ctx, namespace, "search", known, func() []metav1.Condition { return known.Status.Conditions })).
			Should(And(HavePrefix(v1alpha1.ReasonSecretMissing), ContainSubstring("kubectl create secret generic api")))
		Expect(s.requests()).To(BeEmpty())
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"},
			StringData: map[string]string{"token": token},
		})
		turn := answered(ctx, namespace)
		Expect(turn.Status.Output).To(Equal("Told: You said [redacted]."))
		for what, object := range map[string]any{"the Turn": turn, "the journal": journalOf(ctx, namespace), "it": known} {
			raw, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(raw)).NotTo(ContainSubstring("mcp-s3cr3t"), what)
		}
		Expect(managerLog.contains("mcp-s3cr3t")).To(BeFalse(), "the manager has logged it")
	})
})
