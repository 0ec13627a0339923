package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// methodCall is the method of the request that calls a tool.
const methodCall = "tools/call"

// headerIdempotencyKey names the call to the server. It is the same for each attempt.
const headerIdempotencyKey = "Idempotency-Key"

// errRepeated refuses to send a call again.
var errRepeated = errors.New("the call was sent already")

// transport sends the requests of one connection, and keeps what has become of them: the SDK's errors do not have it.
type transport struct {
	next   http.RoundTripper
	server Server
	// key is the Idempotency-Key of the call.
	key string

	mu sync.Mutex
	// called reports whether the call was begun, and answered whether its response has begun.
	called, answered bool
	// failure is the last failed request, and status the last status that was no success: of the call once it was begun.
	failure *egress.Error
	status  int
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	call := methodOf(r) == methodCall
	r = r.Clone(r.Context())
	for _, header := range []http.Header{t.server.Header, t.server.Secret} {
		for name, values := range header {
			r.Header[name] = values
		}
	}
	if call {
		if !t.begin() {
			closeBody(r)
			return nil, errRepeated
		}
		if t.key != "" {
			r.Header.Set(headerIdempotencyKey, t.key)
		}
	}
	if t.server.Permits != nil && !t.server.Permits(r.URL) {
		closeBody(r)
		err := &egress.Error{
			Reason: egress.ReasonForbidden, Text: "the network access list does not permit the url at " + r.URL.Host,
		}
		t.note(call, nil, err)
		return nil, err
	}
	answer, err := t.next.RoundTrip(r)
	t.note(call, answer, err)
	if err == nil {
		answer.Body = &counted{ReadCloser: answer.Body}
	}
	if err == nil && call {
		answer.Body = &observed{ReadCloser: answer.Body, failed: func(err error) { t.note(call, nil, err) }}
	}
	return answer, err
}

// begin records that the call is sent, and reports whether it was not sent before.
func (t *transport) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.called
	t.called, t.failure, t.status = true, nil, 0
	return first
}

// note records what has become of a request. Once the call was begun, only the call counts: the SDK also sends a notice
// when it is cancelled.
func (t *transport) note(call bool, answer *http.Response, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.called && !call {
		return
	}
	var failure *egress.Error
	switch {
	case errors.As(err, &failure):
		t.failure = failure
	case answer != nil && answer.StatusCode/100 != 2:
		t.status = answer.StatusCode
	case answer != nil:
		t.failure, t.status, t.answered = nil, 0, call
	}
}

// fate returns what has become of the requests so far.
func (t *transport) fate() Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Error{Called: t.called, Answered: t.answered, Request: t.failure, Status: t.status}
}

// observed is the body of a response whose reading may fail.
type observed struct {
	io.ReadCloser
	failed func(error)
}

// Read implements io.Reader.
func (o *observed) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		o.failed(err)
	}
	return n, err
}

// methodOf is the method of a JSON-RPC request; empty for none.
func methodOf(r *http.Request) string {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	var message struct {
		Method string `json:"method"`
	}
	if json.NewDecoder(body).Decode(&message) != nil {
		return ""
	}
	return message.Method
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// hostOf is the only host that requests to a URL go to.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}
