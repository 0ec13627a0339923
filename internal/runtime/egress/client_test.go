package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// names is a resolver that gives the next of several answers at each question.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   int
	hosts   []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	n.hosts = append(n.hosts, host)
	host = strings.TrimSuffix(host, ".")
	answers := n.answers[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "lookup on 10.96.0.10:53: no such host", IsNotFound: true}
	}
	if answers[0] == "fails" {
		return nil, errors.New("lookup on 10.96.0.10:53: server misbehaving")
	}
	if len(answers) > 1 {
		n.answers[host] = answers[1:]
	}
	var found []netip.Addr
	for address := range strings.FieldsSeq(answers[0]) {
		found = append(found, netip.MustParseAddr(address))
	}
	return found, nil
}

// site is a server of the test's own, whose certificate is for example.com and 127.0.0.1.
type site struct {
	*httptest.Server
	port   string
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
}

func newSite(t *testing.T, handler http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
		s.mu.Unlock()
		handler(w, r)
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.port = u.Port()
	return s
}

func (s *site) at(path string) string { return "https://example.com:" + s.port + path }

func (s *site) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// newClient reaches the test's sites, as example.com too.
func newClient(change func(*Options), sites ...*site) (*Client, *names) {
	resolver := &names{answers: map[string][]string{"example.com": {"127.0.0.1"}}}
	o := Options{Allow: loopback, Resolver: resolver, Roots: x509.NewCertPool()}
	for _, s := range sites {
		o.Roots.AddCert(s.Certificate())
	}
	if change != nil {
		change(&o)
	}
	return New(o), resolver
}

func get(u string) Request { return Request{Method: http.MethodGet, URL: u, MaxBody: 1024} }

// expect checks that a request failed in one way, that it reports whether it was sent, and that its text reveals
// nothing.
func expect(t *testing.T, err error, want Reason, sent bool) {
	t.Helper()
	_ = failedWith(t, err, want, sent)
}

// failedWith is expect, and returns the error.
func failedWith(t *testing.T, err error, want Reason, sent bool) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, want %s", err, want)
	}
	if e.Reason != want || e.Sent != sent {
		t.Errorf("the error is %v, sent %v; want %s, sent %v", e, e.Sent, want, sent)
	}
	for _, word := range []string{"dial", "lookup", "10.96.", "hidden", "?"} {
		if strings.Contains(e.Error(), word) {
			t.Errorf("the error %q has %q in it", e, word)
		}
	}
	return e
}

func TestAnAnswerOfAnyStatusIsAnAnswer(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Header.Get("X-Key"), " ", r.Header.Get("User-Agent"))
	})
	c, _ := newClient(nil, s)
	answer, err := c.Do(t.Context(), Request{
		Method:  http.MethodPost,
		URL:     s.at("/a?b=c#d"),
		Body:    []byte("asked"),
		MaxBody: 1024,
		Secret:  http.Header{"x-key": {"hidden"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != http.StatusTeapot || string(answer.Body) != "POST /a?b=c hidden capstan" || answer.More ||
		answer.Length != int64(len(answer.Body)) {
		t.Errorf("the answer is %d %q, more %v, length %d", answer.Status, answer.Body, answer.More, answer.Length)
	}
	if s.bodies[0] != "asked" {
		t.Errorf("the server got %q", s.bodies[0])
	}
}

func TestABodyIsReadUpToItsLimit(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query().Get("say")) })
	c, _ := newClient(nil, s)
	for text, want := range map[string]bool{
		"": false, "123": false, "1234": false, "12345": true, strings.Repeat("1", 6000): true,
	} {
		r := get(s.at("/?say=" + text))
		r.MaxBody = 4
		answer, err := c.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if string(answer.Body) != text[:min(4, len(text))] || answer.More != want {
			t.Errorf("of %d bytes: %q, more %v", len(text), answer.Body, answer.More)
		}
	}
}

// Rules: SVC-02.
func TestWithoutLeaveNothingPrivateIsReached(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, resolver := newClient(func(o *Options) { o.Allow = nil }, s)
	resolver.answers["inside.example"] = []string{"10.96.0.1 169.254.169.254 ::1"}
	resolver.answers["mapped.example"] = []string{"::ffff:127.0.0.1"}
	for _, host := range []string{
		"example.com", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "inside.example", "mapped.example", "169.254.169.254",
		"0.0.0.0",
	} {
		_, err := c.Do(t.Context(), get("https://"+host+":"+s.port))
		expect(t, err, ReasonRefused, false)
	}
	if n := len(s.requests()); n > 0 {
		t.Errorf("the server got %d requests", n)
	}
}

