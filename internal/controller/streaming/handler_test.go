package streaming

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// lines returns the lines of a stream that begin with a prefix.
func lines(r io.Reader, prefix string) func() string {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	return func() string {
		for scanner.Scan() {
			if strings.HasPrefix(scanner.Text(), prefix) {
				return scanner.Text()
			}
		}
		return "END"
	}
}

func expect(t *testing.T, next func() string, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := next(); got != w {
			t.Fatalf("the line is %q, not %q", got, w)
		}
	}
}

func TestTheEventsOfASessionAreServed(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.step("one")
	r := b.get(b.client("own"), path)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" ||
		r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Access-Control-Allow-Origin") != "" ||
		len(r.Cookies()) != 0 || r.ProtoMajor != 1 {
		t.Fatalf("the answer is %s with %v", r.Status, r.Header)
	}
	next := lines(r.Body, "event: ")
	expect(t, next, "event: turn.started", "event: output.message.completed", "event: stream.synced")
	text := b.bus.Respond(live.Response{UID: "s-uid", Message: "m"})
	text.Write("Hello")
	expect(t, next, "event: output.message.delta")
	b.step("two")
	expect(t, next, "event: turn.started", "event: output.message.completed")
	b.stop()
	expect(t, next, "event: stream.ended", "END")
}

func TestAStreamContinuesAfterASequenceNumber(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.step("one")
	b.step("two")
	expect(t, lines(b.get(b.client("own"), path+"?after=3").Body, "id: "), "id: 4")
	r, err := b.try(b.client("own"), path, http.Header{"Last-Event-Id": {"2"}})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, lines(r.Body, "id: "), "id: 3", "id: 4")
	next := lines(b.get(b.client("own"), path+"?after=5").Body, "data: ")
	if ended := next(); !strings.Contains(ended, stream.EndedSequenceUnknown) {
		t.Errorf("after an unknown event: %s", ended)
	}
}

func TestOnlyCallersWhoMayGetTheEventsGetThem(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	b := newBench(t, many(), func(b *bench) { b.handler.Authenticator.Certificates = byCertificates(ca) }).lead()
	b.api.tokens["capstan.dev stranger"] = "stranger"
	b.api.tokens["vault other"] = "u"
	certificate := func(a *authority, name string, usage x509.ExtKeyUsage, life time.Duration) []tls.Certificate {
		return []tls.Certificate{a.issue(t, name, usage, life)}
	}
	const client = x509.ExtKeyUsageClientAuth
	for name, test := range map[string]struct {
		token        string
		certificates []tls.Certificate
		path         string
		want         int
	}{
		"a token for this server":               {token: "own", want: 200},
		"a token for the API server":            {token: "general", want: 200},
		"a token for another audience":          {token: "other", want: 401},
		"an unknown token":                      {token: "unknown", want: 401},
		"a very long token":                     {token: strings.Repeat("x", maxTokenBytes+1), want: 401},
		"nothing":                               {want: 401},
		"a token in the address":                {path: path + "?token=own&access_token=own", want: 401},
		"a user without the right":              {token: "stranger", want: 403},
		"a Session of another namespace":        {token: "own", path: "/v1/namespaces/other/sessions/s/events", want: 403},
		"a Session that does not exist":         {token: "own", path: "/v1/namespaces/ns/sessions/x/events", want: 404},
		"another path":                          {token: "own", path: "/v1/namespaces/ns/sessions/s", want: 404},
		"a wrong number":                        {token: "own", path: path + "?after=x", want: 400},
		"a certificate":                         {certificates: certificate(ca, "u", client, time.Hour), want: 200},
		"a certificate of a user without right": {certificates: certificate(ca, "x", client, time.Hour), want: 403},
		"a certificate of another authority":    {certificates: certificate(other, "u", client, time.Hour), want: 401},
		"a certificate that has expired":        {certificates: certificate(ca, "u", client, -time.Minute), want: 401},
		"a certificate for servers": {
			certificates: certificate(ca, "u", x509.ExtKeyUsageServerAuth, time.Hour), want: 401,
		},
		"an invalid token beside a certificate": {
			token: "unknown", certificates: certificate(ca, "u", client, time.Hour), want: 401,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := test.path
			if at == "" {
				at = path
			}
			r := b.get(b.client(test.token, test.certificates...), at)
			if r.StatusCode != test.want {
				t.Fatalf("the answer is %s", r.Status)
			}
			if r.StatusCode == http.StatusOK {
				return
			}
			var status metav1.Status
			raw, err := io.ReadAll(r.Body)
			if err != nil || json.Unmarshal(raw, &status) != nil || int(status.Code) != test.want || status.Message == "" {
				t.Errorf("the answer is %s, %v", raw, err)
			}
			if test.token != "" && bytes.Contains(raw, []byte(test.token+"\"")) {
				t.Errorf("the answer has the token: %s", raw)
			}
		})
	}
}

