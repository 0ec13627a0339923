package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// Request is a request and the destinations that it may go to.
type Request struct {
	// Method of HTTP.
	Method string
	// URL to send it to: absolute, https, without user and password.
	URL string
	// Header of the request. A redirect to another destination keeps only the fields that describe the body.
	Header http.Header
	// Secret is the part of the header that is for the URL's own scheme, host and port. A redirect to another place is
	// refused.
	Secret http.Header
	// Body to send; empty for none.
	Body []byte
	// Confined reports whether the URL or the body are for the URL's own scheme, host and port as well: a redirect to
	// another place is refused.
	Confined bool
	// Permits reports whether the request may go to a URL, and where a redirect may lead it. Without it, it may go to
	// all.
	Permits func(*url.URL) bool
	// Route is for whom the request is sent, and how its server is reached.
	Route Route
	// AllowHTTP permits an http URL, without encryption. A redirect from https to http is refused all the same.
	AllowHTTP bool
	// Timeout of the whole, redirects and body included; 0 for none but the context's.
	Timeout time.Duration
	// MaxBody is how much of the response's body is read, in bytes.
	MaxBody int64
}

// Response is the response.
type Response struct {
	// URL that responded, after redirects.
	URL *url.URL
	// Status code of HTTP.
	Status int
	// Header of the response.
	Header http.Header
	// Body of the response, at most MaxBody bytes of it.
	Body []byte
	// More reports whether the body was longer.
	More bool
	// Length of the whole body, in bytes; negative if the server did not send it.
	Length int64
}

// Do sends a request and reads the response, regardless of its status. The error is an *Error. It never sends the same
// request twice to one URL.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	h, err := c.begin(r)
	if err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for followed := 0; ; followed++ {
		asked[h.identity()] = true
		answer, err := c.send(ctx, h)
		if err != nil {
			return nil, err.behind(followed)
		}
		location := answer.Header.Get("Location")
		if !redirects(answer.StatusCode) || location == "" {
			response, err := read(ctx, answer, r.MaxBody)
			if err != nil {
				return nil, err
			}
			response.URL = h.url
			return response, nil
		}
		answer.Body.Close()
		if followed == MaxRedirects {
			err = failure(ReasonRedirect, "the server redirected the request more than %d times", MaxRedirects)
		} else {
			h, err = h.follow(answer.StatusCode, location)
		}
		if err == nil && asked[h.identity()] {
			err = failure(ReasonRedirect, "the server redirected the request in a loop")
		}
		if err != nil {
			err.Sent = true
			return nil, err
		}
	}
}

// send sends one request and returns the response, whose body is open.
func (c *Client) send(ctx context.Context, h *hop) (*http.Response, *Error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(
		ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }},
	)
	request, err := http.NewRequestWithContext(traced, h.method, h.url.String(), bytes.NewReader(h.body))
	if err != nil {
		return nil, failure(ReasonInvalid, "invalid method %q", h.method)
	}
	request.Header = h.headers()
	answer, err := c.transport(h).RoundTrip(request)
	if err == nil {
		return answer, nil
	}
	e := c.explain(ctx, h, sent.Load(), err)
	e.Sent = sent.Load()
	return nil, e
}

// explain returns the meaning of an error of the standard library, without confidential details.
func (c *Client) explain(ctx context.Context, h *hop, connected bool, err error) *Error {
	if ended := over(ctx); ended != nil {
		return ended
	}
	var own *Error
	if errors.As(err, &own) {
		again := *own
		return &again
	}
	host := h.url.Hostname()
	var untrusted *tls.CertificateVerificationError
	var timeout interface{ Timeout() bool }
	switch timedOut := errors.As(err, &timeout) && timeout.Timeout(); {
	case errors.As(err, &untrusted):
		return failure(ReasonUntrusted, "the certificate of %s is invalid or not trusted", host)
	case !connected:
		return failure(ReasonUnreachable, "failed to connect to %s", host)
	case timedOut:
		return failure(ReasonTimeout, "%s did not respond within %s", host, c.header)
	default:
		return failure(ReasonLost, "the connection to %s was closed before the response", host)
	}
}

// over returns why a context has ended; nil if it has not.
func over(ctx context.Context) *Error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return failure(ReasonTimeout, "no response arrived in time")
	default:
		return failure(ReasonCancelled, "the request was cancelled")
	}
}

// read reads the response's body.
func read(ctx context.Context, answer *http.Response, limit int64) (*Response, error) {
	defer answer.Body.Close()
	r := &Response{Status: answer.StatusCode, Header: answer.Header, Length: answer.ContentLength}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err == nil || int64(len(body)) > limit {
		r.More = int64(len(body)) > limit
		r.Body = body[:min(int64(len(body)), limit)]
		return r, nil
	}
	e := over(ctx)
	if e == nil {
		e = failure(ReasonLost, "the connection was closed during the response")
	}
	e.Sent, e.Status = true, answer.StatusCode
	return nil, e
}

// redirects reports whether a status is that of a redirect.
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently,
		http.StatusFound,
		http.StatusSeeOther,
		http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}
