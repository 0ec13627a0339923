package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// methodCall is the method of the request that calls a tool, and methodListen that of the request for notices.
const (
	methodCall   = "tools/call"
	methodListen = "subscriptions/listen"
)

const (
	// maxAnswers is how many requests of a server are responded to at once.
	maxAnswers = 4
	// maxStreams is how often the responses of one exchange are continued.
	maxStreams = 8
)

const (
	// headerIdempotencyKey names the call to the server. It is the same for each attempt.
	headerIdempotencyKey = "Idempotency-Key"
	headerTraceParent    = "Traceparent"
)

var (
	// errRepeated refuses to send a call again.
	errRepeated = errors.New("the call was sent already")
	// errTooMany refuses to do what a server causes without end.
	errTooMany = errors.New("the server causes too many requests")
)

// transport sends the requests of one connection. What becomes of the requests of one purpose is kept in the exchange
// of their context: the SDK's errors do not have it.
type transport struct {
	// handshake sends the requests before and between calls, whose responses are small, and call those that may have a
	// result.
	handshake, call http.RoundTripper
	server          Server
	// permits is the network access list of the call that uses the connection now; nil permits all.
	permits atomic.Pointer[func(*url.URL) bool]
	// answers has an element for each response to a request of the server that is being sent.
	answers chan struct{}
}

// newTransport returns the transport for a server. o has the limits of the responses with results.
func newTransport(client *egress.Client, server Server, o egress.TransportOptions) *transport {
	o.Hosts, o.Route = []string{placeOf(server.URL)}, server.Route
	small := o
	small.MaxBody = min(o.MaxBody, maxHandshakeBytes)
	return &transport{
		handshake: client.HTTPClient(small).Transport, call: client.HTTPClient(o).Transport, server: server,
		answers: make(chan struct{}, maxAnswers),
	}
}

// allow sets the network access list for the requests that follow.
func (t *transport) allow(permits func(*url.URL) bool) {
	if permits == nil {
		t.permits.Store(nil)
		return
	}
	t.permits.Store(&permits)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x, method := exchangeOf(r.Context()), methodOf(r)
	call := method == methodCall
	switch {
	case r.Method == http.MethodGet && !x.resume():
		return nil, errTooMany
	case r.Method == http.MethodPost && method == "":
		select {
		case t.answers <- struct{}{}:
			defer func() { <-t.answers }()
		default:
			closeBody(r)
			return nil, errTooMany
		}
	}
	r = r.Clone(r.Context())
	for _, header := range []http.Header{t.server.Header, t.server.Secret} {
		for name, values := range header {
			r.Header[name] = values
		}
	}
	if call {
		if !x.begin() {
			closeBody(r)
			return nil, errRepeated
		}
		for name, values := range x.header {
			r.Header[name] = values
		}
	}
	if permits := t.permits.Load(); permits != nil && !(*permits)(r.URL) {
		closeBody(r)
		err := &egress.Error{
			Reason: egress.ReasonForbidden, Text: "the network access list does not permit the url at " + r.URL.Host,
		}
		x.note(call, nil, err)
		return nil, err
	}
	if err := t.identify(r); err != nil {
		closeBody(r)
		x.note(call, nil, err)
		return nil, err
	}
	answer, err := t.next(x).RoundTrip(r)
	x.note(call, answer, err)
	if err == nil {
		answer.Body = &counted{ReadCloser: answer.Body}
	}
	if err == nil && call {
		answer.Body = &observed{ReadCloser: answer.Body, exchange: x}
	}
	return answer, err
}

// identify adds the identity token to a request, if the server gets one. Each request has one of its own, which does
// not leave for another host than that of the server.
func (t *transport) identify(r *http.Request) error {
	if t.server.Token == nil {
		return nil
	}
	failure := &egress.Error{Reason: egress.ReasonUnreachable, Text: "the identity token of the agent cannot be signed"}
	if r.URL.Scheme != "https" || r.URL.Host != hostOf(t.server.URL) {
		return failure
	}
	token, err := t.server.Token(r.Context())
	if err != nil {
		return failure
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// next sends a request of an exchange. A response that was interrupted is continued by further requests.
func (t *transport) next(x *exchange) http.RoundTripper {
	if x.bulky {
		return t.call
	}
	return t.handshake
}

// observed is the body of the response to a call.
type observed struct {
	io.ReadCloser
	exchange *exchange
}

// Read implements io.Reader.
func (o *observed) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.exchange.see(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		o.exchange.note(true, nil, err)
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

// placeOf is the only host and port that requests to a URL go to.
func placeOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return egress.Place(u)
}

// hostOf is the host of a URL.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}
