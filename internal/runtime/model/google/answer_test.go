package google

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

func callPart(id, name, arguments string) string {
	return `{"functionCall": {"id": "` + id + `","name": "` + name + `","args": ` + arguments +
		`},"thoughtSignature": "AbCd"}`
}

// signed is a response whose calls are those of callPart, with their signatures; unsigned are the numbers of others.
func signed(r model.Response, unsigned ...int) model.Response {
	if r.Text != "" {
		r.Content = append(r.Content, model.TextPart(r.Text))
	}
	for i := range r.ToolCalls {
		c := model.CallPart(i + 1)
		if !slices.Contains(unsigned, i+1) {
			c.Reasoning = &event.Reasoning{Kind: kindSignature, Data: "AbCd"}
		}
		r.Content = append(r.Content, c)
	}
	return r
}

func TestAnswers(t *testing.T) {
	counted := model.Usage{InputTokens: 120, CacheReadTokens: 100, OutputTokens: 34}
	for name, test := range map[string]struct {
		stream string
		want   model.Response
	}{
		"a text": {hello, model.Response{Text: "Hello", FinishReason: "STOP", Usage: counted}},
		"a text without its tokens": {
			stream(
				`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"modelVersion":"gemini-3-pro-001",` +
					`"responseId":"Wx9_a"}`,
			),
			model.Response{Text: "Hi", FinishReason: "STOP"},
		},
		"nothing at all": {stream(ended("STOP", text(""))), model.Response{FinishReason: "STOP", Usage: counted}},
		"a text that is too long": {
			stream(ended("MAX_TOKENS", text("Once"))), model.Response{Text: "Once", FinishReason: "MAX_TOKENS", Usage: counted},
		},
		"a text that was filtered": {
			stream(chunk(text("Once")), ended("SAFETY", "")), model.Response{
				Text: "Once", FinishReason: model.FinishFiltered, FinishWord: "SAFETY", Usage: counted,
			},
		},
		"a text that ended for another reason": {
			stream(chunk(text("Once")), ended("OTHER", "")), model.Response{Text: "Once", FinishReason: "OTHER", Usage: counted},
		},
		"no thoughts": {
			stream(chunk(`{"text": "I wonder", "thought": true}`), ended("STOP", text("42"))),
			model.Response{Text: "42", FinishReason: "STOP", Usage: counted},
		},
		"calls after a text, in several chunks": {
			stream(chunk(text("I look.")), chunk(
				callPart("a1", "look", `{"b": 9007199254740993, "a":"\u00e9<", "c": 1.0e3}`)+","+callPart("a2", "_2nd", "{}"),
			),
				ended("STOP", callPart("a3", "look", `{"z": 1, "a": [ ]}`))),
			signed(model.Response{Text: "I look.", FinishReason: "STOP", Usage: counted, ToolCalls: []model.ToolCall{
				{ProviderID: "a1", Name: "look", Arguments: `{"b": 9007199254740993, "a":"\u00e9<", "c": 1.0e3}`},
				{ProviderID: "a2", Name: "2nd", Arguments: "{}"},
				{ProviderID: "a3", Name: "look", Arguments: `{"z": 1, "a": [ ]}`},
			}}),
		},
		"a call without id and arguments": {
			stream(ended("STOP", `{"functionCall": {"name": "now"}},`+callPart("b", "look", `{"a": 1}`))),
			signed(model.Response{FinishReason: "STOP", Usage: counted, ToolCalls: []model.ToolCall{
				{Name: "now", Arguments: "{}"}, {ProviderID: "b", Name: "look", Arguments: `{"a": 1}`},
			}}, 1),
		},
		"line breaks of other kinds": {
			"data:" + chunk(text("Hel")) + "\n\n\n\n" + "data: " + chunk(
				callPart("a", "look", `{"a": 1}`),
			) + "\n\n" + "data: " + ended(
				"STOP", callPart("b", "look", `{"b": 2}`),
			),
			signed(model.Response{Text: "Hel", FinishReason: "STOP", Usage: counted, ToolCalls: []model.ToolCall{
				{ProviderID: "a", Name: "look", Arguments: `{"a": 1}`}, {ProviderID: "b", Name: "look", Arguments: `{"b": 2}`},
			}}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, providertest.Answer{Body: test.stream})
			if err != nil {
				t.Fatal(err)
			}
			test.want.ResponseID, test.want.Model = "Wx9_a", "gemini-3-pro-001"
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("got\n%+v\nwant\n%+v", *got, test.want)
			}
		})
	}
}

func TestAnAnswerWithoutNamesHasThoseOfTheRequest(t *testing.T) {
	got, err := ask(
		t,
		providertest.Answer{Body: stream(`{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}`)},
	)
	if err != nil || !reflect.DeepEqual(*got, model.Response{Text: "Hi", FinishReason: "STOP", Model: "gemini-3-pro"}) {
		t.Errorf("Generate = %+v, %v", got, err)
	}
}

