package openai

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// call and more are pieces of a tool call.
func callPiece(index, id, name, arguments string) string {
	return delta(
		`{"tool_calls":[{"index":` + index + `,"id":"` + id + `","type":"function","function":{"name":"` + name +
			`","arguments":"` + arguments + `"}}]}`,
	)
}

func morePiece(index, arguments string) string {
	return delta(`{"tool_calls":[{"index":` + index + `,"function":{"arguments":"` + arguments + `"}}]}`)
}

func TestAnswers(t *testing.T) {
	counted := model.Usage{InputTokens: 120, CacheReadTokens: 100, CacheWriteTokens: 15, OutputTokens: 34}
	for name, test := range map[string]struct {
		stream string
		want   model.Response
	}{
		"a text": {hello, model.Response{Text: "Hello", FinishReason: "stop", Usage: counted}},
		"a text without its tokens": {
			chunks(delta(`{"content":"Hello"}`), finish("stop")), model.Response{Text: "Hello", FinishReason: "stop"},
		},
		"nothing at all": {
			chunks(delta(`{"role":"assistant","content":""}`), finish("stop")), model.Response{FinishReason: "stop"},
		},
		"a text that is too long": {
			chunks(
				delta(`{"content":"Once upon"}`), finish("length"), usage,
			), model.Response{Text: "Once upon", FinishReason: "length", Usage: counted},
		},
		"a text that was filtered": {
			chunks(
				delta(`{"content":"Once upon"}`), finish("content_filter"),
			), model.Response{Text: "Once upon", FinishReason: "content_filter"},
		},
		"nothing, because of a filter": {chunks(finish("content_filter")), model.Response{FinishReason: "content_filter"}},
		"no call of an answer that was filtered": {
			chunks(
				delta(`{"content":"I look."}`), callPiece("0", "a", "look", "{}"), callPiece("1", "b", "look", "{"),
				finish("content_filter"),
			),
			model.Response{Text: "I look.", FinishReason: "content_filter"},
		},
		"a filter's word of another provider": {
			chunks(callPiece("0", "a", "look", "{}"), finish("SAFETY")), model.Response{
				FinishReason: "content_filter", FinishWord: "SAFETY",
			},
		},
		"errors that are null": {
			strings.ReplaceAll(chunks(
				delta(`{"content":"Hello, \u003c\"error\": null>"}`),
				callPiece("0", "a", "look", `{\"error\":null, \"n\": 9007199254740993}`), finish("stop"), usage,
			),
				`{"id":`, `{"error": null ,"id":`),
			model.Response{Text: `Hello, <"error": null>`, FinishReason: "stop", Usage: counted, ToolCalls: []model.ToolCall{
				{ProviderID: "a", Name: "look", Arguments: `{"error":null, "n": 9007199254740993}`},
			}},
		},
		"an error that is null in the last line": {
			unfinished(
				delta(`{"content":"Hello"}`),
			) + "data:" + `{"error":null,` + finish("stop")[1:] + "\r\n\r\n", model.Response{
				Text: "Hello", FinishReason: "stop",
			},
		},
		"a refusal": {
			chunks(delta(`{"role":"assistant","refusal":"I "}`), delta(`{"refusal":"cannot."}`), finish("stop")),
			model.Response{Text: "I cannot.", FinishReason: "stop"},
		},
		"calls in pieces, after a text": {
			chunks(
				delta(
					`{"role":"assistant","content":"I look."}`,
				), callPiece("0", "call_1", "look", ""), morePiece("0", `{\"b\": 900719925`),
				morePiece(
					"0", `4740993, \"a\":\"\\u00e9<\"}`,
				), callPiece("1", "call_2", "now", ""), morePiece("1", `{}`), finish("tool_calls"), usage),
			model.Response{Text: "I look.", FinishReason: "tool_calls", Usage: counted, ToolCalls: []model.ToolCall{
				{ProviderID: "call_1", Name: "look", Arguments: `{"b": 9007199254740993, "a":"\u00e9<"}`},
				{ProviderID: "call_2", Name: "now", Arguments: `{}`},
			}},
		},
		"calls whose pieces are mixed": {
			chunks(
				callPiece("0", "a", "one", ""), callPiece("1", "b", "two", "{"), morePiece("0", "{}"), morePiece("1", "}"),
				finish("tool_calls"),
			),
			model.Response{FinishReason: "tool_calls", ToolCalls: []model.ToolCall{
				{ProviderID: "a", Name: "one", Arguments: "{}"}, {ProviderID: "b", Name: "two", Arguments: "{}"},
			}},
		},
		"calls of a server that counts none": {
			chunks(callPiece("0", "a", "one", "{}"), callPiece("0", "b", "one", "{}"), finish("tool_calls")),
			model.Response{FinishReason: "tool_calls", ToolCalls: []model.ToolCall{
				{ProviderID: "a", Name: "one", Arguments: "{}"}, {ProviderID: "b", Name: "one", Arguments: "{}"},
			}},
		},
		"a call of a server that repeats its name each time": {
			chunks(callPiece("0", "a", "one", "{"), callPiece("0", "a", "one", "}"), finish("stop")),
			model.Response{FinishReason: "stop", ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "one", Arguments: "{}"}}},
		},
		"invalid arguments, unchanged": {
			chunks(callPiece("0", "a", "one", `{\"a\":`), callPiece("1", "b", "two", ""), finish("tool_calls")),
			model.Response{FinishReason: "tool_calls", ToolCalls: []model.ToolCall{
				{ProviderID: "a", Name: "one", Arguments: `{"a":`}, {ProviderID: "b", Name: "two", Arguments: ""},
			}},
		},
		"the whole calls of an answer that is too long": {
			chunks(callPiece("0", "a", "one", `{}`), callPiece("1", "b", "two", `{\"a\":`), finish("length")),
			model.Response{FinishReason: "length", ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "one", Arguments: "{}"}}},
		},
		"an end without the last event": {
			unfinished(delta(`{"content":"Hello"}`), finish("stop")), model.Response{Text: "Hello", FinishReason: "stop"},
		},
		"another choice, which was not requested": {
			chunks(
				delta(`{"content":"Hello"}`), strings.Replace(delta(`{"content":"Bye"}`), `"index":0`, `"index":1`, 1),
				finish("stop"),
			),
			model.Response{Text: "Hello", FinishReason: "stop"},
		},
		"comments and line breaks of other kinds": {
			": keep-alive\r\n\r\nevent: message\r\ndata:" + delta(
				`{"content":"Hello"}`,
			) + "\r\n\r\n: x\n\n" + chunks(finish("stop")),
			model.Response{Text: "Hello", FinishReason: "stop"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, providertest.Answer{Body: test.stream})
			if err != nil {
				t.Fatal(err)
			}
			test.want.ResponseID, test.want.Model = "chatcmpl-9", "gpt-5-2026"
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("got\n%+v\nwant\n%+v", *got, test.want)
			}
		})
	}
}

