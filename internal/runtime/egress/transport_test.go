package egress

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// hosts lets requests go to the test's site alone.
func (s *site) hosts() TransportOptions {
	return TransportOptions{Hosts: []string{"example.com:" + s.port}}
}

// reply is the response that a library gets. Its body is closed at the end of the test.
type reply struct {
	status int
	body   io.Reader
}

// post sends a request as a library would.
func post(t *testing.T, c *http.Client, u, body string, change func(*http.Request)) (reply, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "hidden")
	if change != nil {
		change(r)
	}
	answer, err := c.Do(r)
	if err != nil {
		return reply{}, err
	}
	t.Cleanup(func() { answer.Body.Close() })
	return reply{answer.StatusCode, answer.Body}, nil
}

// expectOwn checks an error as expect does, without the words of the standard library around it.
func expectOwn(t *testing.T, err error, want Reason, sent bool) {
	t.Helper()
	_ = ownError(t, err, want, sent)
}

// ownError is expectOwn, and returns the error.
func ownError(t *testing.T, err error, want Reason, sent bool) *Error {
	t.Helper()
	var around *url.Error
	if errors.As(err, &around) {
		err = around.Err
	}
	return failedWith(t, err, want, sent)
}

func TestALibrarysRequestIsSentAsItIs(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(
			w,
			r.Method,
			" ",
			r.URL,
			" ",
			r.Header.Get("X-Api-Key"),
			" ",
			r.Header.Get("User-Agent"),
			" ",
			r.ContentLength,
			" ",
			r.Proto,
		)
	})
	c, _ := newClient(nil, s)
	answer, err := post(
		t,
		c.HTTPClient(s.hosts()),
		s.at("/a?b=c"),
		"asked",
		func(r *http.Request) { r.Header.Set("User-Agent", "library") },
	)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.body)
	if err != nil || answer.status != http.StatusTeapot || string(body) != "POST /a?b=c hidden library 5 HTTP/1.1" ||
		s.bodies[0] != "asked" {
		t.Errorf("the answer is %d %q, %v; the server got %q", answer.status, body, err, s.bodies[0])
	}
}

func TestAnAnswerIsHandedOnAsItComes(t *testing.T) {
	proceed := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "first")
		http.NewResponseController(w).Flush() //nolint:errcheck // the test sees what arrives
		<-proceed
		fmt.Fprintln(w, "second")
	})
	c, _ := newClient(nil, s)
	answer, err := post(t, c.HTTPClient(s.hosts()), s.at("/"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.body)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("the first line is %q, %v", lines.Text(), lines.Err())
	}
	close(proceed)
	if !lines.Scan() || lines.Text() != "second" || lines.Scan() || lines.Err() != nil {
		t.Errorf("the rest is %q, %v", lines.Text(), lines.Err())
	}
}