func TestReviewsAreKeptForAWhile(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	for range 20 {
		if r := b.get(b.client("own"), path); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
		if r := b.get(b.client("unknown"), path); r.StatusCode != http.StatusUnauthorized {
			t.Fatal(r.Status)
		}
	}
	if b.api.reviews != 3 || b.api.access != 1 {
		t.Errorf("%d reviews of tokens, %d of access", b.api.reviews, b.api.access)
	}
	for i := range 2 * maxReviews {
		b.handler.Authenticator.reviews.Add(fmt.Sprint(i), (*Caller)(nil), time.Minute)
	}
	if n := len(b.handler.Authenticator.reviews.Keys()); n > maxReviews {
		t.Errorf("%d reviews are kept", n)
	}
}

func TestWithoutTheAPIServerNobodyIsAdmitted(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.broken = errBroken
	r := b.get(b.client("own"), path)
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("the answer is %s", r.Status)
	}
}

// forget makes reviews and decisions count for no further check.
func (b *bench) forget() {
	b.handler.Authenticator.reviews.RemoveAll(func(any) bool { return true })
	b.handler.Authorizer.decisions.RemoveAll(func(any) bool { return true })
}

func TestAStreamEndsWhenItsCallerMayNotFollowAnyMore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*apiServer)
		want   string
	}{
		"the right is taken away":   {func(a *apiServer) { a.allowed = nil }, stream.EndedForbidden},
		"the token is not valid":    {func(a *apiServer) { a.tokens = nil }, stream.EndedUnauthorized},
		"the token is of another":   {func(a *apiServer) { a.tokens["capstan.dev own"] = "v" }, stream.EndedUnauthorized},
		"the API server is away":    {func(a *apiServer) { a.broken = errBroken }, stream.EndedUnauthorized},
		"nothing has been changed":  {func(*apiServer) {}, ""},
		"another user is forbidden": {func(a *apiServer) { a.allowed = []string{"u"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, many(), func(b *bench) {
				b.handler.Intervals = Intervals{
					Heartbeat: 10 * time.Millisecond, Review: 20 * time.Millisecond, Unreviewed: 100 * time.Millisecond,
				}
			}).lead()
			r := b.get(b.client("own"), path)
			all := bufio.NewReader(r.Body)
			for heard := 0; heard < 3; {
				line, err := all.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if line == ": heartbeat\n" {
					heard++
				}
			}
			b.api.change(func() { test.change(b.api) })
			b.forget()
			if test.want == "" {
				before := time.Now()
				for time.Since(before) < 200*time.Millisecond {
					if _, err := all.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				return
			}
			if ended := lines(all, "data: ")(); !strings.Contains(ended, test.want) {
				t.Errorf("the end is %s", ended)
			}
		})
	}
}

// Rules: HB-01.
func TestAStreamWithNothingToSendShowsThatItIsAlive(t *testing.T) {
	b := newBench(t, many(), func(b *bench) { b.handler.Intervals = Intervals{Heartbeat: 10 * time.Millisecond} }).lead()
	expect(t, lines(b.get(b.client("own"), path).Body, ": "), ": connected", ": heartbeat", ": heartbeat")
}

func TestAStreamEndsWhenTheTokenExpires(t *testing.T) {
	claims := fmt.Sprintf(`{"exp":%d}`, time.Now().Add(2*time.Second).Unix())
	token := "x." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	b := newBench(t, many(), nil).lead()
	b.api.tokens["capstan.dev "+token] = "u"
	next := lines(b.get(b.client(token), path).Body, "event: ")
	expect(t, next, "event: stream.synced", "event: stream.ended", "END")
	if r := b.get(b.client(token), path); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("afterwards the answer is %s", r.Status)
	}
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	b := newBench(t, feed.Limits{Total: 2, PerNamespace: 2, PerUser: 1, PerSession: 2}, nil).lead()
	b.api.tokens["capstan.dev v"], b.api.tokens["capstan.dev w"] = "v", "w"
	b.api.allowed = append(b.api.allowed, "w")
	b.get(b.client("own"), path)
	if r := b.get(b.client("own"), path); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("the second stream of a user: %s", r.Status)
	}
	if r := b.get(b.client("v"), path); r.StatusCode != http.StatusOK {
		t.Errorf("the stream of another user: %s", r.Status)
	}
	b.hub.Limits.PerNamespace, b.hub.Limits.PerSession = 9, 9
	if r := b.get(b.client("w"), path); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %s", r.Status)
	}
}

// TestARequestWithABodyIsRefusedAndItsConnectionEnds: the server would wait for the body without a limit.
func TestARequestWithABodyIsRefusedAndItsConnectionEnds(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	connection, err := tls.Dial("tcp", b.address, &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	head := "GET " + path + "?after=99 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer own\r\nContent-Length: 1\r\n\r\n"
	if _, err := connection.Write([]byte(head)); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 400 ") {
		t.Errorf("the answer is %s, %v", raw, err)
	}
}
