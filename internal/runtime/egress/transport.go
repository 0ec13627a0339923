package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxStream is how much of a response's body a transport passes on without TransportOptions.MaxBody, in bytes.
const DefaultMaxStream = 256 << 20

// TransportOptions are the permitted destinations of a transport's requests, and the limit of a response.
type TransportOptions struct {
	// Hosts are the only ones that requests may go to, as host or host:port, the port 443 without one. Without any,
	// none may be.
	Hosts []string
	// Route is for whom the requests are sent, and how their server is reached.
	Route Route
	// MaxBody is how much of a response's body is passed on, in bytes. Default DefaultMaxStream.
	MaxBody int64
	// Idle is how long a response may have no data. Default Options.HeaderTimeout.
	Idle time.Duration
}

// HTTPClient is for libraries that send their own requests and stream the responses: the rules are those of Do. A
// request goes by https to a listed host and to a checked address of it, over a separate connection, past any proxy,
// and at most once. Any header may be a secret, so that no redirect is followed. A response may take any time while it
// makes progress: it is abandoned after TransportOptions.Idle without data. Errors of requests and of bodies are an
// *Error, which the standard library wraps in its own text; that includes the URL.
func (c *Client) HTTPClient(o TransportOptions) *http.Client {
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxStream
	}
	if o.Idle <= 0 {
		o.Idle = c.header
	}
	return &http.Client{Transport: &transport{client: c, options: o}}
}

// transport is an http.RoundTripper.
type transport struct {
	client  *Client
	options TransportOptions
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	h, problem := t.begin(r)
	if problem != nil {
		closeBody(r)
		return nil, problem
	}
	ctx, cancel := context.WithCancel(r.Context())
	answer, problem := t.send(ctx, r, h)
	if problem != nil {
		cancel()
		return nil, problem
	}
	answer.Request = r
	body := &stream{
		body: answer.Body, ctx: r.Context(), cancel: cancel, host: h.url.Hostname(), status: answer.StatusCode,
		left: t.options.MaxBody, idle: t.options.Idle,
	}
	body.watch()
	answer.Body = body
	return answer, nil
}

// begin checks a request.
func (t *transport) begin(r *http.Request) (*hop, *Error) {
	if len(t.options.Hosts) == 0 {
		return nil, failure(ReasonRefused, "the request has no allowed host")
	}
	// The Host header selects the site of a server.
	if r.Host != "" && r.Host != r.URL.Host {
		return nil, failure(ReasonInvalid, "the Host header differs from the host of the URL")
	}
	h, problem := t.client.begin(Request{
		Method: r.Method, URL: r.URL.String(), Header: r.Header, Route: t.options.Route,
	})
	if problem == nil && !Listed(t.options.Hosts, h.url) {
		return nil, failure(ReasonRefused, "%s is not an allowed host of the request", place(h.url))
	}
	return h, problem
}

// send sends the request and returns the response, unless it is a redirect.
func (t *transport) send(ctx context.Context, r *http.Request, h *hop) (*http.Response, *Error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(
		ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }},
	)
	request := r.Clone(traced)
	request.URL, request.Header, request.Host, request.Close = h.url, h.headers(), "", true
	// Without it no transport can send the body a second time.
	request.GetBody = nil
	answer, err := t.client.transport(h).RoundTrip(request)
	if err != nil {
		e := t.client.explain(r.Context(), h, connected.Load(), err)
		e.Sent = connected.Load()
		return nil, e
	}
	if redirects(answer.StatusCode) {
		answer.Body.Close()
		e := failure(
			ReasonRedirect,
			"the server redirected to another host, but the content of the request is for %s only",
			place(h.url),
		)
		e.Sent, e.Status = true, answer.StatusCode
		return nil, e
	}
	return answer, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// stream is the body of a streamed response.
type stream struct {
	body   io.ReadCloser
	ctx    context.Context //nolint:containedctx // It is the life of the body, as that of its http.Request.
	cancel context.CancelFunc
	host   string
	status int
	left   int64
	idle   time.Duration

	timer   *time.Timer
	silent  atomic.Bool
	closing sync.Once
}

// watch abandons the body when no more data arrives.
func (s *stream) watch() {
	s.timer = time.AfterFunc(s.idle, func() {
		s.silent.Store(true)
		s.cancel()
	})
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return s.more()
	}
	n, err := s.body.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if n > 0 {
		s.timer.Reset(s.idle)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, s.explain()
}

// more returns whether a body that has reached its limit continues.
func (s *stream) more() (int, error) {
	var next [1]byte
	n, err := io.ReadFull(s.body, next[:])
	switch {
	case n > 0:
		return 0, s.failed(failure(ReasonLost, "the response of %s is too long", s.host))
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	default:
		return 0, s.explain()
	}
}

// explain returns why the body broke off.
func (s *stream) explain() *Error {
	if ended := over(s.ctx); ended != nil {
		return s.failed(ended)
	}
	if s.silent.Load() {
		return s.failed(failure(ReasonTimeout, "%s sent no data for %s during its response", s.host, s.idle))
	}
	return s.failed(failure(ReasonLost, "the connection was closed during the response"))
}

// failed is an error of this body.
func (s *stream) failed(e *Error) *Error {
	e.Sent, e.Status = true, s.status
	return e
}

// Close implements io.Closer.
func (s *stream) Close() error {
	var err error
	s.closing.Do(func() {
		s.timer.Stop()
		err = s.body.Close()
		s.cancel()
	})
	return err
}
