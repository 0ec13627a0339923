package google

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// secrets are the texts that no error may show.
var secrets = []string{key, prompt, "streamGenerateContent", "alt=sse"}

// problem is an error in Google's form.
func problem(code, status, message, details string) string {
	return `{"error": {"code": ` + code + `,"message": "` + message + ` ` + prompt + ` ` + key + `","status": "` + status +
		`","details": [` + details + `]}}`
}

func TestStatuses(t *testing.T) {
	const invalidKey = `{"@type": "type.googleapis.com/google.rpc.ErrorInfo","reason": "API_KEY_INVALID",` +
		`"domain": "googleapis.com"}`
	const retry = `{"@type": "type.googleapis.com/google.rpc.RetryInfo","retryDelay": "34.5s"}`
	quota := func(id string) string {
		return `{"@type": "type.googleapis.com/google.rpc.QuotaFailure","violations": [{"quotaId": "` + id +
			`","quotaValue": "50"}]}`
	}
	for name, test := range map[string]providertest.Failure{
		"an unknown parameter": {
			Status: 400, Body: problem("400", "INVALID_ARGUMENT", "Unknown name", ""),
			Code: v1alpha1.ErrorCodeProcessingError, Text: "Google rejected the request (400): INVALID_ARGUMENT",
		},
		"a conversation that is too long": {
			Status: 400, Body: problem(
				"400", "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum number of tokens allowed (1).", "",
			),
			Code: v1alpha1.ErrorCodeRequestTooLarge, Text: "the conversation is too long for model gemini-3-pro of Google",
		},
		"a wrong key": {
			Status: 400, Body: problem("400", "INVALID_ARGUMENT", "API key not valid.", invalidKey),
			Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "Google does not accept the API key (400)",
		},
		"no key": {
			Status: 401, Body: problem("401", "UNAUTHENTICATED", "no", ""), Code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"a key for something else": {
			Status: 403, Body: problem("403", "PERMISSION_DENIED", "no", ""), Code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"an unknown model": {
			Status: 404, Body: problem("404", "NOT_FOUND", "models/gemini-3-pro is not found", ""),
			Code: v1alpha1.ErrorCodeModelUnavailable, Text: "Google has no model gemini-3-pro for this API key",
		},
		"a limit for each minute": {
			Status: 429, Body: problem(
				"429", "RESOURCE_EXHAUSTED", "You exceeded your current quota",
				quota("GenerateRequestsPerMinutePerProjectPerModel")+","+retry,
			),
			Code: v1alpha1.ErrorCodeProviderRateLimited, Text: "Google is rate limiting requests (429): RESOURCE_EXHAUSTED",
			After: 34500 * time.Millisecond, Again: true,
		},
		"a limit with a header": {
			Status: 429, Header: map[string]string{"Retry-After": "20"}, Body: problem("429", "RESOURCE_EXHAUSTED", "slow", ""),
			Code: v1alpha1.ErrorCodeProviderRateLimited, After: 20 * time.Second, Again: true,
		},
		"a limit for each day": {
			Status: 429, Body: problem(
				"429", "RESOURCE_EXHAUSTED", "quota", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")+","+retry,
			),
			Code: v1alpha1.ErrorCodeProviderQuotaExhausted, After: 34500 * time.Millisecond,
		},
		"a failure": {
			Status: 500, Body: problem("500", "INTERNAL", "sorry", ""), Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true,
		},
		"overload": {
			Status: 503, Body: problem(
				"503", "UNAVAILABLE", "The model is overloaded.", "",
			), Code: v1alpha1.ErrorCodeProviderUnavailable,
			Text: "Google returned a server error (503): UNAVAILABLE", Again: true,
		},
		"a deadline": {
			Status: 504, Body: problem("504", "DEADLINE_EXCEEDED", "late", ""), Code: v1alpha1.ErrorCodeProviderUnavailable,
			Again: true,
		},
		"a proxy's 529": {
			Status: 529, Body: "null", Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "Google is overloaded (529)",
			Again: true,
		},
		"an endless body": {
			Status: 500, Body: strings.Repeat(
				"x", 33<<20,
			), Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "Google returned a server error (500)", Again: true,
		},
		"another code in the body": {
			Status: 500, Body: problem("200", "OK", "fine", ""), Code: v1alpha1.ErrorCodeProviderUnavailable, Again: true,
		},
		"a key where the word for the error should be": {
			Status: 400, Body: problem(
				"400", key, "", "",
			), Code: v1alpha1.ErrorCodeProcessingError, Text: "Google rejected the request (400)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.Check(t, func(server *providertest.Server) (*model.Response, error) {
				return driverOf(t, server, Options{}).Generate(t.Context(), question())
			}, secrets...)
		})
	}
}
