package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

var (
	errRedirected = errors.New("the server redirects the request")
	errTooLong    = errors.New("the answer is too long")
)

// Client is a copy of an HTTP client for one provider's SDK: it follows no redirect, because a provider has no reason for one and the key must go
// nowhere else, and reads at most maxBody bytes of an answer, and MaxErrorBody of one that is an error.
func Client(h *http.Client, maxBody int64) *http.Client {
	c := *h
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirected }
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = limitedTransport{next: next, limit: maxBody}
	return &c
}

// MaxErrorBody is how much of an error's body is read, in bytes. What comes behind it is left out without a word.
const MaxErrorBody = 64 << 10

// limitedTransport reads no more than so much of an answer's body.
type limitedTransport struct {
	next  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		answer.Body = errorBody{Reader: io.LimitReader(answer.Body, MaxErrorBody), Closer: answer.Body}
		return answer, nil
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body, left: t.limit}
	return answer, nil
}

// errorBody is the beginning of an error's body.
type errorBody struct {
	io.Reader
	io.Closer
}

// limitedBody fails with errTooLong where io.LimitedReader would pretend that the body has ended.
type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return b.more()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// more says whether a body of which all has been read that may be has ended.
func (b *limitedBody) more() (int, error) {
	var next [1]byte
	n, err := io.ReadFull(b.ReadCloser, next[:])
	if n > 0 {
		return 0, errTooLong
	}
	return 0, err
}

// RequestError is why a request got no answer, or no whole one: the context's own error when the context has ended, otherwise an *Error. The SDK's
// error may have the URL, the key or the prompt in it, and is left behind. A request that cannot be sent the way it is set up counts as forbidden
// (403), one that could be answered a moment later as unavailable (503): ERR-02 knows no other words for it.
func RequestError(ctx context.Context, provider string, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var refused *egress.Error
	switch {
	case errors.Is(err, errTooLong), errors.Is(err, bufio.ErrTooLong):
		return &Error{Provider: provider, text: fmt.Sprintf("the answer of %s is too long to be read", provider)}
	case errors.Is(err, errRedirected):
		return &Error{Provider: provider, text: fmt.Sprintf("%s sends the request elsewhere, which is not followed (403): check the base URL", provider)}
	case errors.As(err, &refused):
		return egressError(provider, refused)
	default:
		return &Error{Provider: provider, text: fmt.Sprintf("%s gave no whole answer (503): the connection broke", provider), transient: true}
	}
}

// IsEventStream says that an answer is one of events, as its header has it.
func IsEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "text/event-stream"
}

// NoStream is the error of an answer that should be one of events and is something else, such as a page for people.
func NoStream(provider string) error {
	return &Error{Provider: provider, text: fmt.Sprintf("%s answered with something that is no stream of events: check the base URL", provider)}
}

// egressError tells what kept a request from its answer. The text of an *egress.Error may be shown to anybody.
func egressError(provider string, e *egress.Error) *Error {
	switch e.Reason {
	case egress.ReasonInvalid, egress.ReasonRefused, egress.ReasonUntrusted, egress.ReasonRedirect:
		return &Error{Provider: provider, text: fmt.Sprintf("%s cannot be asked this way (403): %s", provider, e.Text)}
	default:
		return &Error{Provider: provider, text: fmt.Sprintf("%s gave no whole answer (503): %s", provider, e.Text), transient: true}
	}
}

// RetryAfter is how long the header of an answer asks to wait: milliseconds, seconds or a date. It is 0 when it does not say, or nothing sensible.
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