func TestAHostIsResolvedOnceAndOnlyCheckedAddressesAreConnectedTo(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })
	c, resolver := newClient(nil, s)
	resolver.answers["example.com"] = []string{"10.0.0.1 127.0.0.1 192.168.0.1", "10.0.0.1"}
	if _, err := c.Do(t.Context(), get(s.at("/"))); err != nil {
		t.Fatal(err)
	}
	if resolver.asked != 1 {
		t.Errorf("the host was resolved %d times", resolver.asked)
	}
	// The name now means something else: the next request, which looks it up again, does not go there.
	_, err := c.Do(t.Context(), get(s.at("/")))
	expect(t, err, ReasonRefused, false)
}

func TestANameThatChangesBetweenRedirectsIsCheckedAgain(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/next", http.StatusFound) })
	c, resolver := newClient(nil, s)
	resolver.answers["example.com"] = []string{"127.0.0.1", "169.254.169.254"}
	_, err := c.Do(t.Context(), get(s.at("/")))
	expect(t, err, ReasonRedirect, true)
	if n := len(s.requests()); n != 1 {
		t.Errorf("the server got %d requests", n)
	}
}

func TestWhatIsNoRequestIsNotSent(t *testing.T) {
	c, resolver := newClient(nil)
	for name, r := range map[string]Request{
		"http":              get("http://example.com/hidden"),
		"another scheme":    get("file:///etc/hidden"),
		"no scheme":         get("//example.com/hidden"),
		"no host":           get("https:///hidden"),
		"a user":            get("https://hidden:hidden@example.com/"),
		"a user only":       get("https://hidden@example.com/"),
		"no port":           get("https://example.com:/"),
		"port 0":            get("https://example.com:0/"),
		"a large port":      get("https://example.com:65536/"),
		"not ASCII":         get("https://exämple.com/"),
		"a line break":      get("https://example.com/\nhidden"),
		"an odd method":     {Method: "G ET", URL: "https://example.com/"},
		"an odd header":     {Method: "GET", URL: "https://example.com/", Header: http.Header{"A b": {"hidden"}}},
		"a broken header":   {Method: "GET", URL: "https://example.com/", Header: http.Header{"A": {"hidden\r\nB: c"}}},
		"a broken secret":   {Method: "GET", URL: "https://example.com/", Secret: http.Header{"A": {"hidden\n"}}},
		"an unnamed header": {Method: "GET", URL: "https://example.com/", Header: http.Header{"": {"hidden"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Do(t.Context(), r)
			expect(t, err, ReasonInvalid, false)
		})
	}
	if resolver.asked > 0 {
		t.Errorf("%d hosts were looked up", resolver.asked)
	}
}

func TestHTTPWithoutEncryptionIsForWhoAsksForIt(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") }))
	t.Cleanup(s.Close)
	c, _ := newClient(nil)
	_, err := c.Do(t.Context(), get(s.URL))
	expect(t, err, ReasonInvalid, false)
	r := get(s.URL)
	r.AllowHTTP = true
	if answer, err := c.Do(t.Context(), r); err != nil || string(answer.Body) != "plain" {
		t.Errorf("the answer is %v, %v", answer, err)
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "direct") })
	c, _ := newClient(nil, s)
	if answer, err := c.Do(t.Context(), get(s.at("/"))); err != nil || string(answer.Body) != "direct" {
		t.Errorf("the answer is %v, %v", answer, err)
	}
}

// Rules: SVC-02.
func TestOnlyWhereTheRequestMayGo(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	c, _ := newClient(nil, s)
	var asked []string
	answering := func(yes bool) func(*url.URL) bool {
		return func(u *url.URL) bool {
			asked = append(asked, u.String())
			return yes
		}
	}
	r := get(s.at("/a?b=c"))
	r.Permits = answering(true)
	if _, err := c.Do(t.Context(), r); err != nil {
		t.Error(err)
	}
	r.Permits = answering(false)
	_, err := c.Do(t.Context(), r)
	expect(t, err, ReasonForbidden, false)
	if want := []string{s.at("/a?b=c"), s.at("/a?b=c")}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("the server got %d requests", n)
	}
}

