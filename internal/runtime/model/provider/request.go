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

// RequestError is why a request got no response, or no complete one: the context's own error if the context has ended,
// otherwise an *Error. The SDK's error may contain the URL, the key or the prompt, and is dropped. The text has no
// status, because no server has sent one.
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

// IsEventStream reports whether a response is an event stream, according to its header.
func IsEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// NoStream is the error of a response that is not an event stream, such as a web page.
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

// RetryAfter is the pause that the header of a response requests: in milliseconds, in seconds or as a date. It is 0 for
// a missing or invalid header.
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

// maxRetryAfter is the longest requested pause that is accepted.
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
