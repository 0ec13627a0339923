package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// planted is a part of the values of all secrets here.
const planted = "pl4nted"

// expectUnseen verifies that no object, no log and no metric has the values of secrets: not in Events, in the journal,
// which is what prompts are made of, and in the Records.
func expectUnseen(ctx context.Context, namespace string) {
	GinkgoHelper()
	expectNoTrace(ctx, namespace, planted)
	var records v1alpha1.RecordList
	Expect(kit.Client.List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
	raw, err := json.Marshal(records)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(raw)).NotTo(ContainSubstring(planted), "a Record")
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	Expect(fmt.Sprint(families)).NotTo(ContainSubstring(planted), "a metric")
}

// secretStage creates a Session whose model calls tools with these arguments, one in a step, in each Turn, and the
// secret "key" of the Session, for these hosts.
func secretStage(
	ctx context.Context, session *v1alpha1.Session, calls []v1alpha1.SimulatedToolCall, tools []*v1alpha1.Tool,
	hosts ...string,
) (string, *corev1.Secret) {
	GinkgoHelper()
	var steps [][]v1alpha1.SimulatedToolCall
	told := ""
	for _, call := range calls {
		steps = append(steps, []v1alpha1.SimulatedToolCall{call})
		told += "{{tool:" + call.Name + "}}"
	}
	namespace := newNamespace(ctx, builder.Script("Told: "+told, steps...), tools...)
	session.Namespace = namespace
	create(ctx, session)
	secret := builder.SessionSecrets(namespace, session.Name, session.UID, map[string]string{
		"key": planted + " \"of\" a/b\nSession",
	}, hosts...)
	create(ctx, secret)
	return namespace, secret
}

func asksWith(tool, arguments string) v1alpha1.SimulatedToolCall {
	call := builder.Call(tool)
	call.RawArguments = &arguments
	return call
}

const byReference = `{"key":"secret://key","note":"secret://key"}`

// ofKey permits secrets in the argument key, and its is the host of a site.
var ofKey = []v1alpha1.SecretArgument{"/key"}

func its(s *site) []string { return []string{s.host()} }

// filling is a tool at a site whose argument key may be a secret.
func filling(s *site, class v1alpha1.SideEffect) *v1alpha1.Tool {
	tool := s.tool("ask", class)
	tool.Spec.HTTP.SecretArguments = ofKey
	return tool
}

// echo is a server that returns what it has got.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if len(body) == 0 {
		body = []byte(r.URL.RawQuery)
	}
	_, _ = w.Write(body)
}

