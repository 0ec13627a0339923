package provider

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// RequestError is why a request got no response, or no whole one: the context's own error when the context has ended,
// otherwise an *Error. The SDK's error may have the URL, the key or the prompt in it, and is left behind. No status is
// in the text, as no server has sent one.
func RequestError(ctx context.Context, provider string, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var refused *egress.Error
	switch {
	case errors.Is(err, errTooLong):
		return &Error{Provider: provider, text: fmt.Sprintf("the response of %s is too long to be read", provider)}
	case errors.Is(err, errRedirected):
		const problem = "redirects are not followed: check the base URL"
		return &Error{
			Provider: provider, text: fmt.Sprintf("%s redirected the request: %s", provider, problem), Problem: problem,
			code: v1alpha1.ErrorCodeProviderMisconfigured,
		}
	case errors.As(err, &refused):
		return egressError(provider, refused)
	default:
		return &Error{
			Provider: provider, text: provider + " returned an incomplete response: the connection was closed",
			code: v1alpha1.ErrorCodeProviderUnavailable, transient: true,
		}
	}
}

// IsEventStream reports whether a response is one of events, as its header has it.
func IsEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// NoStream is the error of a response that should be one of events and is something else, such as a page for people.
func NoStream(provider string) error {
	text := fmt.Sprintf("%s did not respond with an event stream: check the base URL", provider)
	return &Error{Provider: provider, text: text}
}

// egressError returns why a request has no response. The text of an *egress.Error may be shown to any user.
func egressError(provider string, e *egress.Error) *Error {
	switch e.Reason {
	case egress.ReasonInvalid, egress.ReasonRefused, egress.ReasonUntrusted, egress.ReasonRedirect:
		return &Error{
			Provider: provider, text: fmt.Sprintf("the request to %s was not sent: %s", provider, e.Text),
			Problem: e.Text, code: v1alpha1.ErrorCodeProviderMisconfigured,
		}
	default:
		return &Error{
			Provider: provider, text: fmt.Sprintf("%s returned an incomplete response: %s", provider, e.Text),
			Problem: e.Text, code: v1alpha1.ErrorCodeProviderUnavailable, transient: true,
		}
	}
}

// RetryAfter is how long the header of a response asks to wait: milliseconds, seconds or a date. It is 0 when it does
// not say, or nothing sensible.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := duration(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := h.Get("Retry-After")
	if d, ok := duration(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// maxRetryAfter is the longest wait that is believed.
const maxRetryAfter = 30 * 24 * time.Hour

func duration(value string, unit time.Duration) (time.Duration, bool) {
	count, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(count) || count < 0 {
		return 0, false
	}
	if count > float64(maxRetryAfter)/float64(unit) {
		return maxRetryAfter, true
	}
	return time.Duration(count * float64(unit)), true
}
