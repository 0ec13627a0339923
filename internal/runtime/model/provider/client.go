package provider

import (
	"errors"
	"io"
	"net/http"
)

var (
	errRedirected = errors.New("the server redirects the request")
	errTooLong    = errors.New("the answer is too long")
)

const (
	// MaxBody is the most of a stream that is read, in bytes. A token takes 200 to 500 bytes of it, and no model gives more than 128k tokens at once:
	// 131,072 tokens of 512 bytes.
	MaxBody = 64 << 20
	// MaxEvent is the largest event of a stream that is read, in bytes. The SDKs hold all of an event, several times over, and that of Google looks
	// for its end from its beginning whenever more of it has come.
	MaxEvent = 8 << 20
	// MaxValues is how many commas an event may have outside of its texts. Of two bytes the SDKs may make a value of more than a kilobyte, so that
	// an event of MaxEvent could take gigabytes. Arguments of calls that a tool could take have fewer.
	MaxValues = 32 << 10
	// MaxErrorBody is how much of an error's body is read, in bytes. What comes behind it is left out without a word.
	MaxErrorBody = 64 << 10
)

// Client is a copy of an HTTP client for one provider's SDK: it follows no redirect, because a provider has no reason for one and the key must go
// nowhere else, and reads no more of an answer than the limits above.
func Client(h *http.Client) *http.Client {
	return limitedClient(h, limits{body: MaxBody, event: MaxEvent, values: MaxValues})
}

// limits of an answer that is no error.
type limits struct {
	body, event, values int
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

// limitedTransport reads no more than so much of an answer's body.
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
		answer.Body = errorBody{Reader: io.LimitReader(answer.Body, MaxErrorBody), Closer: answer.Body}
		return answer, nil
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body, limits: t.limits, left: t.limits.body}
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
	limits limits
	left   int
	event  extent
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return b.more()
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	if !b.event.grow(p[:n], b.limits) {
		return 0, errTooLong
	}
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

// extent is what has come of an event.
type extent struct {
	// bytes of it, and commas outside of its texts.
	bytes, values int
	// quoted says that a text has begun, and escaped that the next character of it means nothing.
	quoted, escaped bool
	// last are the last bytes, the newest first.
	last [3]byte
}

// grow takes up what was read. It says whether each event is within its limits. An empty line ends an event where all SDKs see one: behind a line that
// ends the same way.
func (e *extent) grow(read []byte, l limits) bool {
	for _, c := range read {
		e.bytes++
		switch {
		case c == '\n':
			// No text of JSON goes over the end of a line.
			e.quoted, e.escaped = false, false
			if e.last[0] == '\n' || e.last == [3]byte{'\r', '\n', '\r'} {
				e.bytes, e.values = 0, 0
			}
		case e.escaped:
			e.escaped = false
		case c == '\\':
			e.escaped = e.quoted
		case c == '"':
			e.quoted = !e.quoted
		case c == ',' && !e.quoted:
			e.values++
		}
		e.last = [3]byte{c, e.last[0], e.last[1]}
		if e.bytes > l.event || e.values > l.values {
			return false
		}
	}
	return true
}