// TestAnswersThatBreakOff is LLM-05: what can be used counts.
func TestAnswersThatBreakOff(t *testing.T) {
	counted := model.Usage{InputTokens: 120}
	once := &model.Response{Text: "Once", Usage: counted}
	unavailable := `{"error": {"code": 503,"message": "` + prompt + `","status": "UNAVAILABLE"}}`
	for name, test := range map[string]struct {
		answer providertest.Answer
		want   *model.Response
		code   v1alpha1.ErrorCode
	}{
		"within a text": {answer: cut(chunk(text("Once"))), want: once},
		"within a chunk": {
			answer: providertest.Answer{Body: stream(chunk(text("Once"))) + `data: {"candidates": [{"content"`, Cut: true},
			want:   once,
		},
		"quietly, in a text": {answer: providertest.Answer{Body: stream(chunk(text("Once")))}, want: once},
		"quietly, in a chunk": {
			answer: providertest.Answer{Body: stream(chunk(text("Once"))) + `data: {"candidates": [{"content"`}, want: once,
		},
		"before anything":  {answer: cut(), code: v1alpha1.ErrorCodeProviderUnavailable},
		"quietly, at once": {answer: providertest.Answer{}, code: v1alpha1.ErrorCodeProviderUnavailable},
		"after a thought": {
			answer: cut(chunk(`{"text": "I wonder", "thought": true}`)), code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"within the one call": {
			answer: providertest.Answer{
				Body: `data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "look","args": {"a"`, Cut: true,
			},
			code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"after a call": {
			answer: cut(chunk(text("I look.") + "," + callPart("a", "look", `{"a": 1}`))),
			want: new(signed(model.Response{
				Text: "I look.", Usage: counted, ToolCalls: []model.ToolCall{
					{ProviderID: "a", Name: "look", Arguments: `{"a": 1}`},
				},
			})),
		},
		"with an error after a text": {
			answer: providertest.Answer{Body: stream(chunk(text("Once")), unavailable)}, want: once,
		},
		"with an error at once": {
			answer: providertest.Answer{Body: stream(unavailable)}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with an error that is no event": {
			answer: providertest.Answer{Body: unavailable}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with a limit": {
			answer: providertest.Answer{
				Body: stream(`{"error": {"code": 429,"message": "slow down","status": "RESOURCE_EXHAUSTED"}}`),
			},
			code: v1alpha1.ErrorCodeProviderRateLimited,
		},
		"with an empty error": {
			answer: providertest.Answer{Body: stream(`{"error": {}}`)}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with invalid JSON": {
			answer: providertest.Answer{Body: stream("{\"a\": " + prompt)}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with garbage": {
			answer: providertest.Answer{
				Body: strings.Repeat("\x00\xff\xfe"+prompt+"\r\n", 1000),
			}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with a page for people": {
			answer: providertest.Answer{
				Body: "<html>" + prompt, Header: map[string]string{"Content-Type": "text/html"},
			}, code: v1alpha1.ErrorCodeProcessingError,
		},
		"at its limit, before any text": {
			answer: providertest.Answer{Body: stream(ended("MAX_TOKENS", ""))}, code: v1alpha1.ErrorCodeProcessingError,
		},
		"for another reason, before anything": {
			answer: providertest.Answer{Body: stream(ended("OTHER", ""))}, code: v1alpha1.ErrorCodeProcessingError,
		},
		"for another reason, within the calls": {
			answer: providertest.Answer{Body: stream(chunk(text("I look.")), ended("OTHER", callPart("a", "look", "{}")))},
			code:   v1alpha1.ErrorCodeProcessingError,
		},
		"with a call that the model got wrong": {
			answer: providertest.Answer{
				Body: stream(chunk(text("I look.")), ended("MALFORMED_FUNCTION_CALL", "")),
			}, code: v1alpha1.ErrorCodeProcessingError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, test.answer)
			if test.want != nil {
				want := *test.want
				want.ResponseID, want.Model = "Wx9_a", "gemini-3-pro-001"
				if err != nil || !reflect.DeepEqual(got, &want) {
					t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, want)
				}
				return
			}
			if got != nil || err == nil {
				t.Fatalf("Generate = %+v, %v", got, err)
			}
			if code := model.CodeOf(err); code != test.code {
				t.Errorf("%q has the code %s, want %s", err, code, test.code)
			}
			providertest.CheckSecrets(t, err, secrets...)
		})
	}
}

