package token

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var of = connection.Of{Namespace: "team-a", Provider: "github", User: "ann"}

// endpoint is a token endpoint that checks what it is sent, and rotates refresh tokens.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []url.Values
	answer http.HandlerFunc
	now    time.Time
	secret *corev1.Secret
	// client is the Secret with the OAuth client that the connection names.
	client *corev1.Secret
	egress *egress.Client
}

// newEndpoint returns a token endpoint, and a connection with this data whose OAuth client is that of the namespace.
func newEndpoint(t *testing.T, data map[string]string) (*endpoint, *Source) {
	t.Helper()
	e := &endpoint{now: time.Now()}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || id+r.PostForm.Get("client_id") != "id" ||
			secret+r.PostForm.Get("client_secret") != "c1ient" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		e.mu.Lock()
		e.asked = append(e.asked, r.PostForm)
		answer := e.answer
		e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(e.Close)
	e.secret = builder.Connection(of.Namespace, of.Provider, of.User, data, "api.github.com")
	e.secret.UID = types.UID("uid")
	e.secret.Annotations[v1alpha1.AnnotationOAuthClient] = "app"
	e.secret.Annotations[v1alpha1.AnnotationTokenHosts] = "login.example, " + strings.TrimPrefix(e.URL, "https://")
	e.client = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: "app", Labels: map[string]string{v1alpha1.LabelOAuthClient: of.Provider},
		},
		Data: map[string][]byte{},
	}
	for key, value := range e.ofClient() {
		e.client.Data[key] = []byte(value)
	}
	roots := x509.NewCertPool()
	roots.AddCert(e.Certificate())
	e.egress = egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
	return e, NewSource(func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		for _, s := range []*corev1.Secret{e.secret, e.client} {
			if s != nil && namespace == s.Namespace && name == s.Name {
				return s.DeepCopy(), nil
			}
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}, e.egress, func() time.Time { return e.now })
}

func (e *endpoint) ofClient() map[string]string {
	return map[string]string{
		connection.KeyTokenURL: e.URL, connection.KeyClientID: "id", connection.KeyClientSecret: "c1ient",
	}
}

// own makes the OAuth client one of the user's own.
func (e *endpoint) own() {
	delete(e.secret.Annotations, v1alpha1.AnnotationOAuthClient)
	delete(e.secret.Annotations, v1alpha1.AnnotationTokenHosts)
	for key, value := range e.ofClient() {
		e.secret.Data[key] = []byte(value)
	}
}

// asPublic lets the Source reach the endpoint by requests that may go to public addresses only.
func (e *endpoint) asPublic(t *testing.T, s *Source) {
	t.Helper()
	s.client = func(o egress.TransportOptions) *http.Client {
		if !o.Route.Public || o.Route.Namespace != "" {
			t.Errorf("the route is %+v", o.Route)
		}
		o.Route.Public = false
		return e.egress.HTTPClient(o)
	}
}

// issues is a response with a token.
func issues(token, refresh string, seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": token, "refresh_token": refresh, "expires_in": seconds, "token_type": "Bearer",
		})
	}
}

// fails is a response with an error.
func fails(status int, code string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":"you sent %s"}`, code, r.PostForm.Encode())
	}
}

func (e *endpoint) respond(answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *endpoint) expect(t *testing.T, s *Source, want string) {
	t.Helper()
	got, err := s.Token(t.Context(), of)
	if err != nil || got.Value != want {
		t.Fatalf("the token is %q, %v, want %q", got.Value, err, want)
	}
}

// Rules: CONN-01.
func TestAnExpiredTokenIsRefreshedOnceAndKept(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{connection.KeyToken: "first", connection.KeyRefreshToken: "r1"})
	e.secret.Data[connection.KeyExpiry] = []byte(e.now.Add(2 * time.Minute).Format(time.RFC3339))
	e.respond(issues("second", "r2", 3600))
	e.expect(t, s, "first")
	e.now = e.now.Add(90 * time.Second)
	e.expect(t, s, "second")
	e.expect(t, s, "second")
	e.now = e.now.Add(time.Hour)
	e.respond(issues("third", "", 3600))
	e.expect(t, s, "third")
	if len(e.asked) != 2 || e.asked[0].Get("refresh_token") != "r1" || e.asked[1].Get("refresh_token") != "r2" ||
		e.asked[0].Get("grant_type") != "refresh_token" {
		t.Errorf("it was asked %v", e.asked)
	}
}

