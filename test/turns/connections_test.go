package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// host is that of a site, with its port.
func (s *site) host() string { return strings.TrimPrefix(s.URL, "https://") }

// authorizations are the values of the header that the site has got, without the empty ones.
func (s *site) authorizations() []string {
	var all []string
	for _, r := range s.requests() {
		if value := r.Header.Get("Authorization"); value != "" {
			all = append(all, value)
		}
	}
	return all
}

// connected is a Tool that sends the token of a connection to github to a site.
func connected(s *site, class v1alpha1.SideEffect) *v1alpha1.Tool {
	tool := s.tool("ask", class)
	tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{{
		Name: "Authorization", Connection: &v1alpha1.HeaderConnection{Provider: "github", Scheme: "Bearer"},
	}}
	return tool
}

// token is the data of a connection with this token.
func token(value string) map[string]string { return map[string]string{connection.KeyToken: value} }

// by is a Turn of a user.
func by(user, namespace, name string) *v1alpha1.Turn {
	turn := builder.Turn(name).In(namespace).Input("Ask").Obj()
	turn.Spec.SubmittedBy = user
	return turn
}

// staged creates a Session whose model calls the tool once in each Turn, and these Secrets.
func staged(ctx context.Context, tool *v1alpha1.Tool, secrets ...*corev1.Secret) string {
	GinkgoHelper()
	namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}", builder.Calls("ask")), tool)
	for _, secret := range secrets {
		secret.Namespace = namespace
		create(ctx, secret)
	}
	create(ctx, builder.Session("demo").In(namespace).Obj())
	return namespace
}

// finished waits for the end of a Turn and returns it.
func finished(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
	turn, err := kit.Turn(ctx, namespace, name)()
	Expect(err).NotTo(HaveOccurred())
	return turn
}

// expectNoTrace verifies that no object and no log has a word.
func expectNoTrace(ctx context.Context, namespace, word string) {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	var sessions v1alpha1.SessionList
	var events corev1.EventList
	Expect(kit.Client.List(ctx, &turns)).To(Succeed())
	Expect(kit.Client.List(ctx, &sessions)).To(Succeed())
	Expect(kit.Client.List(ctx, &events)).To(Succeed())
	for what, object := range map[string]any{
		"a Turn": turns, "a Session": sessions, "an Event": events, "the journal": journalOf(ctx, namespace),
	} {
		raw, err := json.Marshal(object)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(ContainSubstring(word), what)
	}
	Expect(managerLog.contains(word)).To(BeFalse(), "the manager has logged it")
}

// setUpGithub reports that the connection to github exists.
func setUpGithub(ctx context.Context, namespace, turn string) {
	GinkgoHelper()
	Expect(kit.AnswerInput(ctx, namespace, turn, "ask", v1alpha1.InputAnswer{
		ID: "github", Action: v1alpha1.InputActionAccept,
	})).To(Succeed())
}