// Rules: KV-02.
var _ = Describe("A secret of a Session", func() {
	DescribeTable("reaches the server, and is in no object, log or metric", func(
		ctx context.Context, class v1alpha1.SideEffect, code int,
	) {
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			echo(w, r)
		})
		hook := newSite(responds(""))
		session := builder.Session("demo").Obj()
		for _, event := range []v1alpha1.HookEvent{v1alpha1.HookEventPreToolUse, v1alpha1.HookEventPostToolUse} {
			session.Spec.Hooks = append(session.Spec.Hooks, v1alpha1.Hook{
				Name: strings.ReplaceAll(strings.ToLower(string(event)), "_", "-"), Event: event,
				Webhook: &v1alpha1.WebhookHook{URL: hook.URL + "/"},
			})
		}
		namespace, _ := secretStage(ctx, session, []v1alpha1.SimulatedToolCall{asksWith("ask", byReference)},
			[]*v1alpha1.Tool{filling(s, class)}, s.host())
		create(ctx, by("ann", namespace, "demo-1"))
		turn := finished(ctx, namespace, "demo-1")
		var got struct{ Key, Note string }
		Expect(s.requests()).To(HaveLen(1))
		Expect(json.Unmarshal([]byte(s.requests()[0].body), &got)).To(Succeed())
		Expect(got.Key).To(Equal(planted+" \"of\" a/b\nSession"), "the argument that the Tool permits")
		Expect(got.Note).To(Equal("secret://key"), "another argument")
		Expect(turn.Status.Output).To(ContainSubstring(`{"key":"[redacted]","note":"secret://key"}`))
		Expect(hook.requests()).To(HaveLen(2))
		for _, payload := range hook.requests() {
			Expect(payload.body).To(ContainSubstring("secret://key"))
			Expect(payload.body).NotTo(ContainSubstring(planted))
		}
		expectUnseen(ctx, namespace)
	},
		Entry("of a Pure tool", v1alpha1.SideEffectPure, 200),
		Entry("of an AtMostOnce tool", v1alpha1.SideEffectAtMostOnce, 200),
		Entry("with an error that shows it", v1alpha1.SideEffectAtMostOnce, 400),
	)

	It("reaches the server in a header that the Tool names, and no other call shows it", func(ctx context.Context) {
		s := newSite(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-Key")) })
		other := newSite(func(w http.ResponseWriter, _ *http.Request) {
			if len(s.requests()) > 0 {
				_, _ = io.WriteString(w, "the key is "+planted+"-of-a-header")
			}
		})
		tool := s.tool("ask", v1alpha1.SideEffectAtMostOnce)
		tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
			{Name: "X-Key", SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "key", Scheme: "Key"}},
		}
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}, {{tool:tell}}",
			[]v1alpha1.SimulatedToolCall{asksWith("ask", `{}`)}, []v1alpha1.SimulatedToolCall{asksWith("tell", `{}`)}),
			tool, other.tool("tell", v1alpha1.SideEffectPure))
		session := builder.Session("demo").In(namespace).Obj()
		create(ctx, session, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1").Status.Output).To(
			ContainSubstring("kubectl capstan secret set key --session demo --host " + s.host()))
		Expect(s.requests()).To(BeEmpty(), "the secret does not exist")
		create(ctx, builder.SessionSecrets(namespace, "demo", session.UID,
			map[string]string{"key": planted + "-of-a-header"}, s.host()), by("ann", namespace, "demo-2"))
		Expect(finished(ctx, namespace, "demo-2").Status.Output).To(
			Equal("Told: [redacted], the key is [redacted]"))
		Expect(s.requests()).To(HaveLen(1))
		Expect(s.requests()[0].Header.Get("X-Key")).To(Equal("Key " + planted + "-of-a-header"))
		expectUnseen(ctx, namespace)
	})

	It("with a line break is not sent in a header", func(ctx context.Context) {
		s := newSite(echo)
		tool := s.tool("ask", v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
			{Name: "X-Key", SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "key"}},
		}
		namespace, _ := secretStage(ctx, builder.Session("demo").Obj(),
			[]v1alpha1.SimulatedToolCall{asksWith("ask", `{}`)}, []*v1alpha1.Tool{tool}, s.host())
		create(ctx, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1").Status.Output).To(ContainSubstring("is not a valid header value"))
		Expect(s.requests()).To(BeEmpty())
		expectUnseen(ctx, namespace)
	})

	It("reaches the server in a query, whose echo is redacted", func(ctx context.Context) {
		s := newSite(echo)
		tool := filling(s, v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Method = v1alpha1.HTTPMethodGet
		tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"key":{"type":"string"}}}`)}
		namespace, _ := secretStage(ctx, builder.Session("demo").Obj(),
			[]v1alpha1.SimulatedToolCall{asksWith("ask", `{"key":"secret://key"}`)}, []*v1alpha1.Tool{tool}, s.host())
		create(ctx, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1").Status.Output).To(Equal("Told: key=[redacted]"))
		Expect(s.requests()[0].URL.Query().Get("key")).To(HavePrefix(planted))
		expectUnseen(ctx, namespace)
	})

	DescribeTable("is not sent", func(
		ctx context.Context, permitted []v1alpha1.SecretArgument, hosts func(*site) []string, arguments, why string,
	) {
		s := newSite(echo)
		tool := s.tool("ask", v1alpha1.SideEffectAtMostOnce)
		tool.Spec.HTTP.SecretArguments = permitted
		namespace, _ := secretStage(ctx, builder.Session("demo").Obj(),
			[]v1alpha1.SimulatedToolCall{asksWith("ask", arguments)}, []*v1alpha1.Tool{tool}, hosts(s)...)
		create(ctx, by("ann", namespace, "demo-1"))
		turn := finished(ctx, namespace, "demo-1")
		if why == "" {
			Expect(s.requests()).To(HaveLen(1))
			Expect(s.requests()[0].body).To(Equal(arguments), "a text like any other")
		} else {
			Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonSecretUnusable))
			Expect(turn.Status.Output).To(ContainSubstring(why))
			Expect(s.requests()).To(BeEmpty())
		}
		expectUnseen(ctx, namespace)
	},
		Entry("by a Tool that does not permit it", nil, its, byReference, ""),
		Entry("in a part of an argument", ofKey, its, `{"key":"Bearer secret://key"}`, ""),
		Entry("without hosts", ofKey, func(*site) []string { return nil }, byReference, "may not be sent to"),
		Entry("to a host that it was not set for", ofKey, func(*site) []string { return []string{"api.example.com"} },
			byReference, "may not be sent to"),
		Entry("if it does not exist", ofKey, its, `{"key":"secret://other"}`,
			"kubectl capstan secret set other --session demo"),
		Entry("under an invalid name", ofKey, its, `{"key":"secret://../key"}`, "is not a reference to a secret"),
	)

	It("of another Session is not used", func(ctx context.Context) {
		s := newSite(echo)
		namespace, _ := secretStage(ctx, builder.Session("demo").Obj(),
			[]v1alpha1.SimulatedToolCall{asksWith("ask", byReference)},
			[]*v1alpha1.Tool{filling(s, v1alpha1.SideEffectPure)}, s.host())
		create(ctx, builder.Session("other").In(namespace).Obj())
		turn := by("ann", namespace, "other-1")
		turn.Spec.SessionRef.Name = "other"
		create(ctx, turn)
		Expect(finished(ctx, namespace, "other-1")).To(capstantest.HaveToolCall("ask",
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonSecretUnusable))
		Expect(s.requests()).To(BeEmpty())
	})

	It("does not follow a redirect to another host, in the body either", func(ctx context.Context) {
		other := newSite(echo)
		var to atomic.Pointer[string]
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, *to.Load(), http.StatusTemporaryRedirect)
		})
		elsewhere := (&url.URL{Scheme: "https", Host: other.host(), Path: "/"}).String()
		to.Store(&elsewhere)
		namespace, _ := secretStage(ctx, builder.Session("demo").Obj(),
			[]v1alpha1.SimulatedToolCall{asksWith("ask", byReference)},
			[]*v1alpha1.Tool{filling(s, v1alpha1.SideEffectPure)}, s.host(), other.host())
		create(ctx, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1")).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateFailed,
			v1alpha1.ToolCallReasonRedirectRefused))
		Expect(other.requests()).To(BeEmpty())
		expectUnseen(ctx, namespace)
	})

	It("is listed by name, and is unusable once the model has deleted it", func(ctx context.Context) {
		s := newSite(echo)
		session := builder.Session("demo").Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_storage"}}
		namespace, secret := secretStage(ctx, session, []v1alpha1.SimulatedToolCall{
			asksWith("list_secrets", "{}"), asksWith("delete_secret", `{"name":"key"}`), asksWith("ask", byReference),
		}, []*v1alpha1.Tool{filling(s, v1alpha1.SideEffectPure)}, s.host())
		create(ctx, by("ann", namespace, "demo-1"))
		turn := finished(ctx, namespace, "demo-1")
		Expect(turn.Status.Output).To(HavePrefix(`Told: {"secrets":["key"]}{"existed":true}`))
		Expect(turn.Status.Output).To(ContainSubstring("was deleted in this session"))
		Expect(s.requests()).To(BeEmpty())
		again := builder.SessionSecrets(namespace, "demo", session.UID, map[string]string{"key": planted + "-again"},
			s.host())
		again.ResourceVersion = secret.ResourceVersion
		Expect(kit.Client.Update(ctx, again)).To(Succeed())
		create(ctx, by("ann", namespace, "demo-2"))
		Expect(finished(ctx, namespace, "demo-2").Status.Output).To(ContainSubstring("was deleted in this session"),
			"the model deletes it again")
		expectUnseen(ctx, namespace)
	})

	It("reaches a tool of an MCPServer whose rule permits it", func(ctx context.Context) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Echo("find")).ServeHTTP)
		server := serverAt(s, v1alpha1.MCPToolRule{Name: "find", SecretArguments: ofKey})
		server.Spec.Headers = append(server.Spec.Headers, v1alpha1.HTTPHeader{
			Name: "X-Key", SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "token"},
		})
		session := builder.Session("demo").Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		namespace, secret := secretStage(ctx, session,
			[]v1alpha1.SimulatedToolCall{asksWith(findTool, byReference)}, nil, s.host())
		two := builder.SessionSecrets(namespace, "demo", session.UID,
			map[string]string{"key": string(secret.Data["key"]), "token": planted + "-token"}, s.host())
		two.ResourceVersion = secret.ResourceVersion
		Expect(kit.Client.Update(ctx, two)).To(Succeed())
		server.Namespace = namespace
		create(ctx, server, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1").Status.Output).
			To(ContainSubstring(`{"key":"[redacted]","note":"secret://key"}`))
		Expect(mcpCalls(s)).To(HaveLen(1))
		Expect(mcpCalls(s)[0].body).To(And(ContainSubstring(planted), ContainSubstring(`"note":"secret://key"`)))
		Expect(mcpCalls(s)[0].Header.Get("X-Key")).To(Equal(planted + "-token"))
		for _, request := range s.requests() {
			if strings.Contains(request.body, `"tools/list"`) {
				Expect(request.Header).NotTo(HaveKey("X-Key"), "the discovery")
			}
		}
		expectUnseen(ctx, namespace)
	})
})