func TestAConnectionThatIsWrittenAnewForgetsWhatWasIssued(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	e.respond(issues("first", "r2", 3600))
	e.expect(t, s, "first")
	e.respond(issues("second", "", 3600))
	e.secret.Annotations["note"] = "changed"
	e.expect(t, s, "first")
	e.secret.Data[connection.KeyRefreshToken] = []byte("r9")
	e.expect(t, s, "second")
	e.secret.UID = "another"
	e.respond(issues("third", "", 3600))
	e.expect(t, s, "third")
	e.secret = nil
	var missing *MissingError
	if _, err := s.Token(t.Context(), of); !errors.As(err, &missing) || !missing.None {
		t.Errorf("without the Secret: %v", err)
	}
}

func TestClientCredentialsHaveTokensOfTheirOwn(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{
		connection.KeyScopes: "read write", connection.KeyClientAuthentication: connection.AuthenticationBody,
	})
	e.own()
	e.asPublic(t, s)
	e.respond(issues("first", "", 0))
	e.expect(t, s, "first")
	if e.asked[0].Get("grant_type") != "client_credentials" || e.asked[0].Get("scope") != "read write" {
		t.Errorf("it was asked %v", e.asked)
	}
	e.respond(issues("second", "", 60))
	e.now = e.now.Add(lifetime)
	e.expect(t, s, "second")
}

func TestManyCallsShareOneRefresh(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	release := make(chan struct{})
	e.respond(func(w http.ResponseWriter, r *http.Request) {
		<-release
		issues("first", "", 3600)(w, r)
	})
	cancelled, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := s.Token(cancelled, of)
		first <- err
	}()
	for done := false; !done; {
		e.mu.Lock()
		done = len(e.asked) == 1
		e.mu.Unlock()
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatalf("a call that is not awaited ends with %v", err)
	}
	results := make(chan string, 8)
	for range cap(results) {
		go func() {
			token, _ := s.Token(t.Context(), of)
			results <- token.Value
		}()
	}
	close(release)
	for range cap(results) {
		if got := <-results; got != "first" {
			t.Errorf("a call has the token %q", got)
		}
	}
	if len(e.asked) != 1 {
		t.Errorf("%d requests", len(e.asked))
	}
}

// Rules: CONN-01.
func TestHowATokenEndpointFails(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		again  time.Duration
		why    string
	}{
		"a revoked refresh token": {answer: fails(400, "invalid_grant"), why: "status 400 and the error invalid_grant"},
		"a revoked client":        {answer: fails(401, "invalid_client"), why: "invalid_client"},
		"an unknown error":        {answer: fails(400, "r1-s3cret"), why: "the response has status 400"},
		"an error with success":   {answer: fails(200, "invalid_grant"), why: "invalid_grant"},
		"overload":                {answer: fails(429, "", "Retry-After", "90"), again: 90 * time.Second, why: "status 429"},
		"a long pause":            {answer: fails(503, "", "Retry-After", "999999"), again: maxPause, why: "status 503"},
		"an outage":               {answer: fails(500, "invalid_grant"), again: 5 * time.Second, why: "status 500"},
		"no JSON": {
			answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("r1-s3cret")) },
			again:  5 * time.Second, why: "not that of a token endpoint",
		},
		"no token": {answer: issues("", "", 60), again: 5 * time.Second, why: "not that of a token endpoint"},
		"a token that is no header": {
			answer: issues("s3cret\r\nX-Admin: yes", "", 60), again: 5 * time.Second, why: "not printable",
		},
		"too long": {
			answer: issues(strings.Repeat("s3cret", 1<<15), "", 60), again: 5 * time.Second, why: "has issued no token",
		},
		"a redirect": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://attacker.example", http.StatusTemporaryRedirect)
			},
			again: 5 * time.Second, why: "redirected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1-s3cret"})
			e.respond(test.answer)
			_, err := s.Token(t.Context(), of)
			if err == nil || !strings.Contains(err.Error(), test.why) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("the error is %v", err)
			}
			var unavailable *UnavailableError
			if passing := errors.As(err, &unavailable); passing != (test.again > 0) {
				t.Fatalf("the error is %T", err)
			}
			e.respond(issues("fine", "", 3600))
			if test.again == 0 {
				e.now = e.now.Add(time.Hour)
				if _, again := s.Token(t.Context(), of); again == nil || len(e.asked) != 1 {
					t.Errorf("%v after %d requests", again, len(e.asked))
				}
				e.secret.Data[connection.KeyRefreshToken] = []byte("r2")
				e.expect(t, s, "fine")
				return
			}
			e.now = e.now.Add(test.again - time.Millisecond)
			if s.Check(t.Context(), of) == nil {
				t.Error("the pause is over too early")
			}
			if _, again := s.Token(t.Context(), of); again == nil || len(e.asked) != 1 {
				t.Errorf("%v after %d requests", again, len(e.asked))
			}
			e.now = e.now.Add(time.Millisecond)
			if err := s.Check(t.Context(), of); err != nil {
				t.Errorf("after the pause: %v", err)
			}
			e.expect(t, s, "fine")
		})
	}
}