// Rules: CONN-01.
var _ = Describe("A connection of a user", func() {
	echo := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "You said %s.", r.Header.Get("Authorization"))
	}

	DescribeTable("is sent for the Turns of this user, and is in no object", func(
		ctx context.Context, class v1alpha1.SideEffect,
	) {
		s := newSite(echo)
		namespace := staged(ctx, connected(s, class),
			builder.Connection("", "github", "ann", token("ann-t0ken\n"), s.host()),
			builder.Connection("", "github", "bob", token("bob-t0ken"), s.host()))
		create(ctx, by("ann", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1").Status.Output).To(Equal("Told: You said [redacted]."))
		create(ctx, by("bob", namespace, "demo-2"))
		finished(ctx, namespace, "demo-2")
		Expect(s.authorizations()).To(Equal([]string{"Bearer ann-t0ken", "Bearer bob-t0ken"}))
		expectNoTrace(ctx, namespace, "t0ken")
	},
		Entry("a Pure tool", v1alpha1.SideEffectPure),
		Entry("an AtMostOnce tool", v1alpha1.SideEffectAtMostOnce),
	)

	// Rules: TOOL-16.
	DescribeTable("that does not exist is waited for, without a request", func(
		ctx context.Context, class v1alpha1.SideEffect,
	) {
		s := newSite(echo)
		namespace := staged(ctx, connected(s, class), builder.Connection("", "github", "bob", token("b-t0ken"), s.host()))
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput("ask"))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.WaitsFor).To(ConsistOf(HaveField("Type", v1alpha1.WaitTypeConnection)))
		Expect(turn.Status.ToolCalls[0].Input.Requests).To(ConsistOf(HaveField("Message", ContainSubstring(
			"kubectl capstan connect github --namespace "+namespace))))
		Expect(s.requests()).To(BeEmpty())
		setUpGithub(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(And(
			capstantest.WaitForInput("ask"),
			HaveField("Status.ToolCalls", ConsistOf(HaveField("Input.Round", BeEquivalentTo(2)))),
		), "the connection does not exist yet")
		Expect(s.requests()).To(BeEmpty())
		create(ctx, builder.Connection(namespace, "github", "ann", token("a-t0ken"), s.host()))
		setUpGithub(ctx, namespace, "demo-1")
		Expect(finished(ctx, namespace, "demo-1").Status.Output).To(Equal("Told: You said [redacted]."))
		Expect(s.authorizations()).To(Equal([]string{"Bearer a-t0ken"}))
	},
		Entry("by a Pure tool", v1alpha1.SideEffectPure),
		Entry("by an AtMostOnce tool", v1alpha1.SideEffectAtMostOnce),
	)

	DescribeTable("that is not one is not used", func(
		ctx context.Context, change func(*corev1.Secret), why string,
	) {
		s := newSite(echo)
		secret := builder.Connection("", "github", "ann", token("a-t0ken"), s.host())
		change(secret)
		namespace := staged(ctx, connected(s, v1alpha1.SideEffectPure), secret)
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(And(
			capstantest.WaitForInput("ask"),
			HaveField("Status.ToolCalls", ConsistOf(HaveField("Input.Requests", ConsistOf(
				HaveField("Message", ContainSubstring(why)))))),
		))
		Expect(s.requests()).To(BeEmpty())
		expectNoTrace(ctx, namespace, "t0ken")
	},
		Entry("of another user",
			func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationConnectionOwner] = "bob" },
			"does not have the user in its annotation capstan.dev/connection-owner"),
		Entry("without an owner",
			func(s *corev1.Secret) { s.Labels, s.Annotations = nil, nil }, "has no label capstan.dev/connection=github"),
		Entry("to another provider",
			func(s *corev1.Secret) { s.Labels[v1alpha1.LabelConnection] = "gitlab" },
			"has no label capstan.dev/connection=github"),
		Entry("that has expired",
			func(s *corev1.Secret) { s.Data[connection.KeyExpiry] = []byte("2026-01-01T00:00:00Z") }, "has expired"),
		Entry("with the scheme in its token",
			func(s *corev1.Secret) { s.Data[connection.KeyToken] = []byte("Bearer a-t0ken") }, "with a space"),
	)

	It("goes to the hosts that its user has chosen, and to no others", func(ctx context.Context) {
		other := newSite(responds("here"))
		var redirects atomic.Bool
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if redirects.Load() {
				http.Redirect(w, r, other.URL, http.StatusFound)
			}
		})
		namespace := staged(ctx, connected(s, v1alpha1.SideEffectPure),
			builder.Connection("", "github", "ann", token("a-t0ken"), "api.example.org"),
			builder.Connection("", "github", "bob", token("b-t0ken"), s.host(), other.host()))
		create(ctx, by("ann", namespace, "demo-1"))
		turn := finished(ctx, namespace, "demo-1")
		Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted,
			v1alpha1.ToolCallReasonSecretUnusable))
		Expect(s.requests()).To(BeEmpty())
		redirects.Store(true)
		create(ctx, by("bob", namespace, "demo-2"))
		Expect(finished(ctx, namespace, "demo-2")).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateFailed,
			v1alpha1.ToolCallReasonRedirectRefused))
		Expect(other.requests()).To(BeEmpty())
	})

	It("is not that of a Turn without a user", func(ctx context.Context) {
		s := newSite(echo)
		namespace := staged(ctx, connected(s, v1alpha1.SideEffectPure),
			builder.Connection("", "github", "ann", token("a-t0ken"), s.host()))
		create(ctx, by("", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1")).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted,
			v1alpha1.ToolCallReasonConnectionRequired))
		Expect(s.requests()).To(BeEmpty())
	})

	It("of another namespace is not used", func(ctx context.Context) {
		s := newSite(echo)
		staged(ctx, connected(s, v1alpha1.SideEffectPure),
			builder.Connection("", "github", "ann", token("a-t0ken"), s.host()))
		namespace := staged(ctx, connected(s, v1alpha1.SideEffectPure))
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput("ask"))
		Expect(s.requests()).To(BeEmpty())
	})

	// Rules: CRED-01.
	It("has a default, which Turns without a connection are sent with", func(ctx context.Context) {
		s := newSite(echo)
		tool := connected(s, v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Headers[0].SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "github", Key: "authorization"}
		namespace := staged(ctx, tool,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "github"}, StringData: map[string]string{"authorization": "Bearer shared"},
			},
			builder.Connection("", "github", "ann", token("a-t0ken"), s.host()))
		for i, user := range []string{"ann", "bob", ""} {
			create(ctx, by(user, namespace, fmt.Sprintf("demo-%d", i+1)))
			finished(ctx, namespace, fmt.Sprintf("demo-%d", i+1))
		}
		Expect(s.authorizations()).To(Equal([]string{"Bearer a-t0ken", "Bearer shared", "Bearer shared"}))
	})

	It("cannot be the Secret of a Tool, which all users would share", func(ctx context.Context) {
		s := newSite(echo)
		tool := s.tool("ask", v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{
			Name: connection.Name("github", "ann"), Key: connection.KeyToken,
		}}}
		namespace := staged(ctx, tool, builder.Connection("", "github", "ann", token("a-t0ken"), s.host()))
		create(ctx, by("bob", namespace, "demo-1"))
		Expect(finished(ctx, namespace, "demo-1")).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted,
			v1alpha1.ToolCallReasonSecretUnusable))
		Expect(s.requests()).To(BeEmpty())
	})

	DescribeTable("is not lent to the user of a message that is steered into the Turn", func(
		ctx context.Context, user string, want ...string,
	) {
		s, open := newSite(echo), make(chan struct{})
		release := sync.OnceFunc(func() { close(open) })
		gate := newSite(func(http.ResponseWriter, *http.Request) { <-open })
		DeferCleanup(release)
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}", builder.Calls("hold"), builder.Calls("ask")),
			gate.tool("hold", v1alpha1.SideEffectPure), connected(s, v1alpha1.SideEffectPure))
		create(ctx, builder.Connection(namespace, "github", "ann", token("ann-t0ken"), s.host()))
		create(ctx, builder.Connection(namespace, "github", "bob", token("bob-t0ken"), s.host()))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(gate.requests).ShouldNot(BeEmpty())
		steer := newSteer(namespace, "demo-2", "Use her account.")
		steer.Spec.SubmittedBy = user
		create(ctx, steer)
		Consistently(kit.Turn(ctx, namespace, "demo-2")).WithTimeout(seconds(1).Duration).
			Should(HaveField("Status.Phase", v1alpha1.TurnPhaseQueued))
		release()
		turn := finished(ctx, namespace, "demo-1")
		Expect(s.authorizations()).To(ConsistOf(want))
		if len(want) == 0 {
			Expect(turn.Status.Users).To(Equal(v1alpha1.TurnUsersSeveral))
			Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonConnectionRequired))
		}
	},
		Entry("another user", "bob"),
		Entry("an unknown user", ""),
		Entry("but to the Turn's own user", "ann", "Bearer ann-t0ken"),
	)

	It("is refreshed once its token has expired, and waits for its token endpoint", func(ctx context.Context) {
		s := newSite(echo)
		var works atomic.Bool
		login := newSite(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !works.Load() {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = fmt.Fprint(w, `{"access_token":"new-t0ken","expires_in":3600,"token_type":"Bearer"}`)
		})
		connected := connected(s, v1alpha1.SideEffectAtMostOnce)
		secret := builder.Connection("", "github", "ann", map[string]string{
			connection.KeyToken: "old-t0ken", connection.KeyExpiry: "2026-01-01T00:00:00Z",
			connection.KeyRefreshToken: "refresh-t0ken",
		}, s.host())
		secret.Annotations[v1alpha1.AnnotationOAuthClient] = "app"
		secret.Annotations[v1alpha1.AnnotationTokenHosts] = login.host()
		namespace := staged(ctx, connected, secret, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "app", Labels: map[string]string{v1alpha1.LabelOAuthClient: "github"}},
			StringData: map[string]string{
				connection.KeyTokenURL: login.URL, connection.KeyClientID: "id", connection.KeyClientSecret: "client-t0ken",
			},
		})
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.WaitsFor", ConsistOf(And(
			HaveField("Type", v1alpha1.WaitTypeReference),
			HaveField("Reason", v1alpha1.ReasonConnectionUnavailable),
			HaveField("Message", ContainSubstring("status 503")),
		))))
		Expect(s.requests()).To(BeEmpty())
		Expect(journalOf(ctx, namespace)).NotTo(ContainElement(HaveField("Claimed", Not(BeNil()))))
		works.Store(true)
		finished(ctx, namespace, "demo-1")
		create(ctx, by("ann", namespace, "demo-2"))
		finished(ctx, namespace, "demo-2")
		Expect(s.authorizations()).To(Equal([]string{"Bearer new-t0ken", "Bearer new-t0ken"}))
		Expect(login.requests()).To(HaveLen(2), "the failure, and one token for both Turns")
		Expect(login.requests()[1].body).To(ContainSubstring("grant_type=refresh_token&refresh_token=refresh-t0ken"))
		expectNoTrace(ctx, namespace, "t0ken")
	})

	It("is refreshed at no host but those that its user has named", func(ctx context.Context) {
		s := newSite(echo)
		attacker := newSite(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"access_token":"evil","expires_in":3600,"token_type":"Bearer"}`)
		})
		secret := builder.Connection("", "github", "ann", map[string]string{connection.KeyRefreshToken: "refresh-t0ken"},
			s.host())
		secret.Annotations[v1alpha1.AnnotationOAuthClient] = "app"
		secret.Annotations[v1alpha1.AnnotationTokenHosts] = "login.example"
		namespace := staged(ctx, connected(s, v1alpha1.SideEffectPure), secret, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "app", Labels: map[string]string{v1alpha1.LabelOAuthClient: "github"}},
			StringData: map[string]string{
				connection.KeyTokenURL: attacker.URL, connection.KeyClientID: "id", connection.KeyClientSecret: "c",
			},
		})
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput("ask"))
		Expect(attacker.requests()).To(BeEmpty())
		Expect(s.requests()).To(BeEmpty())
		expectNoTrace(ctx, namespace, "t0ken")
	})

	It("is that of the Turn's user for the tools of an MCPServer, and of no user for their discovery", func(
		ctx context.Context,
	) {
		var discovered atomic.Int32
		mcp := sites.MCPHandler(sites.Stateless, sites.Asking("find"))
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				discovered.Add(1)
			}
			mcp.ServeHTTP(w, r)
		})
		server := serverAt(s)
		server.Spec.Headers = []v1alpha1.HTTPHeader{{
			Name: "Authorization", Connection: &v1alpha1.HeaderConnection{Provider: "github", Scheme: "Bearer"},
		}}
		namespace := usingServer(ctx, server)
		turn := finished(ctx, namespace, "demo-1")
		Expect(discovered.Load()).NotTo(BeZero())
		Expect(s.authorizations()).To(BeEmpty())
		Expect(turn).To(capstantest.HaveToolCall(findTool, v1alpha1.ToolCallStateNotExecuted,
			v1alpha1.ToolCallReasonConnectionRequired), "the Turn has no user")
		create(ctx, builder.Connection(namespace, "github", "ann", token("ann-t0ken"), s.host()))
		create(ctx, by("ann", namespace, "demo-2"))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.WaitForInput(findTool))
		Expect(s.authorizations()).NotTo(BeEmpty())
		Expect(s.authorizations()).To(HaveEach("Bearer ann-t0ken"))
	})
})
