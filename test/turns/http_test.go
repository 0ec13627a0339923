package turns_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// asking starts a Turn whose model calls the tool once and responds with the tool result.
func asking(ctx context.Context, tool *v1alpha1.Tool, arguments string) string {
	GinkgoHelper()
	asks := builder.Call(tool.Name)
	asks.RawArguments = &arguments
	namespace := newNamespace(
		ctx,
		builder.Script("Told: {{tool:"+tool.Name+"}}", []v1alpha1.SimulatedToolCall{asks}),
		tool,
	)
	create(ctx, builder.Session("demo").In(namespace).Obj())
	create(ctx, builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
	return namespace
}

// answered waits for the end of the Turn and returns it.
func answered(ctx context.Context, namespace string) *v1alpha1.Turn {
	GinkgoHelper()
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	turn, err := kit.Turn(ctx, namespace, "demo-1")()
	Expect(err).NotTo(HaveOccurred())
	return turn
}

// journalOf are the entries of a namespace, in order.
func journalOf(ctx context.Context, namespace string) []journal.Entry {
	GinkgoHelper()
	var list v1alpha1.JournalEntryList
	Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	var entries []journal.Entry
	for _, item := range list.Items {
		entries = append(entries, contentOf(item))
	}
	slices.SortFunc(entries, func(a, b journal.Entry) int { return int(a.Ordinal - b.Ordinal) })
	return entries
}

var _ = Describe("HTTP tools", func() {
	It("send the arguments, and the response is the result", func(ctx context.Context) {
		s := newSite(responds(`{"sky":"clear"}`))
		turn := answered(ctx, asking(ctx, s.tool("ask", v1alpha1.SideEffectPure), `{ "city": "Oslo" }`))
		Expect(turn.Status.Output).To(Equal(`Told: {"sky":"clear"}`))
		Expect(turn).To(capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
		Expect(turn.Status.ToolCalls[0].Executor).To(Equal(v1alpha1.ToolExecutorHTTP))
		Expect(turn.Status.ToolCalls[0].Timeout.Duration).To(Equal(30 * time.Second))
		Expect(s.requests()).To(HaveLen(1))
		got := s.requests()[0]
		Expect(got.Method + " " + got.URL.Path + " " + got.body).To(Equal(`POST /ask { "city": "Oslo" }`))
		Expect(got.Header.Get("Content-Type")).To(Equal("application/json"))
		Expect(got.Header.Get("Idempotency-Key")).To(MatchRegexp(`^[0-9a-f]{64}$`))
		Expect(got.Header.Get("Traceparent")).To(MatchRegexp(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`))
	})

	It("send scalar arguments in the query, and no arguments in any other part", func(ctx context.Context) {
		s := newSite(responds("clear"))
		tool := s.tool("ask", v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Method, tool.Spec.HTTP.URL = v1alpha1.HTTPMethodGet, s.URL+"/v1?unit=c"
		tool.Spec.InputSchema = &v1alpha1.JSON{
			Raw: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}`),
		}
		turn := answered(ctx, asking(ctx, tool, `{"days":3,"city":"../x?unit=f&a=b#c"}`))
		Expect(turn.Status.Output).To(Equal("Told: clear"))
		got := s.requests()[0]
		Expect(got.Method + " " + got.URL.Path).To(Equal("GET /v1"))
		Expect(got.URL.Query()).To(Equal(url.Values{"unit": {"c"}, "days": {"3"}, "city": {"../x?unit=f&a=b#c"}}))
	})

	It("are not offered when no call could be sent", func(ctx context.Context) {
		tool := newSite(responds("")).tool("ask", v1alpha1.SideEffectPure)
		tool.Spec.HTTP.Method = v1alpha1.HTTPMethodGet
		tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"cities":{"type":"array"}}}`)}
		namespace := newNamespace(ctx, v1alpha1.Simulation{}, tool)
		Eventually(func() (string, error) {
			err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "ask"}, tool)
			if ready := meta.FindStatusCondition(tool.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				return ready.Message, err
			}
			return "", err
		}).Should(ContainSubstring(`the property "cities" is not declared as a string, number or boolean`))
	})

	type refusal struct {
		answer  http.HandlerFunc
		class   v1alpha1.SideEffect
		change  func(*v1alpha1.HTTPTool)
		state   v1alpha1.ToolCallState
		reason  string
		message string
		asked   int
	}
	to := func(url string) func(*v1alpha1.HTTPTool) { return func(h *v1alpha1.HTTPTool) { h.URL = url } }
	inASecond := func(h *v1alpha1.HTTPTool) { h.Timeout = &metav1.Duration{Duration: time.Second} }
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
	}
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	const once, pure, idempotent = v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent
	DescribeTable(
		"distinguish endings",
		func(ctx context.Context, c refusal) {
			s := newSite(c.answer)
			tool := s.tool("ask", c.class)
			if c.change != nil {
				c.change(tool.Spec.HTTP)
			}
			namespace := asking(ctx, tool, "{}")
			turn := answered(ctx, namespace)
			Expect(turn).To(capstantest.HaveToolCall("ask", c.state, c.reason))
			Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(ContainSubstring(c.message))
			Expect(s.requests()).To(HaveLen(c.asked))
			Expect(s.keys()).To(HaveLen(min(c.asked, 1)), "every attempt of a call has one key")
		},
		Entry(
			"a client's error",
			refusal{
				status(404, "no such city"),
				once,
				nil,
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonHTTPStatus,
				"status 404 (Not Found). The start of the response:\nno such city",
				1,
			},
		),
		Entry(
			"a server's error, which is not tried again",
			refusal{
				status(503, ""),
				idempotent,
				nil,
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonHTTPStatus,
				"status 503 (Service Unavailable)",
				1,
			},
		),
		Entry(
			"no answer in time, of a tool that may not run again",
			refusal{
				untilGone,
				once,
				inASecond,
				v1alpha1.ToolCallStateUnknown,
				v1alpha1.ToolCallReasonTimeout,
				"It was not run again.",
				1,
			},
		),
		Entry(
			"no answer in time, of a tool that may",
			refusal{
				untilGone,
				pure,
				inASecond,
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonTimeout,
				"within 1s. It may have done part of its work. It is safe to call it again.",
				1,
			},
		),
		Entry(
			"an address of this machine that is not allowed",
			refusal{
				responds(""),
				once,
				to("https://[::1]/"),
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonAddressRefused,
				"no allowed address",
				0,
			},
		),
		Entry(
			"an address in a private network",
			refusal{
				responds(""),
				pure,
				to("https://10.0.0.1/"),
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonAddressRefused,
				"no allowed address",
				0,
			},
		),
		Entry(
			"the metadata of a cloud",
			refusal{
				responds(""),
				pure,
				to("https://169.254.169.254/latest/"),
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonAddressRefused,
				"no allowed address",
				0,
			},
		),
		Entry(
			"a redirect into a private network",
			refusal{
				redirect("https://10.0.0.1/"),
				once,
				nil,
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonRedirectRefused,
				"invalid redirect target",
				1,
			},
		),
		Entry(
			"a redirect to an address without TLS",
			refusal{
				redirect("http://127.0.0.1/"),
				pure,
				nil,
				v1alpha1.ToolCallStateFailed,
				v1alpha1.ToolCallReasonRedirectRefused,
				"invalid redirect target",
				1,
			},
		),
		Entry(
			"no process listens, with an AtMostOnce tool",
			refusal{
				responds(""),
				once,
				to("https://127.0.0.1:1/"),
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonConnectionFailed,
				"It has changed nothing and may be called again.",
				0,
			},
		),
		Entry(
			"a connection that breaks, of a tool that may not run again",
			refusal{
				abort,
				once,
				nil,
				v1alpha1.ToolCallStateUnknown,
				v1alpha1.ToolCallReasonConnectionLost,
				"It was not run again.",
				1,
			},
		),
		Entry(
			"an answer that is too long",
			refusal{
				responds(strings.Repeat("x", 100_000)),
				pure,
				nil,
				v1alpha1.ToolCallStateSucceeded,
				v1alpha1.ToolCallReasonCompleted,
				"and there are more. Call the tool so that it returns less",
				1,
			},
		),
	)

	It("are tried again after a pause when the connection broke and they may run again", func(ctx context.Context) {
		var n atomic.Int32
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				abort(w, r)
			}
			responds("at last")(w, r)
		})
		turn := answered(ctx, asking(ctx, s.tool("ask", v1alpha1.SideEffectIdempotent), "{}"))
		Expect(turn.Status.Output).To(Equal("Told: at last"))
		Expect(turn.Status.ToolCalls[0].Attempt).To(BeEquivalentTo(2))
		Expect(s.keys()).To(HaveLen(1))
	})

	It("run one after another within a concurrency class, beside Jobs and clients", func(ctx context.Context) {
		var at, most atomic.Int32
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			responds(r.URL.Path)(w, r)
		})
		first, second := s.tool("first", v1alpha1.SideEffectPure), s.tool("second", v1alpha1.SideEffectAtMostOnce)
		first.Spec.ConcurrencyClass, second.Spec.ConcurrencyClass = "api", "api"
		namespace := newNamespace(
			ctx,
			builder.Script(
				"{{tool:first}} {{tool:second}} {{tool:work}} {{tool:ask-ann}}",
				builder.Calls("first", "second", "work", "ask-ann"),
			),
			first,
			second,
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			builder.ClientTool("ask-ann").Obj(),
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		create(ctx, builder.ToolResult("ann", "1-3").In(namespace).Result("yes").Obj())
		Expect(answered(ctx, namespace).Status.Output).To(Equal("/first /second result of 1-2 yes"))
		Expect(most.Load()).To(BeEquivalentTo(1))
	})

	It("end with a cancelled Turn, and have an unknown outcome", func(ctx context.Context) {
		arrived, gone := make(chan struct{}), make(chan struct{})
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			untilGone(w, r)
			close(gone)
		})
		namespace := newNamespace(
			ctx,
			builder.Script("never", builder.Calls("pay", "pay")),
			s.tool("pay", v1alpha1.SideEffectAtMostOnce),
		)
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.ToolConcurrency = v1alpha1.ToolConcurrencySequential
		create(ctx, session)
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Pay").Obj())
		Eventually(arrived).Should(BeClosed())
		change(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj(), `{"spec":{"desiredState":"Cancelled"}}`)
		Eventually(gone).Should(BeClosed())
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseCancelled))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateUnknown))
		Expect(
			turn.Status.ToolCalls[1].State,
		).To(Equal(v1alpha1.ToolCallStateNotExecuted), "the second call has no claim")
	})

	It("claim AtMostOnce calls in the journal, and keep their results there", func(ctx context.Context) {
		s := newSite(responds("paid"))
		namespace := asking(ctx, s.tool("pay", v1alpha1.SideEffectAtMostOnce), "{}")
		answered(ctx, namespace)
		entries := journalOf(ctx, namespace)
		Expect(entries).To(HaveLen(5))
		Expect(entries[1].Claimed).To(HaveField("ID", "1-0"))
		Expect(
			entries[2].Settled,
		).To(
			And(
				HaveField("ID", "1-0"), HaveField("State", v1alpha1.ToolCallStateSucceeded),
				HaveField("Result", HaveValue(Equal("paid"))),
			),
		)
		Expect(entries[3].Parts).To(Equal([]int64{3}))
		Expect(entries[3].Final).To(BeTrue())
	})

	DescribeTable("cost the writes of the budget", func(ctx context.Context, class v1alpha1.SideEffect, k int) {
		s := newSite(responds("done"))
		namespace := newNamespace(
			ctx,
			builder.Script("done", slices.Repeat(builder.Calls("ask"), k)),
			s.tool("ask", class),
		)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		more := 0
		if class == v1alpha1.SideEffectAtMostOnce {
			more = 2 * k
		}
		want := slices.Concat(
			beginning,
			[]string{turnWrite},
			times(more, entryWrite),
			[]string{entryWrite, turnWrite, entryWrite},
			ending,
		)
		Expect(want).To(HaveLen(4+4+more), "the sequence is not the budget")
		expectCost(ctx, namespace, before, want)
	},
		Entry("one Pure", v1alpha1.SideEffectPure, 1),
		Entry("three Idempotent", v1alpha1.SideEffectIdempotent, 3),
		Entry("one AtMostOnce: 2 entries more", v1alpha1.SideEffectAtMostOnce, 1),
		Entry("three AtMostOnce: 6 entries more", v1alpha1.SideEffectAtMostOnce, 3),
	)
})
