package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Kinds with a meaning of their own, whatever the status. Drivers may translate a provider's word into one of them.
const (
	// KindContextLength: the conversation is longer than the model can read.
	KindContextLength = "context_length_exceeded"
	// KindModelNotFound: there is no such model, or none that the key may use.
	KindModelNotFound = "model_not_found"
	// KindQuota: the paid quota is exhausted, and waiting does not help.
	KindQuota = "insufficient_quota"
	// KindInvalidKey: the provider does not know the API key.
	KindInvalidKey = "invalid_api_key"
)

// statusOverloaded is a status of some providers for too many concurrent requests, which the standard library does not
// define.
const statusOverloaded = 529

// Error is why a provider returned no response. Its text is our own. It wraps nothing, so that it cannot expose a key,
// a header or a prompt.
type Error struct {
	// Provider that was called.
	Provider string
	// Status of HTTP, or the equivalent of the provider's word; 0 without a response.
	Status int
	// RetryAfter is the pause that the provider requests; 0 for none.
	RetryAfter time.Duration
	// Kind is the provider's own word for the error; it may be empty.
	Kind string
	// Problem is a text for the user: the provider's message about a rejected request, without secrets (SafeText), or the
	// problem of the connection. It may contain parts of the prompt, and is only for the Turn's status, not for logs.
	// It may be empty.
	Problem string

	text string
	// code of a Turn that fails with the error; processing_error if it is empty.
	code      v1alpha1.ErrorCode
	transient bool
	// once: a single retry is worthwhile.
	once bool
	// elsewhere: another provider may accept the request, which was not sent.
	elsewhere bool
}

// Error implements error.
func (e *Error) Error() string {
	return e.text
}

// ErrorCode implements model.Coded.
func (e *Error) ErrorCode() v1alpha1.ErrorCode {
	return cmp.Or(e.code, v1alpha1.ErrorCodeProcessingError)
}

// Late is the error of a call that a timeout has ended.
func Late(provider, problem string) *Error {
	return &Error{
		Provider: provider, Problem: problem, code: v1alpha1.ErrorCodeProviderUnavailable,
		text: fmt.Sprintf("%s did not respond in time: %s", provider, problem),
	}
}

// Transient reports whether a retry of the same request may succeed.
func (e *Error) Transient() bool {
	return e.transient
}

// Elsewhere reports whether the request is one that this provider alone is known to refuse. It was not sent.
func (e *Error) Elsewhere() bool {
	return e.elsewhere
}

// Tries is the maximum number of attempts of the same request, given the usual limit.
func (e *Error) Tries(usual int32) int32 {
	switch {
	case !e.transient:
		return 1
	case e.once:
		return min(usual, 2)
	default:
		return usual
	}
}

// StatusError returns the *Error of a failed request: its status, the pause that the provider requests, and the
// provider's own word for it. An error within a response that began well has the status 200, or 0: then the word alone
// decides.
func StatusError(provider, model string, status int, retryAfter time.Duration, kind string) error {
	kind = SafeCode(kind, "")
	number := fmt.Sprintf(" (%d)", status)
	if status < http.StatusMultipleChoices {
		// The server sent a word, but no error status.
		status, number = statusOf(kind), ""
	}
	e := &Error{Provider: provider, Status: status, RetryAfter: max(retryAfter, 0), Kind: kind}
	switch {
	case kind == KindModelNotFound, status == http.StatusNotFound:
		e.code, e.text = v1alpha1.ErrorCodeModelUnavailable, fmt.Sprintf(
			"%s has no model %s for this API key",
			provider,
			model,
		)
	case kind == KindContextLength, status == http.StatusRequestEntityTooLarge:
		e.code = v1alpha1.ErrorCodeRequestTooLarge
		e.text = fmt.Sprintf("the conversation is too long for model %s of %s", model, provider)
	case kind == KindQuota, status == http.StatusPaymentRequired:
		e.code = v1alpha1.ErrorCodeProviderQuotaExhausted
		e.text = fmt.Sprintf("the quota of model %s at %s is exhausted", model, provider)
	case kind == KindInvalidKey, status == http.StatusUnauthorized:
		e.code = v1alpha1.ErrorCodeProviderMisconfigured
		e.text = provider + " does not accept the API key" + number
	default:
		e.text, e.code, e.transient = describe(provider, status)
		e.text += number
		if kind != "" {
			e.text += ": " + kind
		}
	}
	return e
}