func TestALibraryReachesListedHostsAndPublicAddressesOnly(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	all := TransportOptions{Hosts: []string{
		"example.com:" + s.port,
		"127.0.0.1:" + s.port,
		"[::1]:" + s.port,
		"inside.example:" + s.port,
		"169.254.169.254",
		"nowhere.example",
		"exämple.com",
	}}
	for name, test := range map[string]struct {
		url     string
		options TransportOptions
		allow   bool
		change  func(*http.Request)
		want    Reason
	}{
		"loopback by name":      {url: s.at("/"), options: all, want: ReasonRefused},
		"loopback":              {url: "https://127.0.0.1:" + s.port, options: all, want: ReasonRefused},
		"loopback of IPv6":      {url: "https://[::1]:" + s.port, options: all, want: ReasonRefused},
		"a name within":         {url: "https://inside.example:" + s.port, options: all, want: ReasonRefused},
		"metadata":              {url: "https://169.254.169.254/latest", options: all, want: ReasonRefused},
		"no such host":          {url: "https://nowhere.example/", options: all, want: ReasonRefused},
		"a host that is not on": {url: "https://127.0.0.1:" + s.port, options: s.hosts(), allow: true, want: ReasonRefused},
		"another port":          {url: "https://example.com/", options: s.hosts(), allow: true, want: ReasonRefused},
		"no list":               {url: s.at("/"), allow: true, want: ReasonRefused},
		"without encryption":    {url: "http://example.com:" + s.port, options: all, allow: true, want: ReasonInvalid},
		"a user": {
			url: "https://hidden:hidden@example.com:" + s.port, options: all, allow: true, want: ReasonInvalid,
		},
		"an invalid name": {url: "https://exämple.com", options: all, allow: true, want: ReasonInvalid},
		"another host on top": {
			url: s.at("/"), options: all, allow: true, change: func(r *http.Request) { r.Host = "inside.example" },
			want: ReasonInvalid,
		},
		"an invalid header": {
			url: s.at("/"), options: all, allow: true, change: func(r *http.Request) { r.Header["A b"] = []string{"hidden"} },
			want: ReasonInvalid,
		},
		"a header with two lines": {
			url: s.at("/"), options: all, allow: true,
			change: func(r *http.Request) { r.Header["A"] = []string{"hidden\r\nB: c"} }, want: ReasonInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, resolver := newClient(func(o *Options) {
				if !test.allow {
					o.Allow = nil
				}
			}, s)
			resolver.answers["inside.example"] = []string{"10.96.0.1 ::1"}
			_, err := post(t, c.HTTPClient(test.options), test.url, "asked", test.change)
			expectOwn(t, err, test.want, false)
		})
	}
	if n := len(s.requests()); n > 0 {
		t.Errorf("the server got %d requests", n)
	}
}

func TestALibrarysHostIsResolvedOnceForEachRequest(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, resolver := newClient(nil, s)
	resolver.answers["example.com"] = []string{"10.0.0.1 127.0.0.1", "10.0.0.1"}
	client := c.HTTPClient(s.hosts())
	if _, err := post(t, client, s.at("/"), "", nil); err != nil || resolver.asked != 1 {
		t.Fatalf("the host was resolved %d times, %v", resolver.asked, err)
	}
	// No connection is kept: the name is asked for again, and means something else now.
	_, err := post(t, client, s.at("/"), "", nil)
	expectOwn(t, err, ReasonRefused, false)
}

func TestALibraryUsesNoProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, _ := newClient(nil, s)
	if _, err := post(t, c.HTTPClient(s.hosts()), s.at("/"), "", nil); err != nil {
		t.Error(err)
	}
}

func TestALibraryIsNotRedirected(t *testing.T) {
	other := newSite(t, func(http.ResponseWriter, *http.Request) {})
	s := newSite(t, redirecting)
	c, _ := newClient(nil, s, other)
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		for _, to := range []string{"/there", other.at("/"), "https://169.254.169.254/", "http://example.com/"} {
			before := len(s.requests())
			_, err := post(
				t,
				c.HTTPClient(TransportOptions{Hosts: []string{"example.com:" + s.port, "example.com:" + other.port}}),
				s.at("/?status="+status+"&to="+to),
				"asked",
				nil,
			)
			if e := ownError(t, err, ReasonRedirect, true); fmt.Sprint(e.Status) != status {
				t.Errorf("the status is %d, want %s", e.Status, status)
			}
			if n := len(s.requests()) - before; n != 1 {
				t.Errorf("%s to %s: the server got %d requests", status, to, n)
			}
		}
	}
	if n := len(other.requests()); n > 0 {
		t.Errorf("another place got %d requests", n)
	}
}

