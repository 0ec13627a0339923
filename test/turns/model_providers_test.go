package turns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// apiKey is the key in the Secrets of these specs.
const apiKey = "sk-m0del-s3cret"

// streamed responds with the events of a stream.
func streamed(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range events {
			var event struct {
				Type string `json:"type"`
			}
			if json.Unmarshal([]byte(data), &event) == nil && event.Type != "" {
				_, _ = fmt.Fprintf(w, "event: %s\n", event.Type)
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
	}
}

// anthropicText is a stream of Anthropic's with one text; anthropicCalls is one with one call.
func anthropicText(text string) http.HandlerFunc {
	return streamed(anthropicStart,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text),
		`{"type":"content_block_stop","index":0}`, anthropicEnds("end_turn"), `{"type":"message_stop"}`)
}

func anthropicCalls(id, tool, arguments string) http.HandlerFunc {
	return streamed(
		anthropicStart,
		fmt.Sprintf(
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`,
			id,
			tool,
		),
		fmt.Sprintf(
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":%q}}`,
			arguments,
		),
		`{"type":"content_block_stop","index":0}`,
		anthropicEnds("tool_use"),
		`{"type":"message_stop"}`,
	)
}

const anthropicStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",` +
	`"model":"claude-test-1","content":[],` +
	`"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":1}}}`

func anthropicEnds(reason string) string {
	return fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":5}}`, reason)
}

