package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// talkative is a model provider that fails once, with all headers of the request, then calls tools, one in a response,
// and then responds with its own key.
type talkative struct {
	tools    []string
	requests atomic.Int32
}

// ServeHTTP implements http.Handler.
func (m *talkative) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(m.requests.Add(1)) - 2
	if n < 0 {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, fmt.Sprint(r.Header)), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices, more string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}`+
			"\n\n", choices, more)
	}
	reason := "stop"
	if n < len(m.tools) {
		reason = "tool_calls"
		chunk(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d",`+
			`"type":"function","function":{"name":%q,"arguments":%q}}]}}`, n, m.tools[n], byReference), "")
	} else {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":%q}}`, "Told with "+
			r.Header.Get("Authorization")), "")
	}
	chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason), "")
	chunk("", `,"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// spanLog has the spans that a manager exports.
type spanLog struct {
	mu    sync.Mutex
	spans []capstantest.Span
}

func (l *spanLog) note(s capstantest.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, s)
}

func (l *spanLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%+v", l.spans)
}

var _ = Describe("Secrets of all kinds", Ordered, func() {
	spans, asked := &spanLog{}, &promptLog{}
	begin := onOwnServer(capstantest.Options{
		Jobs: jobs.Run, Providers: providers.All(), EgressAllow: loopback, EgressRoots: testRoots(), Payments: true,
		Prompts: asked.note, OnSpan: spans.note, Transport: func(next http.RoundTripper) http.RoundTripper {
			return requests.wrap(next)
		},
	})

	// echoes returns what it has got, with the headers.
	echoes := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.Header, string(body))
	}
	secret := func(namespace, name string, hosts ...string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
				v1alpha1.AnnotationAllowedHosts: strings.Join(hosts, ","),
			}},
			StringData: map[string]string{"key": planted + "-" + name},
		}
	}
	of := func(name string) *v1alpha1.SecretKeyReference {
		return &v1alpha1.SecretKeyReference{Name: name, Key: "key"}
	}

	// Every server here returns, in what it responds or in an error, what it has got.
	//
	// Rules: CONN-01, CRED-01, KV-02, PAY-01.
	It("are sent, and are in no status, journal, Record, Event, log, metric, span or prompt", func(ctx context.Context) {
		kit = begin()
		double := &talkative{tools: []string{"keyed", "connected", "session", "buy", "work", "mcp_search__find"}}
		provider, plain, shop := newSite(double.ServeHTTP), newSite(echoes), newStore()
		shop.Content = echoes
		found := sites.MCPHandler(sites.Stateless, sites.Echo("find"))
		mcp := newSite(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"tools/call"`) {
				http.Error(w, fmt.Sprint(r.Header, string(body)), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			found.ServeHTTP(w, r)
		})
		hook := newSite(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, fmt.Sprint(r.Header), http.StatusInternalServerError)
		})

		keyed, connected, session := plain.tool("keyed", v1alpha1.SideEffectPure),
			plain.tool("connected", v1alpha1.SideEffectAtMostOnce), plain.tool("session", v1alpha1.SideEffectIdempotent)
		keyed.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{{Name: "X-Key", SecretKeyRef: of("header")}}
		connected.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
			{Name: "Authorization", Connection: &v1alpha1.HeaderConnection{Provider: "github", Scheme: "Bearer"}},
		}
		session.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
			{Name: "X-Session-Key", SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "token"}},
		}
		session.Spec.HTTP.SecretArguments = ofKey
		work := builder.JobTool("work", v1alpha1.SideEffectPure).Obj()
		work.Spec.Job.Env = []v1alpha1.EnvVar{{Name: "KEY", SecretKeyRef: of("env")}}
		namespace := newNamespace(ctx, builder.Script("unused"), keyed, connected, session,
			shop.tool(v1alpha1.SideEffectAtMostOnce), work)
		model := builder.Model("talkative").In(namespace).Obj()
		model.Spec.Provider, model.Spec.Model = v1alpha1.ModelProviderOpenAI, "m"
		model.Spec.API, model.Spec.BaseURL = v1alpha1.ModelAPIChatCompletions, provider.URL+"/v1"
		model.Spec.SecretKeyRef = of("model")
		search := serverAt(mcp)
		search.Namespace = namespace
		search.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "X-Server-Key", SecretKeyRef: of("server")}}
		wallet := secret(namespace, "wallet", shop.site.Listener.Addr().String())
		wallet.Annotations[v1alpha1.AnnotationWalletMaxPerDay] = "1"
		wallet.StringData["key"] = payerKey
		unbound := secret(namespace, "env")
		unbound.Annotations = nil
		create(ctx, secret(namespace, "header", plain.host()), secret(namespace, "model", provider.host()),
			secret(namespace, "server", mcp.host()), secret(namespace, "hook", hook.host()), wallet, unbound,
			builder.Connection(namespace, "github", "ann", token(planted+"-connection"), plain.host()), search, model)
		demo := builder.Session("demo").In(namespace).Obj()
		demo.Spec.ModelRef = &v1alpha1.LocalReference{Name: "talkative"}
		demo.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		for _, event := range []v1alpha1.HookEvent{v1alpha1.HookEventPreToolUse, v1alpha1.HookEventPostToolUse} {
			demo.Spec.Hooks = append(demo.Spec.Hooks, v1alpha1.Hook{
				Name: strings.ToLower(string(event)), Event: event, OnError: v1alpha1.HookErrorPolicyAllow,
				Webhook: &v1alpha1.WebhookHook{
					URL: hook.URL + "/", Headers: []v1alpha1.WebhookHeader{{Name: "X-Hook-Key", SecretKeyRef: of("hook")}},
				},
			})
		}
		create(ctx, demo)
		create(ctx, builder.SessionSecrets(namespace, "demo", demo.UID, map[string]string{
			"key": planted + "-argument", "token": planted + "-session",
		}, plain.host()))
		create(ctx, by("ann", namespace, "demo-1"))
		turn := finished(ctx, namespace, "demo-1")
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseSucceeded), "%+v", turn.Status)

		Expect(turn.Status.Output).To(Equal("Told with Bearer [API key]"), "a Model that responds with its key")
		Expect(turn.Status.Summary.ToolCalls).To(BeEquivalentTo(len(double.tools)))

		By("looking at what the servers have got")
		sent := func(s *site) string {
			var all []string
			for _, r := range s.requests() {
				all = append(all, fmt.Sprint(r.Header), r.body)
			}
			return strings.Join(all, "\n")
		}
		for name, s := range map[string]*site{
			"header": plain, "connection": plain, "argument": plain, "session": plain, "model": provider, "server": mcp,
			"hook": hook,
		} {
			Expect(sent(s)).To(ContainSubstring(planted+"-"+name), "the secret "+name+" is sent")
		}
		Expect(shop.site.requests()).To(ContainElement(HaveField("Header", HaveKey("Payment-Signature"))), "it is paid")

		By("looking for the secrets everywhere else")
		var prompts []string
		for _, r := range provider.requests() {
			prompts = append(prompts, r.body)
		}
		Expect(prompts).To(HaveLen(len(double.tools)+2), "the prompts")
		var pods corev1.PodList
		var made batchv1.JobList
		Expect(kit.Client.List(ctx, &pods, client.InNamespace(namespace))).To(Succeed())
		Expect(kit.Client.List(ctx, &made, client.InNamespace(namespace))).To(Succeed())
		for what, of := range map[string]any{
			"a prompt": prompts, "a request for the model": asked.given, "a span": spans.text(), "a Pod": pods, "a Job": made,
		} {
			raw, err := json.Marshal(of)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(raw)).NotTo(ContainSubstring(planted), what)
			Expect(string(raw)).NotTo(ContainSubstring(payerKey), what)
		}
		expectUnseen(ctx, namespace)
		expectNoTrace(ctx, namespace, payerKey)
		Expect(spans.text()).To(ContainSubstring("execute_tool keyed"), "the spans of the Turn")
	})
})
