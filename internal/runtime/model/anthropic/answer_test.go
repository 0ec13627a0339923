package anthropic

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// usage of a response that came to its end, and of one that broke off: cached tokens are tokens.
var (
	whole  = model.Usage{InputTokens: 1125, CacheReadTokens: 1000, CacheWriteTokens: 100, OutputTokens: 15}
	broken = model.Usage{InputTokens: 1125, CacheReadTokens: 1000, CacheWriteTokens: 100, OutputTokens: 1}
)

func TestAnAnswerIsPutTogether(t *testing.T) {
	thinking := []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me think."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		blockStop(0),
	}
	for name, test := range map[string]struct {
		events []string
		want   model.Response
	}{
		"a text": {
			[]string{start, textStart(0), ping, text(0, "Hel"), text(0, "lo. Ä \"x\"\n"), blockStop(0), ends("end_turn"), stop},
			model.Response{Text: "Hello. Ä \"x\"\n", FinishReason: "end_turn", Usage: whole},
		},
		"nothing": {[]string{start, ends("end_turn"), stop}, model.Response{FinishReason: "end_turn", Usage: whole}},
		"a call, byte for byte": {
			[]string{
				start, callStart(0, "toolu_01", "weather"), arguments(0, ""), arguments(0, `{"city":  "Os`), arguments(0, `lo"}`),
				blockStop(0), ends("tool_use"), stop,
			},
			model.Response{
				FinishReason: "tool_use", Usage: whole,
				ToolCalls: []model.ToolCall{{ProviderID: "toolu_01", Name: "weather", Arguments: `{"city":  "Oslo"}`}},
			},
		},
		"a thought, a text, and calls whose pieces come in turns": {
			slices.Concat([]string{start}, thinking, []string{
				textStart(1), text(
					1, "Let me look.",
				), blockStop(1), callStart(2, "a", "weather"), callStart(3, "b", "look"), arguments(3, `{"x":`),
				arguments(2, `{"n":12345678901234567890}`), arguments(3, `1}`), blockStop(3), blockStop(2), ends("tool_use"), stop,
			}),
			model.Response{Text: "Let me look.", FinishReason: "tool_use", Usage: whole, ToolCalls: []model.ToolCall{
				{
					ProviderID: "a", Name: "weather", Arguments: `{"n":12345678901234567890}`,
				}, {ProviderID: "b", Name: "look", Arguments: `{"x":1}`},
			}, Content: []model.Content{
				model.ReasoningPart(event.Reasoning{Kind: "thinking", Data: "c2ln", Summary: "Let me think."}),
				model.TextPart("Let me look."), model.CallPart(1), model.CallPart(2),
			}},
		},
		"a call without arguments": {
			[]string{start, callStart(0, "a", "now"), arguments(0, ""), blockStop(0), ends("tool_use"), stop},
			model.Response{
				FinishReason: "tool_use", Usage: whole,
				ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{}`}},
			},
		},
		"a call whose arguments are no JSON": {
			[]string{start, callStart(0, "a", "now"), arguments(0, `{oops`), blockStop(0), ends("tool_use"), stop},
			model.Response{
				FinishReason: "tool_use", Usage: whole,
				ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{oops`}},
			},
		},
		"a text at its limit": {
			[]string{start, textStart(0), text(0, "Once upon"), blockStop(0), ends("max_tokens"), stop},
			model.Response{Text: "Once upon", FinishReason: "max_tokens", Usage: whole},
		},
		"a second call at the limit": {
			[]string{
				start, callStart(0, "a", "now"), blockStop(0), callStart(1, "b", "now"), arguments(1, `{"x"`), blockStop(1),
				ends("max_tokens"), stop,
			},
			model.Response{
				FinishReason: "max_tokens", Usage: whole,
				ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{}`}},
			},
		},
		"a call that the limit cut before its arguments": {
			[]string{
				start, callStart(0, "a", "now"), arguments(0, `{}`), blockStop(0), callStart(1, "b", "now"), blockStop(1),
				ends("model_context_window_exceeded"), stop,
			},
			model.Response{
				FinishReason: "model_context_window_exceeded", Usage: whole,
				ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{}`}},
			},
		},
		"a refusal": {
			[]string{
				start, textStart(0), text(0, "I"), blockStop(0), callStart(1, "a", "now"), arguments(1, `{}`), blockStop(1),
				ends("refusal"), stop,
			},
			model.Response{Text: "I", FinishReason: "refusal", Usage: whole},
		},
		"unknown events and blocks": {
			[]string{
				start, `{"type":"news","index":7}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"hologram","data":"x"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","data":"x"}}`, arguments(
					0, "{}",
				), blockStop(0), textStart(1), text(1, "Hi"), ends(
					"end_turn",
				),
			},
			model.Response{Text: "Hi", FinishReason: "end_turn", Usage: whole},
		},
		"an unknown finish reason": {
			[]string{start, textStart(0), text(0, "Hi"), ends("<" + key + ">"), stop},
			model.Response{Text: "Hi", Usage: whole},
		},
		"usage that the end corrects": {
			[]string{
				start, textStart(0), text(0, "Hi"),
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":30,` +
					`"cache_read_input_tokens":0,"output_tokens":9}}`,
			},
			model.Response{
				Text: "Hi", FinishReason: "end_turn", Usage: model.Usage{InputTokens: 130, CacheWriteTokens: 100, OutputTokens: 9},
			},
		},
		"a text that broke off": {
			[]string{start, textStart(0), text(0, "Once upon")},
			model.Response{Text: "Once upon", Usage: broken},
		},
		"a second call that broke off": {
			[]string{
				start, textStart(0), text(0, "So."), blockStop(0), callStart(1, "a", "now"), arguments(1, `{}`), blockStop(1),
				callStart(2, "b", "now"), arguments(2, `{"x":"`),
			},
			model.Response{
				Text: "So.", Usage: broken, ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{}`}},
			},
		},
		"a second call that had no arguments yet": {
			[]string{start, callStart(1, "a", "now"), blockStop(1), callStart(2, "b", "now")},
			model.Response{Usage: broken, ToolCalls: []model.ToolCall{{ProviderID: "a", Name: "now", Arguments: `{}`}}},
		},
		"a text before an error": {
			[]string{
				start, textStart(0), text(0, "Once"), `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			},
			model.Response{Text: "Once", Usage: broken},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t, streams(test.events...))
			got, err := d.ask(t)
			if err != nil {
				t.Fatal(err)
			}
			test.want.ResponseID, test.want.Model = "msg_01", "claude-test-20260101"
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("the answer is\n%+v\nwant\n%+v", *got, test.want)
			}
			d.one(t)
		})
	}
}