func TestATokenIsUsedUntilItsEndWhereItsEndpointFails(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	e.respond(issues("first", "", 120))
	e.expect(t, s, "first")
	e.respond(fails(503, ""))
	e.now = e.now.Add(90 * time.Second)
	e.expect(t, s, "first")
	e.expect(t, s, "first")
	e.now = e.now.Add(time.Minute)
	var unavailable *UnavailableError
	if _, err := s.Token(t.Context(), of); !errors.As(err, &unavailable) {
		t.Errorf("after its end: %v", err)
	}
}

func TestATokenEndpointIsReachedAsAnyAddressIs(t *testing.T) {
	e, _ := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	e.respond(issues("first", "", 120))
	e.own()
	s := NewSource(func(context.Context, string, string) (*corev1.Secret, error) { return e.secret, nil },
		egress.New(egress.Options{}), func() time.Time { return e.now })
	var unavailable *UnavailableError
	if _, err := s.Token(t.Context(), of); !errors.As(err, &unavailable) || len(e.asked) != 0 {
		t.Errorf("a private address: %v, %d requests", err, len(e.asked))
	}
}

// Rules: CONN-01.
func TestARefreshTokenIsSentToTheHostsThatItsUserHasNamedOnly(t *testing.T) {
	for name, test := range map[string]struct {
		hosts func(own string) string
		sent  bool
	}{
		"that of the endpoint": {func(own string) string { return own }, true},
		"among others":         {func(own string) string { return "login.example," + own }, true},
		"another one":          {func(string) string { return "login.example" }, false},
		"another port":         {func(own string) string { return strings.Split(own, ":")[0] }, false},
		"plain HTTP":           {func(own string) string { return "http://" + own }, false},
		"none":                 {func(string) string { return "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
			e.respond(issues("first", "", 3600))
			e.secret.Annotations[v1alpha1.AnnotationTokenHosts] = test.hosts(strings.TrimPrefix(e.URL, "https://"))
			got, err := s.Token(t.Context(), of)
			if sent := len(e.asked) > 0; sent != test.sent || (err == nil) != test.sent {
				t.Errorf("sent: %t, %q, %v", sent, got.Value, err)
			}
			var missing *MissingError
			if !test.sent && !errors.As(err, &missing) {
				t.Errorf("the error is %v", err)
			}
			if known := s.Check(t.Context(), of); (known == nil) != test.sent {
				t.Errorf("before a request: %v", known)
			}
		})
	}
}

// Who may write the OAuth client receives no token of users by it, also of those that were refreshed before.
func TestAnOAuthClientThatIsRedirectedReceivesNoToken(t *testing.T) {
	e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	e.respond(issues("first", "r2", 60))
	e.expect(t, s, "first")
	attacker, _ := newEndpoint(t, nil)
	attacker.respond(issues("evil", "", 60))
	e.client.Data[connection.KeyTokenURL] = []byte(attacker.URL)
	e.now = e.now.Add(time.Hour)
	var missing *MissingError
	if _, err := s.Token(t.Context(), of); !errors.As(err, &missing) || len(attacker.asked) != 0 {
		t.Errorf("%v, the attacker was sent %v", err, attacker.asked)
	}
}

// Rules: CONN-01.
func TestNothingIsShownOfATokenEndpointThatAUserHasChosen(t *testing.T) {
	texts := map[string]bool{}
	for name, answer := range map[string]http.HandlerFunc{
		"a status of a client": fails(404, ""), "a status of a server": fails(502, ""), "no right": fails(403, ""),
		"a code": fails(400, "invalid_grant"), "a page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://other.example", http.StatusFound)
		},
	} {
		e, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
		e.own()
		e.asPublic(t, s)
		e.respond(answer)
		_, err := s.Token(t.Context(), of)
		if err == nil || len(e.asked) != 1 {
			t.Fatalf("%s: %v after %d requests", name, err, len(e.asked))
		}
		texts[err.Error()] = true
	}
	unreached, s := newEndpoint(t, map[string]string{connection.KeyRefreshToken: "r1"})
	unreached.own()
	_, err := s.Token(t.Context(), of)
	if err == nil || len(unreached.asked) != 0 {
		t.Fatalf("an address that the operator permits: %v after %d requests", err, len(unreached.asked))
	}
	texts[err.Error()] = true
	if len(texts) != 1 {
		t.Errorf("the texts are %v", texts)
	}
}