// refusing responds with an error of a provider.
func refusing(status int, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After-Ms", "10")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":"no, %s"}}`, kind, apiKey)
	}
}

// inTurn responds with one response after another, the last one again and again.
func inTurn(answers ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(n.Add(1)), len(answers))-1](w, r)
	}
}

// realModel is a Model at a site.
func realModel(namespace, name string, provider v1alpha1.ModelProvider, s *site) *v1alpha1.Model {
	return &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ModelSpec{
			Provider:     provider,
			Model:        name + "-test",
			BaseURL:      s.URL,
			SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "provider", Key: "api-key"},
		},
	}
}

func keySecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "provider"},
		StringData: map[string]string{"api-key": apiKey + "\n"},
	}
}

// withModel is a namespace with a key, whose Sessions are answered by a Model at a site. Its default Model is
// simulated.
func withModel(
	ctx context.Context,
	provider v1alpha1.ModelProvider,
	s *site,
	change func(*v1alpha1.Model),
	tools ...*v1alpha1.Tool,
) string {
	GinkgoHelper()
	namespace := newNamespace(ctx, builder.Script("Hello from the simulated one."), tools...)
	model := realModel(namespace, "real", provider, s)
	if change != nil {
		change(model)
	}
	create(ctx, model)
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.ModelRef = &v1alpha1.LocalReference{Name: "real"}
	create(ctx, session)
	eventuallyReady(ctx, namespace, "simulated")
	return namespace
}

// eventuallyReady waits until a Model can be called.
func eventuallyReady(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(func() (bool, error) {
		model := &v1alpha1.Model{}
		err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, model)
		return meta.IsStatusConditionTrue(model.Status.Conditions, v1alpha1.ConditionReady), err
	}).Should(BeTrue())
}

// keyIsNowhere checks that nothing which people can read has the key in it.
func keyIsNowhere(ctx context.Context, namespace string) {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
	var models v1alpha1.ModelList
	Expect(kit.Client.List(ctx, &models, client.InNamespace(namespace))).To(Succeed())
	for what, object := range map[string]any{
		"the Turns": turns, "the Models": models, "the log": journalOf(ctx, namespace),
	} {
		raw, err := json.Marshal(object)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(ContainSubstring(apiKey), what)
	}
	expectFewEvents(ctx, namespace)
	Expect(managerLog.contains(apiKey)).To(BeFalse(), "the manager has logged it")
}

// generation is the journal's event about a model call.
type generation struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Success  bool   `json:"success"`
	Error    string `json:"error"`
	Tries    int    `json:"tries"`
}

func generationsOf(ctx context.Context, namespace string) []generation {
	GinkgoHelper()
	var found []generation
	for _, entry := range journalOf(ctx, namespace) {
		for _, e := range entry.Events {
			if e.Type != "llm.generation" {
				continue
			}
			var g generation
			Expect(json.Unmarshal(e.Data.Raw, &g)).To(Succeed())
			found = append(found, g)
		}
	}
	return found
}

var _ = Describe("A Model of a real provider", func() {
	It("answers with a tool's help, and its key is nowhere to be seen", func(ctx context.Context) {
		s := newSite(inTurn(anthropicCalls("toolu_1", "weather", `{"city":"Oslo"}`), anthropicText("It is 21 degrees.")))
		namespace := withModel(
			ctx,
			v1alpha1.ModelProviderAnthropic,
			s,
			nil,
			builder.JobTool("weather", v1alpha1.SideEffectPure).Obj(),
		)
		create(ctx, keySecret(namespace))
		jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
			return "21 degrees for " + call.Arguments, "", 0
		})
		create(ctx, builder.Turn("demo-1").In(namespace).Input("How warm is it in Oslo?").Obj())
		turn := answered(ctx, namespace)
		Expect(turn.Status.Output).To(Equal("It is 21 degrees."))
		Expect(turn.Status.Summary.Usage).To(Equal(v1alpha1.Usage{InputTokens: 200, OutputTokens: 10, TotalTokens: 210}))

		Expect(s.requests()).To(HaveLen(2))
		for _, r := range s.requests() {
			Expect(r.Method + " " + r.URL.String()).To(Equal("POST /v1/messages"))
			Expect(r.Header.Get("X-Api-Key")).To(Equal(apiKey))
		}
		var second struct {
			Model    string `json:"model"`
			Messages []struct {
				Role    string `json:"role"`
				Content []struct {
					Type      string          `json:"type"`
					ID        string          `json:"id"`
					Input     json.RawMessage `json:"input"`
					ToolUseID string          `json:"tool_use_id"`
					Content   []struct {
						Text string `json:"text"`
					} `json:"content"`
				} `json:"content"`
			} `json:"messages"`
		}
		Expect(json.Unmarshal([]byte(s.requests()[1].body), &second)).To(Succeed())
		Expect(second.Model).To(Equal("real-test"))
		Expect(second.Messages).To(HaveLen(3))
		called, result := second.Messages[1].Content[0], second.Messages[2].Content[0]
		Expect(called.Type + " " + called.ID + " " + string(called.Input)).To(Equal(`tool_use toolu_1 {"city":"Oslo"}`))
		Expect(result.Type + " " + result.ToolUseID).To(Equal("tool_result toolu_1"))
		Expect(result.Content[0].Text).To(ContainSubstring(`21 degrees for {"city":"Oslo"}`))
		Expect(
			generationsOf(ctx, namespace),
		).To(
			HaveEach(And(HaveField("Provider", "Anthropic"), HaveField("Model", "claude-test-1"), HaveField("Success", true))),
		)
		keyIsNowhere(ctx, namespace)
	})

	DescribeTable(
		"is called with the requests of its provider",
		func(ctx context.Context, provider v1alpha1.ModelProvider, path, header, value string, answer http.HandlerFunc) {
			s := newSite(answer)
			namespace := withModel(ctx, provider, s, nil)
			create(ctx, keySecret(namespace))
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Expect(answered(ctx, namespace).Status.Output).To(Equal("Hi there."))
			Expect(s.requests()).To(HaveLen(1))
			got := s.requests()[0]
			Expect(got.URL.Path).To(Equal(path))
			Expect(got.Header.Get(header)).To(Equal(value))
			keyIsNowhere(ctx, namespace)
		},
		Entry("OpenAI", v1alpha1.ModelProviderOpenAI, "/chat/completions", "Authorization", "Bearer "+apiKey, streamed(
			`{"id":"c-1","object":"chat.completion.chunk","model":"gpt-test","choices":[{"index":0,`+
				`"delta":{"role":"assistant","content":"Hi there."}}]}`,
			`{"id":"c-1","object":"chat.completion.chunk","model":"gpt-test","choices":[{"index":0,"delta":{},`+
				`"finish_reason":"stop"}]}`,
			`[DONE]`,
		)),
		Entry(
			"Google",
			v1alpha1.ModelProviderGoogle,
			"/v1beta/models/real-test:streamGenerateContent",
			"X-Goog-Api-Key",
			apiKey,
			streamed(
				`{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi there."}]},"finishReason":"STOP"}],`+
					`"responseId":"r-1","modelVersion":"gemini-test"}`,
			),
		),
	)

	It("is called again after a rate limit", func(ctx context.Context) {
		s := newSite(
			inTurn(
				refusing(http.StatusTooManyRequests, "rate_limit_error"),
				refusing(529, "overloaded_error"),
				anthropicText("Now."),
			),
		)
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, keySecret(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		turn := answered(ctx, namespace)
		Expect(turn.Status.Output).To(Equal("Now."))
		Expect(turn.Status.Summary.ModelCalls).To(Equal(int32(1)))
		Expect(s.requests()).To(HaveLen(3))
		Expect(s.requests()[2].body).To(Equal(s.requests()[0].body))
		Expect(
			generationsOf(ctx, namespace),
		).To(ConsistOf(generation{Provider: "Anthropic", Model: "claude-test-1", Success: true, Tries: 3}))
		keyIsNowhere(ctx, namespace)
	})

	It("is replaced by its fallbacks, and the journal has the one that responded", func(ctx context.Context) {
		first, second := newSite(
			refusing(http.StatusUnauthorized, "authentication_error"),
		), newSite(
			refusing(http.StatusNotFound, "not_found_error"),
		)
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, first, func(m *v1alpha1.Model) {
			m.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "real"}, {Name: "nowhere"}, {Name: "other"}, {Name: "simulated"}}
		})
		create(ctx, keySecret(namespace))
		other := realModel(namespace, "other", v1alpha1.ModelProviderAnthropic, second)
		other.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "real"}}
		create(ctx, other)
		eventuallyReady(ctx, namespace, "other")
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Expect(answered(ctx, namespace).Status.Output).To(Equal("Hello from the simulated one."))
		Expect(first.requests()).To(HaveLen(1))
		Expect(second.requests()).To(HaveLen(1))
		Expect(generationsOf(ctx, namespace)).To(Equal([]generation{
			{Provider: "Anthropic", Model: "real-test", Error: "Anthropic does not accept the API key (401)"},
			{Provider: "Anthropic", Model: "other-test", Error: "Anthropic has no model other-test for this API key"},
			{Provider: "Simulated", Model: "simulated", Success: true},
		}))
		keyIsNowhere(ctx, namespace)
	})

	It("waits for its key, reports what to do, and responds after that", func(ctx context.Context) {
		s := newSite(anthropicText("Hi."))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		waitsFor := func(reason, message string) {
			GinkgoHelper()
			Eventually(condition(ctx, &v1alpha1.Model{}, namespace, "real", v1alpha1.ConditionReady)).Should(And(
				HaveField(
					"Status",
					metav1.ConditionFalse,
				),
				HaveField("Reason", reason),
				HaveField("Message", ContainSubstring(message)),
			))
			Eventually(condition(ctx, &v1alpha1.Turn{}, namespace, "demo-1", v1alpha1.ConditionSucceeded)).Should(And(
				HaveField(
					"Reason",
					v1alpha1.ReasonSessionNotReady,
				),
				HaveField("Message", ContainSubstring(`Model "real" is not ready (`+reason+`). `)),
				HaveField("Message", ContainSubstring(message)),
			))
		}
		waitsFor(
			v1alpha1.ReasonSecretMissing,
			"kubectl create secret generic provider --namespace "+namespace+" --from-literal=api-key=YOUR_API_KEY",
		)

		secret := keySecret(namespace)
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "api.anthropic.com"}
		create(ctx, secret)
		waitsFor(v1alpha1.ReasonSecretUnusable, `Secret "provider" is bound to hosts`)
		Expect(s.requests()).To(BeEmpty())

		change(
			ctx,
			secret,
			fmt.Sprintf(`{"metadata":{"annotations":{"capstan.dev/allowed-hosts":%q}}}`, strings.TrimPrefix(s.URL, "https://")),
		)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(s.requests()).To(HaveLen(1))
		keyIsNowhere(ctx, namespace)
	})

	It("whose key is deleted during a Turn makes the Turn wait until there is one", func(ctx context.Context) {
		s := newSite(inTurn(anthropicCalls("toolu_1", "ask-ann", "{}"), anthropicText("Done.")))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil, builder.ClientTool("ask-ann").Obj())
		secret := keySecret(namespace)
		create(ctx, secret)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		Expect(kit.Client.Delete(ctx, secret)).To(Succeed())
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(condition(ctx, &v1alpha1.Turn{}, namespace, "demo-1", v1alpha1.ConditionSucceeded)).Should(And(
			HaveField(
				"Status",
				metav1.ConditionUnknown,
			),
			HaveField("Reason", v1alpha1.ReasonSecretMissing),
			HaveField("Message", ContainSubstring("kubectl create secret")),
		))
		Expect(turnPhase(ctx, namespace, "demo-1")()).To(Equal(v1alpha1.TurnPhaseWaiting))
		Eventually(condition(ctx, &v1alpha1.Model{}, namespace, "real", v1alpha1.ConditionReady)).Should(
			HaveField("Reason", v1alpha1.ReasonSecretMissing), "the call has updated the Model")
		Expect(s.requests()).To(HaveLen(1))

		create(ctx, keySecret(namespace))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(s.requests()).To(HaveLen(2))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Model).To(Equal("real"))
		keyIsNowhere(ctx, namespace)
	})

	It("does not send its key to another host", func(ctx context.Context) {
		other := newSite(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
		s := newSite(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		})
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, keySecret(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("ProviderMisconfigured"))
		Expect(s.requests()).To(HaveLen(1))
		Expect(other.requests()).To(BeEmpty())
		keyIsNowhere(ctx, namespace)
	})

	It("that is cancelled while it waits for its provider ends at once", func(ctx context.Context) {
		s := newSite(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, keySecret(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(s.requests).Should(HaveLen(1))
		change(ctx, builder.Turn("demo-1").In(namespace).Input("").Obj(), `{"spec":{"desiredState":"Cancelled"}}`)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("Cancelled"))
		Expect(s.requests()).To(HaveLen(1))
	})
})