func refuses(status int, kind, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Request-Id", "req_"+key)
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_1"}`, kind, message)
	}
}

func sends(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestWhyThereIsNoAnswer(t *testing.T) {
	echo := "x-api-key: " + key + " of " + prompt
	for name, test := range map[string]struct {
		answer    http.HandlerFunc
		code      v1alpha1.ErrorCode
		transient bool
		after     time.Duration
		message   string
	}{
		"too many": {
			refuses(429, "rate_limit_error", echo, "Retry-After", "7"), v1alpha1.ErrorCodeProviderRateLimited, true,
			7 * time.Second, "is rate limiting requests (429)",
		},
		"too many, no time": {
			refuses(429, "rate_limit_error", echo), v1alpha1.ErrorCodeProviderRateLimited, true, 0, "rate_limit_error",
		},
		"a wrong key": {
			refuses(401, "authentication_error", "invalid x-api-key "+key), v1alpha1.ErrorCodeProviderMisconfigured, false, 0,
			"does not accept the API key (401)",
		},
		"not allowed": {
			refuses(403, "permission_error", echo), v1alpha1.ErrorCodeProviderMisconfigured, false, 0, "(403)",
		},
		"no such model": {
			refuses(404, "not_found_error", "model: claude-test"), v1alpha1.ErrorCodeModelUnavailable, false, 0,
			"Anthropic has no model claude-test for this API key",
		},
		"too long": {
			refuses(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
			v1alpha1.ErrorCodeRequestTooLarge, false, 0, "the conversation is too long",
		},
		"too long with the rest": {
			refuses(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
			v1alpha1.ErrorCodeRequestTooLarge, false, 0, "",
		},
		"too large": {refuses(413, "request_too_large", echo), v1alpha1.ErrorCodeRequestTooLarge, false, 0, ""},
		"no money": {
			refuses(400, "invalid_request_error", "Your credit balance is too low to access the API."),
			v1alpha1.ErrorCodeProviderQuotaExhausted, false, 0, "",
		},
		"a limit of one's own": {
			refuses(
				400, "invalid_request_error",
				"You have reached your specified API usage limits. You will regain access on 2026-02-01 at 00:00 UTC.",
			),
			v1alpha1.ErrorCodeProviderQuotaExhausted, false, 0, "",
		},
		"a limit of a workspace": {
			refuses(
				400, "invalid_request_error",
				"You have reached your specified workspace API usage limits. You will regain access on 2026-02-01.",
			),
			v1alpha1.ErrorCodeProviderQuotaExhausted, false, 0, "",
		},
		"a limit in a text": {
			refuses(400, "invalid_request_error", "no: you have reached your specified API usage limits"),
			v1alpha1.ErrorCodeProcessingError, false, 0, "",
		},
		"no money, newer": {
			refuses(403, "billing_error", echo), v1alpha1.ErrorCodeProviderQuotaExhausted, false, 0, "",
		},
		"a parameter": {
			refuses(400, "invalid_request_error", "temperature: "+echo), v1alpha1.ErrorCodeProcessingError, false, 0,
			"(400): invalid_request_error of temperature",
		},
		"a field in a field": {
			refuses(400, "invalid_request_error", "output_config.effort: no"), v1alpha1.ErrorCodeProcessingError, false, 0,
			"invalid_request_error of output_config.effort",
		},
		"a word with a colon": {
			refuses(400, "invalid_request_error", "oslo: no"), v1alpha1.ErrorCodeProcessingError, false, 0,
			"(400): invalid_request_error",
		},
		"a text with a colon": {
			refuses(400, "invalid_request_error", "Oslo is: "+echo), v1alpha1.ErrorCodeProcessingError, false, 0,
			"(400): invalid_request_error",
		},
		"a problem": {refuses(500, "api_error", echo), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "(500)"},
		"a gateway's problem": {
			sends(502, "text/html", "<html>"+echo+"</html>"), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "(502)",
		},
		"no time": {
			refuses(504, "timeout_error", echo), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "(504)",
		},
		"overloaded": {
			refuses(529, "overloaded_error", "Overloaded"), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "overloaded (529)",
		},
		"an odd status": {sends(418, "text/plain", echo), v1alpha1.ErrorCodeProcessingError, false, 0, "(418)"},
		"an error without an error": {
			sends(400, "application/json", `{"error":`+"\""+echo), v1alpha1.ErrorCodeProcessingError, false, 0, "(400)",
		},
		"a key for a word": {refuses(400, key, key+": no"), v1alpha1.ErrorCodeProcessingError, false, 0, "(400)"},
		"no stream": {
			sends(200, "text/html", "<html>"+echo), v1alpha1.ErrorCodeProcessingError, false, 0,
			"did not respond with an event stream",
		},
		"an answer at once": {
			sends(200, "application/json", `{"type":"message","content":[{"type":"text","text":"Hi"}]}`),
			v1alpha1.ErrorCodeProcessingError, false, 0, "did not respond with an event stream",
		},
		"an empty stream": {streams(), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "incomplete response"},
		"only a beginning": {
			streams(start, ping), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "incomplete response",
		},
		"garbage": {
			sends(200, "text/event-stream", "event: message_start\ndata: {"+echo+"\n\n"), v1alpha1.ErrorCodeProviderUnavailable,
			true, 0, "incomplete response",
		},
		"a call that broke off": {
			streams(start, textStart(0), text(0, "Let me look."), callStart(1, "a", "now"), arguments(1, `{"x"`)),
			v1alpha1.ErrorCodeProviderUnavailable, true, 0, "",
		},
		"a call without a piece": {
			streams(start, callStart(1, "a", "now")), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "",
		},
		"overloaded on the way": {
			streams(start, `{"type":"error","error":{"type":"overloaded_error","message":"`+prompt+`"}}`),
			v1alpha1.ErrorCodeProviderUnavailable, true, 0, "is overloaded",
		},
		"limited on the way": {
			streams(`{"type":"error","error":{"type":"rate_limit_error","message":"no"}}`),
			v1alpha1.ErrorCodeProviderRateLimited, true, 0, "is rate limiting requests",
		},
		"an error of no kind": {
			streams(start, `{"type":"error","error":"`+prompt+`"}`), v1alpha1.ErrorCodeProviderUnavailable, true, 0, "",
		},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, v1alpha1.ErrorCodeProviderMisconfigured, false, 0, "not followed"},
		"broken off": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, v1alpha1.ErrorCodeProviderUnavailable,
			true, 0, "incomplete response",
		},
		"a call at the limit": {
			streams(start, callStart(0, "a", "now"), arguments(0, `{"x"`), blockStop(0), ends("max_tokens"), stop),
			v1alpha1.ErrorCodeProcessingError, false, 0, "raise maxOutputTokens",
		},
		"no room": {
			streams(start, ends("model_context_window_exceeded"), stop), v1alpha1.ErrorCodeRequestTooLarge, false, 0,
			"the conversation is too long",
		},
		"no room for a call": {
			streams(start, callStart(0, "a", "now"), blockStop(0), ends("model_context_window_exceeded"), stop),
			v1alpha1.ErrorCodeRequestTooLarge, false, 0, "",
		},
		"a pause": {
			streams(start, ends("pause_turn"), stop), v1alpha1.ErrorCodeProcessingError, false, 0, "paused",
		},
		"too much at once": {
			sends(200, "text/event-stream", strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9)),
			v1alpha1.ErrorCodeProcessingError, false, 0, "too long",
		},
		"too many calls": {
			streams(append([]string{start}, slices.Repeat([]string{callStart(1, "", "")}, provider.MaxCalls+1)...)...),
			v1alpha1.ErrorCodeProcessingError, false, 0, "too long",
		},
		"too many values": {
			streams(`{"type":"message_start","message":{"content":[{}` + strings.Repeat(",{}", provider.MaxValues) + `]}}`),
			v1alpha1.ErrorCodeProcessingError, false, 0, "too long",
		},
		"too much": {streams(start, textStart(0), text(
			0, strings.Repeat("x", provider.MaxAnswer/4),
		), text(0, strings.Repeat("x", provider.MaxAnswer/4)), text(0, strings.Repeat("x", provider.MaxAnswer/4)),
			text(0, strings.Repeat("x", provider.MaxAnswer/4+1))), v1alpha1.ErrorCodeProcessingError, false, 0, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t, test.answer)
			got, err := d.ask(t)
			if err == nil {
				t.Fatalf("the answer is %+v", got)
			}
			if got := model.CodeOf(err); got != test.code {
				t.Errorf("%q has the code %s, want %s", err, got, test.code)
			}
			if !strings.Contains(err.Error(), test.message) || len(err.Error()) > 200 {
				t.Errorf("the error is %q, which does not contain %q, or is too long", err, test.message)
			}
			var own *provider.Error
			if known := errors.As(
				err,
				&own,
			); (known && own.Transient()) != test.transient ||
				known && own.RetryAfter != test.after {
				t.Errorf("the error is %+v, want transient %v, after %s", own, test.transient, test.after)
			}
			quiet(t, err, d)
			// What is tried again is for the runtime to decide.
			d.one(t)
		})
	}
}

