// Package providertest plays model providers for the tests of drivers: a server that records its requests and
// responds by script, with streams that may break off, and doubles of the providers' APIs that refuse the requests that
// the providers refuse according to their documents. Every driver must pass Conform and Pairs against the double of its
// API.
package providertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"sync"
	"testing"
)

// Answer is the server's response to one request.
type Answer struct {
	// Status of HTTP; 0 is 200.
	Status int
	// Header of the response. Without a Content-Type it is a stream of events where the status is 200, and JSON
	// otherwise.
	Header map[string]string
	// Body of the response.
	Body string
	// Cut breaks the connection off after the body.
	Cut bool
	// Hold keeps the connection open after the body until the client is gone.
	Hold bool
}

// Request is a request that the server has received.
type Request struct {
	// Method of HTTP.
	Method string
	// URL of the request, with the host that it named.
	URL string
	// Header of the request.
	Header http.Header
	// Body of the request.
	Body []byte
}

// Server is a provider of the test's own.
type Server struct {
	answer Answer
	server *httptest.Server

	lock sync.Mutex
	seen []Request
}

// Serve starts a server that answers every request the same way. It ends with the test.
func Serve(t *testing.T, answer Answer) *Server {
	t.Helper()
	s := &Server{answer: answer}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	return s
}

// Client is for requests to any host by https: all of them come to the server.
func (s *Server) Client() *http.Client {
	roots := s.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, network, s.server.Listener.Addr().String())
		},
		// The name that the test's certificate is for.
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
}

// After is a client that acts when the reader has read a number of bytes of the response and wants more.
func After(h *http.Client, read int, do func()) *http.Client {
	c := *h
	c.Transport = afterTransport{next: h.Transport, read: read, do: do}
	return &c
}

type afterTransport struct {
	next http.RoundTripper
	read int
	do   func()
}

// RoundTrip implements http.RoundTripper.
func (t afterTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &afterBody{ReadCloser: answer.Body, left: t.read, do: t.do}
	return answer, nil
}

type afterBody struct {
	io.ReadCloser
	left int
	do   func()
}

// Read implements io.Reader.
func (b *afterBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.do()
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}

// Seen are the requests so far.
func (s *Server) Seen() []Request {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]Request(nil), s.seen...)
}

// One is the only request there was.
func (s *Server) One(t *testing.T) Request {
	t.Helper()
	seen := s.Seen()
	if len(seen) != 1 {
		t.Fatalf("the server received %d requests, want 1", len(seen))
	}
	return seen[0]
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	at := url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	s.lock.Lock()
	s.seen = append(s.seen, Request{Method: r.Method, URL: at.String(), Header: r.Header.Clone(), Body: body})
	s.lock.Unlock()

	status := s.answer.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusOK {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for name, value := range s.answer.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, s.answer.Body)
	_ = http.NewResponseController(w).Flush()
	if s.answer.Hold {
		<-r.Context().Done()
	}
	if s.answer.Cut {
		panic(http.ErrAbortHandler)
	}
}

// SameJSON fails the test unless two texts are the same JSON, numbers digit by digit.
func SameJSON(t *testing.T, got []byte, want string) {
	t.Helper()
	given, wanted := decoded(t, got), decoded(t, []byte(want))
	if reflect.DeepEqual(given, wanted) {
		return
	}
	t.Errorf("got\n%s\nwant\n%s", indented(t, given), indented(t, wanted))
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("reading %s: %v", text, err)
	}
	if decoder.More() {
		t.Fatalf("there is more than one value in %s", text)
	}
	return value
}

func indented(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}