// TestWhatAFilterEndsIsARefusal: it runs no tool, and is nevertheless a response.
func TestWhatAFilterEndsIsARefusal(t *testing.T) {
	for _, word := range []string{
		"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
		"IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
	} {
		for body, text := range map[string]string{
			stream(ended(word, "")): "",
			stream(chunk(text("I look.")), chunk(callPart("a", "look", "{}")), ended(word, "")): "I look.",
			stream(ended(word, callPart("a", "look", "{}"))):                                    "",
		} {
			got, err := ask(t, providertest.Answer{Body: body})
			if err != nil || got.Text != text || len(got.ToolCalls) > 0 ||
				plan.StopReasonOf(got.FinishReason) != v1alpha1.StopReasonRefusal ||
				got.FinishWord != word {
				t.Errorf("%s: Generate = %+v, %v", word, got, err)
			}
		}
	}
	for _, word := range []string{"SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "JAILBREAK"} {
		got, err := ask(
			t,
			providertest.Answer{
				Body: stream(`{"promptFeedback": {"blockReason": "` + word + `"},"usageMetadata": {"promptTokenCount": 120}}`),
			},
		)
		want := &model.Response{
			FinishReason: model.FinishFiltered,
			FinishWord:   word,
			Usage:        model.Usage{InputTokens: 120},
			Model:        "gemini-3-pro",
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("because of the question, %s: Generate = %+v, %v", word, got, err)
		}
	}
}

// TestMalformedResponses: some of them the SDK panics over.
func TestMalformedResponses(t *testing.T) {
	for _, chunk := range []string{
		`{"candidates":{}}`, `{"candidates":[null]}`, `{"candidates":"x"}`, `{"candidates":[1]}`,
		`{"candidates":[{"citationMetadata":[]}]}`,
		`{"candidates":[{"content":1}]}`, `{"candidates":[{"content":{"parts":[null]}}]}`,
		`{"candidates":[{"content":{"parts":{}}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":[]}]}}]}`, `{"candidates":null}`, `{"usageMetadata":[]}`,
		`{"promptFeedback":1}`, `{}`, `[]`, `null`, `1`,
	} {
		got, err := ask(t, providertest.Answer{Body: stream(chunk)})
		if got != nil || err == nil || model.CodeOf(err) != v1alpha1.ErrorCodeProviderUnavailable {
			t.Errorf("%s: Generate = %+v, %v", chunk, got, err)
			continue
		}
		providertest.CheckSecrets(t, err, secrets...)
	}
}

// cut is a response whose connection breaks.
func cut(data ...string) providertest.Answer {
	return providertest.Answer{Body: stream(data...), Cut: true}
}

func TestAnAnswerThatIsTooLongIsNotCollected(t *testing.T) {
	for name, body := range map[string]string{
		"in many pieces": strings.Repeat(stream(chunk(text(strings.Repeat("x", 1<<19)))), 5),
		"in one":         "data: " + strings.Repeat("x", provider.MaxEvent+1),
		"in thoughts": strings.Repeat(
			stream(chunk(`{"thought": true, "text": "`+strings.Repeat("x", 1<<19)+`"}`)), provider.MaxBody>>19,
		),
		"in calls": stream(
			chunk(callPart("", "look", "{}") + strings.Repeat(`,{"functionCall":{}}`, provider.MaxCalls)),
		),
		"in values": stream(chunk("{}" + strings.Repeat(",{}", provider.MaxValues))),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, providertest.Answer{Body: body})
			if got != nil || err == nil || !strings.Contains(err.Error(), "too long") {
				t.Errorf("Generate = %v, %v", got != nil, err)
			}
		})
	}
}

// TestTheKeyIsInNoAnswer, which a server could have put there for the journal to keep.
func TestTheKeyIsInNoAnswer(t *testing.T) {
	got, err := ask(
		t,
		providertest.Answer{Body: strings.NewReplacer("Wx9_a", "id-"+key, "gemini-3-pro-001", key).Replace(stream(
			chunk(
				text("x-api-key: "+key)+","+callPart(key, "look", `{"a":"`+key+`"}`),
			),
			`{"candidates": [{"finishReason": "STOP"}]}`,
		))},
	)
	want := new(signed(model.Response{
		Text:         "x-api-key: [API key]",
		FinishReason: "STOP",
		Model:        "gemini-3-pro",
		ToolCalls: []model.ToolCall{
			{Name: "look", Arguments: `{"a":"[API key]"}`},
		},
		Usage: model.Usage{InputTokens: 120},
	}))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

func TestEmptyLinesAreNotCollected(t *testing.T) {
	var seen record
	for range 10 {
		seen.write([]byte("\r\n\n"))
	}
	if seen.events.Len() > 0 {
		t.Errorf("%d bytes are kept", seen.events.Len())
	}
	seen.write([]byte("data: 1\n\n\n\ndata: 2\n\n"))
	if first, second := seen.event(), seen.event(); string(first) != "data: 1" || string(second) != "data: 2" {
		t.Errorf("the events are %q and %q", first, second)
	}
}
