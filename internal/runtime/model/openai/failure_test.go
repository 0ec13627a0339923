package openai

import (
	"errors"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// secrets are the texts that no error may show.
var secrets = []string{key, prompt, "Bearer", "chat/completions"}

func TestStatuses(t *testing.T) {
	body := func(code, kind, message string) string {
		return `{"error":{"message":"` + message + ` ` + prompt + ` ` + key + `","type":"` + kind + `","param":null,"code":` +
			code + `}}`
	}
	for name, test := range map[string]providertest.Failure{
		"an unknown parameter": {
			Status: 400,
			Body: `{"error":{"message":"Unsupported value","type":"invalid_request_error","param":"temperature",` +
				`"code":"unsupported_value"}}`,
			Code: v1alpha1.ErrorCodeProcessingError, Text: "OpenAI rejected the request (400): unsupported_value of temperature",
		},
		"a conversation that is too long": {
			Status: 400, Body: body(
				`"context_length_exceeded"`, "invalid_request_error", "This model's maximum context length is 128000 tokens.",
			),
			Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "the conversation is too long for model gpt-5 of OpenAI",
		},
		"one that is too long for another server": {
			Status: 400,
			Body: `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError",` +
				`"param":null,"code":400}`,
			Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "the conversation is too long for model gpt-5 of OpenAI",
		},
		"one that is too long for a third server": {
			Status: 400,
			Body: `{"error":{"code":400,"message":"the request exceeds the available context size",` +
				`"type":"exceed_context_size_error"}}`,
			Code: v1alpha1.ErrorCodeRequestTooLarge,
		},
		"a wrong key": {
			Status: 401, Body: body(`"invalid_api_key"`, "invalid_request_error", "Incorrect API key provided:"),
			Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "OpenAI does not accept the API key (401)",
		},
		"a key for something else": {
			Status: 403, Body: body("null", "forbidden", "no"), Code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"an unknown model": {
			Status: 404, Body: body(
				`"model_not_found"`, "invalid_request_error", "no model",
			), Code: v1alpha1.ErrorCodeModelUnavailable,
			Text: "OpenAI has no model gpt-5 for this API key",
		},
		"a model that is not for this key": {
			Status: 403, Body: body(`"model_not_found"`, "x", "no model"), Code: v1alpha1.ErrorCodeModelUnavailable,
		},
		"an unknown model of another server": {
			Status: 404, Body: `{"error":{"message":"model 'gpt-5' not found","type":"not_found_error"}}`,
			Code: v1alpha1.ErrorCodeModelUnavailable,
		},
		"a limit, with seconds": {
			Status: 429, Header: map[string]string{"Retry-After": "20"}, Body: body(
				`"rate_limit_exceeded"`, "tokens", "Rate limit",
			),
			Code: v1alpha1.ErrorCodeProviderRateLimited, Text: "OpenAI is rate limiting requests (429): rate_limit_exceeded",
			After: 20 * time.Second, Again: true,
		},
		"a limit, with milliseconds": {
			Status: 429, Header: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, Body: "",
			Code: v1alpha1.ErrorCodeProviderRateLimited, Text: "OpenAI is rate limiting requests (429)",
			After: 1500 * time.Millisecond, Again: true,
		},
		"a limit that asks to be tried again": {
			Status: 429, Header: map[string]string{
				"X-Should-Retry": "true",
			}, Body: "", Code: v1alpha1.ErrorCodeProviderRateLimited, Again: true,
		},
		"a quota that is used up": {
			Status: 429, Body: body(`"insufficient_quota"`, "insufficient_quota", "You exceeded your current quota"),
			Code: v1alpha1.ErrorCodeProviderQuotaExhausted,
		},
		"an account without money": {Status: 402, Body: "{}", Code: v1alpha1.ErrorCodeProviderQuotaExhausted},
		"a failure": {
			Status: 500, Body: body("null", "server_error", "sorry"), Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true,
		},
		"overload": {
			Status: 503, Body: body("null", "service_unavailable", "busy"), Code: v1alpha1.ErrorCodeProviderUnavailable,
			Again: true,
		},
		"overload of another kind": {
			Status: 529, Body: "null", Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "OpenAI is overloaded (529)",
			Again: true,
		},
		"a status of a gateway's own": {
			Status: 522, Body: "", Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "OpenAI returned a server error (522)",
			Again: true,
		},
		"a body that takes too long": {Status: 408, Body: "", Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true},
		"a key where the word for the error should be": {
			Status: 400, Body: `{"error":{"type":"` + key + `","code":"` + key + `","param":"` + key + `"}}`,
			Code: v1alpha1.ErrorCodeProcessingError, Text: "OpenAI rejected the request (400)",
		},
		"an error that is a text": {
			Status: 400, Body: `{"error":"bad ` + prompt + `"}`, Code: v1alpha1.ErrorCodeProcessingError,
			Text: "OpenAI rejected the request (400)",
		},
		"a redirect to nowhere": {Status: 304, Code: v1alpha1.ErrorCodeProcessingError},
	} {
		t.Run(name, func(t *testing.T) {
			test.Check(t, func(server *providertest.Server) (*model.Response, error) {
				return driverOf(t, server, Options{}).Generate(t.Context(), question())
			}, secrets...)
		})
	}
}

// expectProblem checks the problem that the user reads about an error, beside its text.
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
	providertest.CheckSecrets(t, err, secrets...)
}

// TestAFilterThatAnswersWithAnErrorIsARefusal: Azure refuses a prompt so, and reports within a stream that a response
// was filtered.
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
		"a prompt, at a gateway that passes the inner word on": {
			providertest.Answer{
				Status: 400, Body: `{"error":{"message":"litellm.ContentPolicyViolationError","type":null,"code":"400",` +
					`"provider_specific_fields":{"innererror":{"code":"ResponsibleAIPolicyViolation"}}}}`,
			},
			"",
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