func TestListed(t *testing.T) {
	for _, test := range []struct {
		hosts []string
		raw   string
		want  bool
	}{
		{[]string{"other.example", " Example.COM:8443 "}, "https://example.com:8443/", true},
		{[]string{"example.com", "example.com:1"}, "https://example.com:8443/", false},
		{[]string{"ample.com", "com", ""}, "https://example.com", false},
		{[]string{"example.com"}, "https://example.com", true},
		{[]string{"example.com"}, "https://EXAMPLE.com:443/a", true},
		{[]string{"example.com"}, "http://example.com", false},
	} {
		u, err := url.Parse(test.raw)
		if err != nil {
			t.Fatal(err)
		}
		if Listed(test.hosts, u) != test.want {
			t.Errorf("%s among %q: listed is %v", test.raw, test.hosts, !test.want)
		}
	}
}

// Rules: SVC-02.
func TestFailuresAreDistinguished(t *testing.T) {
	blocked := make(chan struct{})
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-blocked
		case "/half":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
		case "/stall":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
			http.NewResponseController(w).Flush() //nolint:errcheck // the test sees what arrives
			<-blocked
		default:
			panic(http.ErrAbortHandler)
		}
	})
	t.Cleanup(func() { close(blocked) })
	other := newSite(t, func(http.ResponseWriter, *http.Request) {})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := closed.Addr().String()
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	short := func(o *Options) { o.ConnectTimeout, o.HeaderTimeout = time.Second, 50*time.Millisecond }
	for name, test := range map[string]struct {
		url     string
		timeout time.Duration
		change  func(*Options)
		want    Reason
		sent    bool
		status  int
	}{
		"refused":      {url: "https://" + refusing, want: ReasonUnreachable},
		"no such host": {url: "https://nowhere.example", want: ReasonRefused},
		"no handshake": {
			url: "https://" + silent.Addr().String(), change: func(o *Options) { o.ConnectTimeout = 50 * time.Millisecond },
			want: ReasonUnreachable,
		},
		"no handshake in time": {
			url: "https://" + silent.Addr().String(), timeout: 50 * time.Millisecond, want: ReasonTimeout,
		},
		"not trusted": {
			url: other.at("/"), change: func(o *Options) { o.Roots = x509.NewCertPool() }, want: ReasonUntrusted,
		},
		"a certificate of other": {url: "https://other.example:" + other.port, want: ReasonUntrusted},
		"broken off":             {url: s.at("/abort"), want: ReasonLost, sent: true},
		"no answer":              {url: s.at("/hang"), change: short, want: ReasonTimeout, sent: true},
		"no answer in all":       {url: s.at("/hang"), timeout: 100 * time.Millisecond, want: ReasonTimeout, sent: true},
		"half an answer":         {url: s.at("/half"), want: ReasonLost, sent: true, status: 200},
		"half an answer in time": {
			url: s.at("/stall"), timeout: 300 * time.Millisecond, want: ReasonTimeout, sent: true, status: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, resolver := newClient(test.change, s)
			resolver.answers["other.example"] = []string{"127.0.0.1"}
			r := get(test.url)
			r.Timeout = test.timeout
			_, err := c.Do(t.Context(), r)
			if e := failedWith(t, err, test.want, test.sent); e.Status != test.status {
				t.Errorf("the status is %d, want %d", e.Status, test.status)
			}
		})
	}
}

func TestWhoAskedCanStopWaiting(t *testing.T) {
	arrived, blocked := make(chan struct{}), make(chan struct{})
	s := newSite(t, func(http.ResponseWriter, *http.Request) { close(arrived); <-blocked })
	t.Cleanup(func() { close(blocked) })
	c, _ := newClient(nil, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := c.Do(ctx, get(s.at("/")))
	expect(t, err, ReasonCancelled, true)
	_, err = c.Do(ctx, get(s.at("/")))
	expect(t, err, ReasonCancelled, false)
}

// TestARequestThatWasLostIsNotSentAgain: the standard library sends a request with an Idempotency-Key again on a
// connection that it kept.
func TestARequestThatWasLostIsNotSentAgain(t *testing.T) {
	n := 0
	s := newSite(t, func(http.ResponseWriter, *http.Request) {
		n++
		if n > 1 {
			panic(http.ErrAbortHandler)
		}
	})
	c, _ := newClient(nil, s)
	r := Request{
		Method:  http.MethodPost,
		URL:     s.at("/"),
		Body:    []byte("x"),
		Header:  http.Header{"Idempotency-Key": {"k"}},
		MaxBody: 1,
	}
	if _, err := c.Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, err := c.Do(t.Context(), r)
	expect(t, err, ReasonLost, true)
	if got := len(s.requests()); got != 2 {
		t.Errorf("the server got %d requests, want 2", got)
	}
}
