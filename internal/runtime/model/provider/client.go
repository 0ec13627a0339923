package provider

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

var (
	errRedirected = errors.New("the server redirected the request")
	errTooLong    = errors.New("the response is too long")
)

const (
	// MaxBody is the maximum size of a stream, in bytes. A token takes 200 to 500 bytes of it, and no model returns
	// more than 128k tokens at once: 131,072 tokens of 512 bytes.
	MaxBody = 64 << 20
	// MaxEvents is the maximum number of events of a stream: two for each token.
	MaxEvents = 256 << 10
	// MaxEvent is the maximum size of an event of a stream, in bytes. The SDKs hold each event in memory several times.
	MaxEvent = 1 << 20
	// MaxValues is how many commas and opening brackets an event may have outside of its texts. Of two bytes the SDKs
	// may make a value of more than a kilobyte, so that an event of MaxEvent could take hundreds of megabytes.
	MaxValues = 16 << 10
	// MaxDepth is the maximum nesting depth of an event. A tool accepts arguments with at most 64 levels.
	MaxDepth = 128
	// MaxErrorBody is the maximum size of an error's body, in bytes. The rest is silently dropped.
	MaxErrorBody = 64 << 10
)

// Client is a copy of an HTTP client for one provider's SDK: it follows no redirect, because a provider has no reason
// for one and the key must go nowhere else, and reads no more of a response than the limits above. An SDK is given
// whole events, each of which is within its limits.
func Client(h *http.Client) *http.Client {
	return limitedClient(h, limits{body: MaxBody, events: MaxEvents, event: MaxEvent, values: MaxValues, depth: MaxDepth})
}

// limits of a successful response.
type limits struct {
	body, events         int
	event, values, depth int
}

func limitedClient(h *http.Client, l limits) *http.Client {
	c := *h
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirected }
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = limitedTransport{next: next, limits: l}
	return &c
}

// limitedTransport reads no more than so much of a response's body.
type limitedTransport struct {
	next   http.RoundTripper
	limits limits
}

// RoundTrip implements http.RoundTripper.
func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		answer.Body = &errorBody{Reader: io.LimitReader(answer.Body, MaxErrorBody), Closer: answer.Body}
		return answer, nil
	}
	answer.Body = newEventBody(answer.Body, t.limits)
	return answer, nil
}

// errorBody is the beginning of an error's body. It ends where decoding would become too expensive.
type errorBody struct {
	io.Reader
	io.Closer
	seen extent
}

// errorLimits of a body.
var errorLimits = limits{event: MaxErrorBody, values: 2048, depth: MaxDepth}

// Read implements io.Reader.
func (b *errorBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	for i, c := range p[:n] {
		b.seen.grow(c)
		if b.seen.exceeds(errorLimits) {
			b.Reader = strings.NewReader("")
			return i, io.EOF
		}
	}
	return n, err
}