func TestMalformedResponses(t *testing.T) {
	for _, event := range []string{
		`{"type":"message_start","message":null}`, `{"type":"message_start","message":[]}`,
		`{"type":"message_start","message":{"content":{},"usage":1}}`,
		`{"type":"message_start","message":{"content":[null]}}`,
		`{"type":"content_block_start","index":"x","content_block":null}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use","input":1}}`,
		`{"type":"content_block_delta","delta":null}`, `{"type":"content_block_delta","delta":"x"}`,
		`{"type":"message_delta","delta":[],"usage":null}`,
		`{"type":"message_delta"}`, `{"type":"message_start"`, `{"type":"error"`, `{"type":"error","error":[]}`,
	} {
		d := newDouble(t, streams(event))
		got, err := d.ask(t)
		if got != nil || err == nil || model.CodeOf(err) != v1alpha1.ErrorCodeProviderUnavailable {
			t.Errorf("%s: Generate = %+v, %v", event, got, err)
			continue
		}
		quiet(t, err, d)
	}
}

// TestTheKeyIsInNoAnswer, which a server could have put there for the journal to keep.
func TestTheKeyIsInNoAnswer(t *testing.T) {
	hides := strings.NewReplacer("msg_01", "id-"+key, "claude-test-20260101", key)
	got, err := newDouble(t, streams(hides.Replace(start), textStart(0), text(0, "x-api-key: "+key), blockStop(0),
		callStart(1, key, "look"), arguments(1, `{"a":"`+key+`"}`), blockStop(1), ends("tool_use"), stop)).ask(t)
	want := &model.Response{
		Text:         "x-api-key: [API key]",
		FinishReason: "tool_use",
		Model:        "claude-test",
		ToolCalls: []model.ToolCall{
			{Name: "look", Arguments: `{"a":"[API key]"}`},
		},
		Usage: whole,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

// TestAPingIsNoContent: a server that only keeps the connection open is one that stalls.
func TestAPingIsNoContent(t *testing.T) {
	d := newDouble(
		t,
		streams(start, ping, textStart(0), ping, text(0, "Hi"), ping, ping, blockStop(0), ends("end_turn"), stop),
	)
	partials := 0
	r := simple()
	r.OnPartial = func(model.Partial) { partials++ }
	if _, err := d.driver(t, v1alpha1.ModelParameters{}).Generate(t.Context(), r); err != nil || partials != 4 {
		t.Errorf(
			"%d of the events were content (%v), want 4: start, text and end of the block, and the end of the message",
			partials,
			err,
		)
	}
}