func TestALibrarysRequestIsNotSentAgain(t *testing.T) {
	n := 0
	s := newSite(t, func(http.ResponseWriter, *http.Request) {
		n++
		if n > 1 {
			panic(http.ErrAbortHandler)
		}
	})
	c, _ := newClient(nil, s)
	client := c.HTTPClient(s.hosts())
	again := func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }
	if _, err := post(t, client, s.at("/"), "x", again); err != nil {
		t.Fatal(err)
	}
	_, err := post(t, client, s.at("/"), "x", again)
	expectOwn(t, err, ReasonLost, true)
	if got := len(s.requests()); got != 2 {
		t.Errorf("the server got %d requests, want 2", got)
	}
}

func TestALibraryTrustsWhoTheClientTrusts(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, _ := newClient(func(o *Options) { o.Roots = x509.NewCertPool() }, s)
	_, err := post(t, c.HTTPClient(s.hosts()), s.at("/"), "", nil)
	expectOwn(t, err, ReasonUntrusted, false)
}

func TestABodyIsHandedOnUpToItsLimit(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query().Get("say")) })
	c, _ := newClient(nil, s)
	for text, fine := range map[string]bool{
		"": true, "123": true, "1234": true, "12345": false, strings.Repeat("1", 6000): false,
	} {
		options := s.hosts()
		options.MaxBody = 4
		answer, err := post(t, c.HTTPClient(options), s.at("/?say="+text), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.body)
		if string(body) != text[:min(4, len(text))] {
			t.Errorf("of %d bytes: %q", len(text), body)
		}
		if fine {
			if err != nil {
				t.Errorf("of %d bytes: %v", len(text), err)
			}
			continue
		}
		expect(t, err, ReasonLost, true)
	}
}

func TestABodyThatBreaksOffReportsWhy(t *testing.T) {
	blocked := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "half")
		http.NewResponseController(w).Flush() //nolint:errcheck // the test sees what arrives
		if r.URL.Path == "/stall" {
			<-blocked
		}
		panic(http.ErrAbortHandler)
	})
	t.Cleanup(func() { close(blocked) })
	for name, test := range map[string]struct {
		path   string
		header time.Duration
		cancel bool
		want   Reason
	}{
		"lost":     {path: "/half", want: ReasonLost},
		"silent":   {path: "/stall", header: 300 * time.Millisecond, want: ReasonTimeout},
		"unwanted": {path: "/stall", cancel: true, want: ReasonCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newClient(func(o *Options) { o.HeaderTimeout = test.header }, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer, err := post(
				t,
				c.HTTPClient(s.hosts()),
				s.at(test.path),
				"",
				func(r *http.Request) { *r = *r.WithContext(ctx) },
			)
			if err != nil {
				t.Fatal(err)
			}
			if test.cancel {
				cancel()
			}
			body, err := io.ReadAll(answer.body)
			if e := failedWith(t, err, test.want, true); e.Status != http.StatusOK || len(body) > len("half") {
				t.Errorf("the status is %d, the body %q", e.Status, body)
			}
		})
	}
}

func TestALibraryCanStopWaiting(t *testing.T) {
	arrived, blocked := make(chan struct{}), make(chan struct{})
	s := newSite(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-blocked })
	t.Cleanup(func() { close(blocked) })
	c, _ := newClient(nil, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := post(t, c.HTTPClient(s.hosts()), s.at("/"), "", func(r *http.Request) { *r = *r.WithContext(ctx) })
	expectOwn(t, err, ReasonCancelled, true)
}

// closable records when it is closed.
type closable struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func (c *closable) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func TestTheBodyOfARequestIsClosedWhateverBecomesOfIt(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, _ := newClient(nil, s)
	for _, u := range []string{s.at("/"), "https://elsewhere.example/"} {
		body := &closable{Reader: strings.NewReader("x"), closed: make(chan struct{})}
		_, _ = post(t, c.HTTPClient(s.hosts()), u, "", func(r *http.Request) { r.Body, r.ContentLength = body, 1 })
		// The standard library closes it a moment after the response.
		select {
		case <-body.closed:
		case <-time.After(10 * time.Second):
			t.Errorf("the body for %s is open", u)
		}
	}
}
