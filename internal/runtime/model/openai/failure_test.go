package openai

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// tellsNothing fails the test when an error shows what it must not, however it is printed.
func tellsNothing(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, secret := range []string{key, prompt, "Bearer", "https://", "chat/completions"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows %q: %v", secret, err)
			}
		}
		if len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes: %v", len(err.Error()), err)
		}
	}
}

func TestStatuses(t *testing.T) {
	body := func(code, kind, message string) string {
		return `{"error":{"message":"` + message + ` ` + prompt + ` ` + key + `","type":"` + kind + `","param":null,"code":` +
			code + `}}`
	}
	for name, test := range map[string]struct {
		status int
		header map[string]string
		body   string
		code   v1alpha1.ErrorCode
		says   string
		after  time.Duration
		again  bool
	}{
		"an unknown parameter": {
			status: 400,
			body: `{"error":{"message":"Unsupported value","type":"invalid_request_error","param":"temperature",` +
				`"code":"unsupported_value"}}`,
			code: v1alpha1.ErrorCodeProcessingError, says: "OpenAI rejected the request (400): unsupported_value of temperature",
		},
		"a conversation that is too long": {
			status: 400, body: body(
				`"context_length_exceeded"`, "invalid_request_error", "This model's maximum context length is 128000 tokens.",
			),
			code: v1alpha1.ErrorCodeRequestTooLarge, says: "the conversation is too long for model gpt-5 of OpenAI",
		},
		"one that another server says is too long": {
			status: 400,
			body: `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError",` +
				`"param":null,"code":400}`,
			code: v1alpha1.ErrorCodeRequestTooLarge, says: "the conversation is too long for model gpt-5 of OpenAI",
		},
		"one that a third server says is too long": {
			status: 400,
			body: `{"error":{"code":400,"message":"the request exceeds the available context size",` +
				`"type":"exceed_context_size_error"}}`,
			code: v1alpha1.ErrorCodeRequestTooLarge,
		},
		"a body that is too large": {status: 413, body: "<html>", code: v1alpha1.ErrorCodeRequestTooLarge},
		"a wrong key": {
			status: 401, body: body(`"invalid_api_key"`, "invalid_request_error", "Incorrect API key provided:"),
			code: v1alpha1.ErrorCodeProviderMisconfigured, says: "OpenAI does not accept the API key (401)",
		},
		"a key for something else": {
			status: 403, body: body("null", "forbidden", "no"), code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"an unknown model": {
			status: 404, body: body(
				`"model_not_found"`, "invalid_request_error", "no model",
			), code: v1alpha1.ErrorCodeModelUnavailable,
			says: "OpenAI has no model gpt-5 for this API key",
		},
		"a model that is not for this key": {
			status: 403, body: body(`"model_not_found"`, "x", "no model"), code: v1alpha1.ErrorCodeModelUnavailable,
		},
		"an unknown model of another server": {
			status: 404, body: `{"error":{"message":"model 'gpt-5' not found","type":"not_found_error"}}`,
			code: v1alpha1.ErrorCodeModelUnavailable,
		},
		"a limit, with seconds": {
			status: 429, header: map[string]string{"Retry-After": "20"}, body: body(
				`"rate_limit_exceeded"`, "tokens", "Rate limit",
			),
			code: v1alpha1.ErrorCodeProviderRateLimited, says: "OpenAI is rate limiting requests (429): rate_limit_exceeded",
			after: 20 * time.Second, again: true,
		},
		"a limit, with milliseconds": {
			status: 429, header: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, body: "",
			code: v1alpha1.ErrorCodeProviderRateLimited, says: "OpenAI is rate limiting requests (429)",
			after: 1500 * time.Millisecond, again: true,
		},
		"a limit that asks to be tried again": {
			status: 429, header: map[string]string{
				"X-Should-Retry": "true",
			}, body: "", code: v1alpha1.ErrorCodeProviderRateLimited, again: true,
		},
		"a quota that is used up": {
			status: 429, body: body(`"insufficient_quota"`, "insufficient_quota", "You exceeded your current quota"),
			code: v1alpha1.ErrorCodeProviderQuotaExhausted,
		},
		"an account without money": {status: 402, body: "{}", code: v1alpha1.ErrorCodeProviderQuotaExhausted},
		"a failure": {
			status: 500, body: body("null", "server_error", "sorry"), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"a gateway's failure": {
			status: 502, body: "<html><body>502 " + prompt, code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"overload": {
			status: 503, body: body("null", "service_unavailable", "busy"), code: v1alpha1.ErrorCodeProviderUnavailable,
			again: true,
		},
		"overload of another kind": {
			status: 529, body: "null", code: v1alpha1.ErrorCodeProviderUnavailable, says: "OpenAI is overloaded (529)",
			again: true,
		},
		"a status of a gateway's own": {
			status: 522, body: "", code: v1alpha1.ErrorCodeProviderUnavailable, says: "OpenAI returned a server error (522)",
			again: true,
		},
		"a body that takes too long": {status: 408, body: "", code: v1alpha1.ErrorCodeProviderUnavailable, again: true},
		"a huge body": {
			status: 500, body: strings.Repeat(prompt, 100_000), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"a key where the word for the error should be": {
			status: 400, body: `{"error":{"type":"` + key + `","code":"` + key + `","param":"` + key + `"}}`,
			code: v1alpha1.ErrorCodeProcessingError, says: "OpenAI rejected the request (400)",
		},
		"an error that is a text": {
			status: 400, body: `{"error":"bad ` + prompt + `"}`, code: v1alpha1.ErrorCodeProcessingError,
			says: "OpenAI rejected the request (400)",
		},
		"a redirect": {
			status: 307, header: map[string]string{"Location": "https://elsewhere.example.org/"},
			code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"a redirect to nowhere": {status: 304, code: v1alpha1.ErrorCodeProcessingError},
	} {
		t.Run(name, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Status: test.status, Header: test.header, Body: test.body})
			got, err := driverOf(t, server, Options{}).Generate(t.Context(), question())
			if got != nil || err == nil {
				t.Fatalf("Generate = %+v, %v", got, err)
			}
			// The runtime decides what is tried again, and nothing follows a redirect with the key.
			server.One(t)
			if code := model.CodeOf(err); code != test.code {
				t.Errorf("%q has the code %s, want %s", err, code, test.code)
			}
			if test.says != "" && err.Error() != test.says {
				t.Errorf("the error is %q, want %q", err, test.says)
			}
			var own *provider.Error
			if !errors.As(err, &own) || own.RetryAfter != test.after || own.Transient() != test.again {
				t.Errorf("the error is %+v, want transient %t after %s", err, test.again, test.after)
			}
			tellsNothing(t, err)
		})
	}
}

// expectProblem checks what the user is told of an error, beside its text.
func expectProblem(t *testing.T, err error, want string) {
	t.Helper()
	var refusal *provider.Error
	if !errors.As(err, &refusal) || refusal.Problem != want {
		t.Errorf("the error is %#v, want the problem %q", err, want)
	}
}

// TestTheServersTextAboutARefusedRequestIsForTheUser: the error's own text, which is logged, has none of it.
func TestTheServersTextAboutARefusedRequestIsForTheUser(t *testing.T) {
	body := `{"error":{"message":"Unsupported value with ` + key +
		`","type":"invalid_request_error","param":"temperature","code":"unsupported_value"}}`
	server := providertest.Serve(t, providertest.Answer{Status: 400, Body: body})
	_, err := driverOf(t, server, Options{}).Generate(t.Context(), question())
	expectProblem(t, err, "Unsupported value with [API key]")
	tellsNothing(t, err)
}

// TestAFilterThatAnswersWithAnErrorIsARefusal: Azure refuses a prompt so, and says on the way of a stream that it was
// filtered.
func TestAFilterThatAnswersWithAnErrorIsARefusal(t *testing.T) {
	azure := `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter",` +
		`"status":400,` +
		`"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"violence":{"filtered":true,` +
		`"severity":"medium"}}}}}`
	begun := `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,` +
		`"delta":{"content":"Once"}}]}` + "\n\n"
	for name, test := range map[string]struct {
		answer providertest.Answer
		text   string
	}{
		"a prompt": {providertest.Answer{Status: 400, Body: azure}, ""},
		"a prompt, by the inner word": {
			providertest.Answer{
				Status: 400, Body: `{"error":{"code":"400","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
			},
			"",
		},
		"a prompt, at a gateway": {
			providertest.Answer{Status: 400, Body: `{"error":{"code":"content_policy_violation"}}`}, "",
		},
		"a response": {providertest.Answer{Body: begun + "data: " + azure + "\n\n"}, "Once"},
	} {
		t.Run(name, func(t *testing.T) {
			server := providertest.Serve(t, test.answer)
			got, err := driverOf(t, server, Options{}).Generate(t.Context(), question())
			if err != nil || got.FinishReason != model.FinishFiltered || got.Text != test.text || len(got.ToolCalls) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