func TestAnAnswerWithoutNamesHasThoseOfTheRequest(t *testing.T) {
	got, err := ask(
		t,
		providertest.Answer{Body: chunks(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`)},
	)
	if err != nil || !reflect.DeepEqual(*got, model.Response{Text: "Hi", FinishReason: "stop", Model: "gpt-5"}) {
		t.Errorf("Generate = %+v, %v", got, err)
	}
}

// TestAnswersThatBreakOff is LLM-05: what can be used counts, and no call whose arguments are not whole.
func TestAnswersThatBreakOff(t *testing.T) {
	overloaded := `{"error":{"message":"` + prompt + `","type":"server_error","param":null,"code":null}}`
	for name, test := range map[string]struct {
		answer providertest.Answer
		want   *model.Response
		code   v1alpha1.ErrorCode
	}{
		"within a text": {answer: cut(delta(`{"content":"Once"}`)), want: &model.Response{Text: "Once"}},
		"within a chunk": {
			answer: providertest.Answer{Body: unfinished(delta(`{"content":"Once"}`)) + `data: {"id":"chat`, Cut: true},
			want:   &model.Response{Text: "Once"},
		},
		"quietly, in a text": {
			answer: providertest.Answer{Body: unfinished(delta(`{"content":"Once"}`))}, want: &model.Response{Text: "Once"},
		},
		"before anything":  {answer: cut(), code: v1alpha1.ErrorCodeProviderUnavailable},
		"quietly, at once": {answer: providertest.Answer{}, code: v1alpha1.ErrorCodeProviderUnavailable},
		"after an empty chunk": {
			answer: cut(delta(`{"role":"assistant","content":""}`)), code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"within the only call, which the text led up to": {
			answer: cut(
				delta(`{"content":"I look."}`), callPiece("0", "a", "look", `{\"a\": 1`),
			), code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"before the arguments of the only call": {
			answer: cut(callPiece("0", "a", "look", "")), code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"within the second call": {
			answer: cut(
				delta(`{"content":"I look."}`), callPiece("0", "a", "look", `{\"a\": 1}`), callPiece("1", "b", "look", `{`),
			),
			want: &model.Response{
				Text: "I look.", ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "look", Arguments: `{"a": 1}`}},
			},
		},
		"before the tokens are reported": {
			answer: cut(
				delta(`{"content":"Hello"}`), finish("stop"),
			), want: &model.Response{Text: "Hello", FinishReason: "stop"},
		},
		"with an error after a text": {
			answer: providertest.Answer{Body: unfinished(delta(`{"content":"Once"}`), overloaded)},
			want:   &model.Response{Text: "Once"},
		},
		"with an error at once": {
			answer: providertest.Answer{Body: unfinished(overloaded)}, code: v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with an error of the request": {
			answer: providertest.Answer{
				Body: unfinished(`{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`),
			},
			code: v1alpha1.ErrorCodeRequestTooLarge,
		},
		"with a limit": {
			answer: providertest.Answer{Body: unfinished(`{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`)},
			code:   v1alpha1.ErrorCodeProviderRateLimited,
		},
		"with a status": {
			answer: providertest.Answer{
				Body: unfinished(`{"error":{"message":"slow down","type":"TooManyRequests","code":429}}`),
			},
			code: v1alpha1.ErrorCodeProviderRateLimited,
		},
		"with a mere text": {
			answer: providertest.Answer{Body: unfinished(`{"error":"out of memory"}`)},
			code:   v1alpha1.ErrorCodeProviderUnavailable,
		},
		"with invalid JSON": {
			answer: providertest.Answer{Body: unfinished("{\"a\": " + prompt)}, code: v1alpha1.ErrorCodeProviderUnavailable,
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
		"with a single JSON": {
			answer: providertest.Answer{
				Body: `{"choices":[]}`, Header: map[string]string{"Content-Type": "application/json"},
			}, code: v1alpha1.ErrorCodeProcessingError,
		},
		"at its limit, within the only call": {
			answer: providertest.Answer{
				Body: chunks(delta(`{"content":"I look."}`), callPiece("0", "a", "look", `{\"a\": 1`), finish("length")),
			},
			code: v1alpha1.ErrorCodeProcessingError,
		},
		"at its limit, before any text": {
			answer: providertest.Answer{Body: chunks(finish("length"))}, code: v1alpha1.ErrorCodeProcessingError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, test.answer)
			if test.want != nil {
				test.want.ResponseID, test.want.Model = "chatcmpl-9", "gpt-5-2026"
				if err != nil || !reflect.DeepEqual(got, test.want) {
					t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, test.want)
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

func TestMalformedResponses(t *testing.T) {
	for _, chunk := range []string{
		`{"choices":{}}`, `{"choices":[null]}`, `{"choices":"x"}`, `{"choices":[1]}`, `{"choices":[{"delta":null}]}`,
		`{"choices":[{"delta":[]}]}`,
		`{"choices":[{"delta":{"tool_calls":"x"}}]}`, `{"choices":[{"delta":{"tool_calls":[null]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":"x","function":[]}]}}]}`, `{"choices":null}`, `{"usage":[]}`, `{}`,
		`[]`, `null`, `1`,
	} {
		got, err := ask(t, providertest.Answer{Body: unfinished(chunk)})
		if got != nil || err == nil || model.CodeOf(err) != v1alpha1.ErrorCodeProviderUnavailable {
			t.Errorf("%s: Generate = %+v, %v", chunk, got, err)
			continue
		}
		providertest.CheckSecrets(t, err, secrets...)
	}
}

// cut is a response whose connection breaks.
func cut(data ...string) providertest.Answer {
	return providertest.Answer{Body: unfinished(data...), Cut: true}
}

// manyCalls are so many calls without arguments.
func manyCalls(count int) string {
	calls := make([]string, count)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"index":%d}`, i)
	}
	return strings.Join(calls, ",")
}

func TestAnAnswerMayHaveManyCalls(t *testing.T) {
	got, err := ask(
		t,
		providertest.Answer{Body: chunks(delta(`{"tool_calls":[`+manyCalls(provider.MaxCalls)+`]}`), finish("tool_calls"))},
	)
	if err != nil || len(got.ToolCalls) != provider.MaxCalls {
		t.Errorf("Generate: %v", err)
	}
}

func TestAnAnswerThatIsTooLongIsNotCollected(t *testing.T) {
	piece := delta(`{"content":"` + strings.Repeat("x", 1<<19) + `"}`)
	for name, stream := range map[string]string{
		"in many pieces": strings.Repeat("data: "+piece+"\n\n", 5),
		"in one":         "data: " + strings.Repeat("x", provider.MaxEvent+1),
		"in many lines":  strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9),
		"in comments":    strings.Repeat(": "+strings.Repeat("x", 1<<19)+"\n\n", provider.MaxBody>>19),
		"in calls":       unfinished(delta(`{"tool_calls":[` + manyCalls(provider.MaxCalls+1) + `]}`)),
		"in values": unfinished(
			`{"choices":[{"delta":{"tool_calls":[null` + strings.Repeat(",null", provider.MaxValues+1) + `]}}]}`,
		),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, providertest.Answer{Body: stream})
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
		providertest.Answer{Body: strings.NewReplacer("chatcmpl-9", "id-"+key, "gpt-5-2026", key).Replace(chunks(
			delta(
				`{"content":"x-api-key: `+key+`"}`,
			),
			callPiece("0", key, "look", `{\"a\":\"`+key+`\"}`),
			finish("tool_calls"),
		))},
	)
	want := &model.Response{
		Text:         "x-api-key: [API key]",
		FinishReason: "tool_calls",
		Model:        "gpt-5",
		ToolCalls: []model.ToolCall{
			{Name: "look", Arguments: `{"a":"[API key]"}`},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

// TestAnEmptyChunkIsNoContent: a server that only keeps the connection open is one that stalls. What the model thinks
// is content.
func TestAnEmptyChunkIsNoContent(t *testing.T) {
	server := providertest.Serve(t, providertest.Answer{Body: chunks(
		delta(
			`{"role":"assistant","content":""}`,
		),
		delta(`{}`),
		delta(`{"reasoning_content":""}`),
		delta(`{"reasoning_content":"Hm."}`),
		delta(`{"reasoning":null}`),
		delta(`{"reasoning":"Hm."}`),
		delta(`{"content":"Hi"}`),
		finish("stop"),
		usage,
	)})
	partials := 0
	r := question()
	r.OnPartial = func(model.Partial) { partials++ }
	if _, err := driverOf(t, server, Options{}).Generate(t.Context(), r); err != nil || partials != 4 {
		t.Errorf("%d chunks were content (%v), want 4", partials, err)
	}
}
