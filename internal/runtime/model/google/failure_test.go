package google

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
		for _, secret := range []string{key, prompt, "https://", "streamGenerateContent", "alt=sse"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows %q: %v", secret, err)
			}
		}
		if len(err.Error()) > 300 {
			t.Errorf("the error has %d bytes: %v", len(err.Error()), err)
		}
	}
}

// problem is an error as Google tells it.
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
			status: 400, body: problem("400", "INVALID_ARGUMENT", "Unknown name", ""),
			code: v1alpha1.ErrorCodeProcessingError, says: "Google rejected the request (400): INVALID_ARGUMENT",
		},
		"a conversation that is too long": {
			status: 400, body: problem(
				"400", "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum number of tokens allowed (1).", "",
			),
			code: v1alpha1.ErrorCodeRequestTooLarge, says: "the conversation is too long for model gemini-3-pro of Google",
		},
		"a body that is too large": {status: 413, body: "<html>", code: v1alpha1.ErrorCodeRequestTooLarge},
		"a wrong key": {
			status: 400, body: problem("400", "INVALID_ARGUMENT", "API key not valid.", invalidKey),
			code: v1alpha1.ErrorCodeProviderMisconfigured, says: "Google does not accept the API key (400)",
		},
		"no key": {
			status: 401, body: problem("401", "UNAUTHENTICATED", "no", ""), code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"a key for something else": {
			status: 403, body: problem("403", "PERMISSION_DENIED", "no", ""), code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
		"an unknown model": {
			status: 404, body: problem("404", "NOT_FOUND", "models/gemini-3-pro is not found", ""),
			code: v1alpha1.ErrorCodeModelUnavailable, says: "Google has no model gemini-3-pro for this API key",
		},
		"a limit for each minute": {
			status: 429, body: problem(
				"429", "RESOURCE_EXHAUSTED", "You exceeded your current quota",
				quota("GenerateRequestsPerMinutePerProjectPerModel")+","+retry,
			),
			code: v1alpha1.ErrorCodeProviderRateLimited, says: "Google is rate limiting requests (429): RESOURCE_EXHAUSTED",
			after: 34500 * time.Millisecond, again: true,
		},
		"a limit with a header": {
			status: 429, header: map[string]string{"Retry-After": "20"}, body: problem("429", "RESOURCE_EXHAUSTED", "slow", ""),
			code: v1alpha1.ErrorCodeProviderRateLimited, after: 20 * time.Second, again: true,
		},
		"a limit for each day": {
			status: 429, body: problem(
				"429", "RESOURCE_EXHAUSTED", "quota", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")+","+retry,
			),
			code: v1alpha1.ErrorCodeProviderQuotaExhausted, after: 34500 * time.Millisecond,
		},
		"a failure": {
			status: 500, body: problem("500", "INTERNAL", "sorry", ""), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"a gateway's failure": {
			status: 502, body: "<html><body>502 " + prompt, code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"overload": {
			status: 503, body: problem(
				"503", "UNAVAILABLE", "The model is overloaded.", "",
			), code: v1alpha1.ErrorCodeProviderUnavailable,
			says: "Google returned a server error (503): UNAVAILABLE", again: true,
		},
		"a deadline": {
			status: 504, body: problem("504", "DEADLINE_EXCEEDED", "late", ""), code: v1alpha1.ErrorCodeProviderUnavailable,
			again: true,
		},
		"a proxy's 529": {
			status: 529, body: "null", code: v1alpha1.ErrorCodeProviderUnavailable, says: "Google is overloaded (529)",
			again: true,
		},
		"a huge body": {
			status: 500, body: strings.Repeat(prompt, 100_000), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"an endless body": {
			status: 500, body: strings.Repeat(
				"x", 33<<20,
			), code: v1alpha1.ErrorCodeProviderUnavailable, says: "Google returned a server error (500)", again: true,
		},
		"another code in the body": {
			status: 500, body: problem("200", "OK", "fine", ""), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
		},
		"a key where the word for the error should be": {
			status: 400, body: problem(
				"400", key, "", "",
			), code: v1alpha1.ErrorCodeProcessingError, says: "Google rejected the request (400)",
		},
		"a redirect": {
			status: 307, header: map[string]string{
				"Location": "https://elsewhere.example.org/",
			}, code: v1alpha1.ErrorCodeProviderMisconfigured,
		},
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