// describe returns the meaning of a status without a known word, its code, and whether a retry may succeed.
func describe(provider string, status int) (text string, code v1alpha1.ErrorCode, transient bool) {
	switch status {
	case http.StatusForbidden:
		return provider + " does not permit the request with this API key", v1alpha1.ErrorCodeProviderMisconfigured, false
	case http.StatusTooManyRequests:
		return provider + " is rate limiting requests", v1alpha1.ErrorCodeProviderRateLimited, true
	case statusOverloaded:
		return provider + " is overloaded", v1alpha1.ErrorCodeProviderUnavailable, true
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return provider + " could not serve the request", v1alpha1.ErrorCodeProviderUnavailable, true
	}
	if status >= http.StatusInternalServerError {
		return provider + " returned a server error", v1alpha1.ErrorCodeProviderUnavailable, true
	}
	return provider + " rejected the request", v1alpha1.ErrorCodeProcessingError, false
}

// statuses are the equivalents of the providers' words, for errors within a response, which have no status of their
// own.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"rate_limit_exceeded":   http.StatusTooManyRequests,
	"api_error":             http.StatusInternalServerError,
	"server_error":          http.StatusInternalServerError,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      statusOverloaded,
	"INVALID_ARGUMENT":      http.StatusBadRequest,
	"FAILED_PRECONDITION":   http.StatusBadRequest,
	"UNAUTHENTICATED":       http.StatusUnauthorized,
	"PERMISSION_DENIED":     http.StatusForbidden,
	"NOT_FOUND":             http.StatusNotFound,
	"RESOURCE_EXHAUSTED":    http.StatusTooManyRequests,
	"INTERNAL":              http.StatusInternalServerError,
	"UNAVAILABLE":           http.StatusServiceUnavailable,
	"DEADLINE_EXCEEDED":     http.StatusGatewayTimeout,
	KindContextLength:       http.StatusBadRequest,
	KindModelNotFound:       http.StatusNotFound,
	KindQuota:               http.StatusTooManyRequests,
	KindInvalidKey:          http.StatusUnauthorized,
}

// statusOf returns the status for a word. A response that broke off for an unknown reason counts as one of a bad
// gateway.
func statusOf(kind string) int {
	if status, known := statuses[kind]; known {
		return status
	}
	return http.StatusBadGateway
}

// WithProblem adds the provider's message about a rejected request to an error of StatusError. It is not needed for
// limits and outages, which are transient, and a rejected key must not be quoted.
func WithProblem(err error, text string) error {
	var e *Error
	if errors.As(err, &e) && !e.transient && e.Status != http.StatusUnauthorized {
		e.Problem = text
	}
	return err
}

// maxText bounds the provider's text that is passed on, in bytes.
const maxText = 1024

// SafeText returns a provider's own text about a request, fit for the user: without the secret, without control
// characters, at most 1 KiB.
func SafeText(text, secret string) string {
	if len(secret) >= minKey {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) <= maxText {
		return text
	}
	text = text[:maxText]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// maxWords is the longest word of a provider that is passed on.
const maxWords = 100

// SafeCode returns a provider's own word, such as an error's code, if it can be shown: short, made of letters and their
// connectors, and without the secret, which a server could have inserted. Otherwise it is empty.
func SafeCode(text, secret string) string {
	if len(text) > maxWords || secret != "" && strings.Contains(text, secret) {
		return ""
	}
	for _, r := range text {
		if !isLetter(r) && !strings.ContainsRune("_-. ", r) {
			return ""
		}
	}
	return text
}

func isLetter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
