package streaming

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	memories "github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/stored"
)

// apiServer answers reviews.
type apiServer struct {
	mu sync.Mutex
	// tokens are the valid ones by their audience and value, with their users.
	tokens map[string]string
	// allowed are the users who may follow.
	allowed []string
	// rights are what they may do beside that, such as "get files".
	rights  []string
	broken  error
	reviews int
	access  int
}

// Create implements TokenReviewInterface.
func (a *apiServer) Create(
	_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviews++
	if a.broken != nil {
		return nil, a.broken
	}
	audience := "api"
	if len(r.Spec.Audiences) > 0 {
		audience = r.Spec.Audiences[0]
	}
	name := a.tokens[audience+" "+r.Spec.Token]
	r.Status = authenticationv1.TokenReviewStatus{
		Authenticated: name != "", Audiences: []string{audience},
		User: authenticationv1.UserInfo{Username: name, Groups: []string{user.AllAuthenticated}},
	}
	return r, nil
}

type accessReviews struct{ *apiServer }

// Create implements SubjectAccessReviewInterface.
func (a accessReviews) Create(
	_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.access++
	if a.broken != nil {
		return nil, a.broken
	}
	of := r.Spec.ResourceAttributes
	r.Status.Allowed = slices.Contains(a.allowed, r.Spec.User) && slices.Contains(r.Spec.Groups, user.AllAuthenticated) &&
		(of.Verb == "get" && of.Subresource == "events" || slices.Contains(a.rights, of.Verb+" "+of.Subresource)) &&
		of.Resource == "sessions" && of.Group == "capstan.dev" && of.Namespace == "ns"
	return r, nil
}

func (a *apiServer) change(how func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	how()
}

// Session implements Sessions.
func (b *bench) Session(_ context.Context, namespace, name string) (*v1alpha1.Session, []*v1alpha1.Turn, error) {
	if namespace != "ns" || !strings.HasPrefix(name, "s") {
		return nil, nil, nil
	}
	s := &v1alpha1.Session{}
	s.Namespace, s.Name, s.UID = namespace, name, types.UID(name+"-uid")
	return s, b.open, nil
}

// bench is a Server with a journal in memory.
type bench struct {
	t       testing.TB
	api     *apiServer
	bus     *live.Bus
	log     *journal.Log
	hub     *feed.Hub
	handler *Handler
	server  *Server
	address string
	roots   *x509.CertPool
	leads   chan struct{}
	turns   int
	opened  int64
	stop    func()
	// open are the Turns of the Session that have not ended, and planned the calls of their open steps.
	open    []*v1alpha1.Turn
	planned []journal.PlannedCall
	records record.Store
	// held, if it is set, keeps requests about files until it is closed; entered receives each.
	held, entered chan struct{}
}

// Files implements Resources.
func (b *bench) Files(ctx context.Context, s *v1alpha1.Session, writes bool) (*sessionfs.FS, error) {
	if b.held != nil {
		b.entered <- struct{}{}
		select {
		case <-b.held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var initial func(context.Context) ([]sessionfs.Initial, error)
	if writes {
		initial = func(context.Context) ([]sessionfs.Initial, error) {
			return []sessionfs.Initial{{Path: "/fixed", Content: "of the Session", ReadOnly: true}}, nil
		}
	}
	return sessionfs.New(b.records, sessionfs.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID}, initial), nil
}

// Stored implements Resources.
func (b *bench) Stored(s *v1alpha1.Session) *stored.Services {
	return stored.Of(b.records, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// Memories implements Resources.
func (b *bench) Memories(s *v1alpha1.Session) *memories.Memories {
	return memories.Of(b.records, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// Images implements Resources.
func (b *bench) Images(_ context.Context, s *v1alpha1.Session, _ bool) (*sessionimage.Images, error) {
	return sessionimage.Of(b.records, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID}), nil
}

// Inspect implements Resources.
func (b *bench) Inspect(_ context.Context, s *v1alpha1.Session) (*inspect.Context, error) {
	return &inspect.Context{Session: s, SystemPrompt: "Be brief."}, nil
}

// Calls implements Resources.
func (b *bench) Calls(context.Context, *v1alpha1.Session, *v1alpha1.Turn) ([]journal.PlannedCall, error) {
	return b.planned, nil
}

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue returns a certificate for a name, for a server or a client.
func (a *authority) issue(t testing.TB, name string, usage x509.ExtKeyUsage, lifetime time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// newBench starts a Server that leads. edit may change it before.
func newBench(t testing.TB, limits feed.Limits, edit func(*bench)) *bench {
	t.Helper()
	b := &bench{t: t, bus: &live.Bus{}, opened: 1, leads: make(chan struct{})}
	b.api = &apiServer{tokens: map[string]string{"capstan.dev own": "u", "api general": "u"}, allowed: []string{"u", "v"}}
	b.records = record.New(records.New(), record.Options{Clock: time.Now})
	b.log = journal.New(memory.New(), journal.Options{OnEntry: func(uid types.UID, ordinal int64) {
		b.hub.Noticed(uid, ordinal)
	}})
	b.hub = feed.NewHub(feed.Options{Log: b.log, Bus: b.bus, Limits: limits, Clock: time.Now})
	b.handler = &Handler{
		Authenticator: NewAuthenticator(Authenticator{Tokens: b.api, Clock: time.Now}),
		Authorizer:    NewAuthorizer(Authorizer{Reviews: accessReviews{b.api}}),
		Sessions:      b, Hub: b.hub, Clock: time.Now, Log: logr.Discard(),
		Resources: b, Requests: NewRequests(),
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	b.handler.Register(mux)
	ca := newAuthority(t)
	b.roots, b.address = ca.pool(), listener.Addr().String()
	b.server = &Server{
		Listener: listener, Handler: mux, Leads: b.leads, MaxPassed: 100, OnStop: b.hub.Close, Log: logr.Discard(),
		TLS: &tls.Config{
			Certificates: []tls.Certificate{ca.issue(t, "server", x509.ExtKeyUsageServerAuth, time.Hour)},
			ClientAuth:   tls.RequestClientCert, MinVersion: tls.VersionTLS12,
		},
	}
	if edit != nil {
		edit(b)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.server.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// lead makes the Server the leader.
func (b *bench) lead() *bench {
	close(b.leads)
	return b
}

func many() feed.Limits { return feed.LimitsOf(10_000) }

// byCertificates accepts client certificates of an authority.
func byCertificates(a *authority) *x509request.Authenticator {
	return x509request.New(x509.VerifyOptions{
		Roots: a.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, x509request.CommonNameUserConversion)
}

// step closes a step of a new Turn with a response.
func (b *bench) step(text string) {
	b.t.Helper()
	b.turns++
	turn := journal.Turn{Name: "t", UID: types.UID("turn-" + strconv.Itoa(b.turns))}
	f := event.NewFactory(event.Identity{Session: "s-uid", Turn: turn.UID}, time.Now)
	message := event.NewAssistantMessage(text, nil)
	message.ID = event.MessageID(turn.UID, 1)
	closed, err := b.log.Append(b.t.Context(), journal.Session{Namespace: "ns", Name: "s", UID: "s-uid"}, journal.Record{
		Turn: turn, Step: 1, OpenedAt: b.opened, Digest: "d",
		Events:     []event.Event{f.TurnStarted("x"), f.OutputMessage(event.OutputMessageCompleted{Message: message})},
		Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseComplete}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.opened = closed.Ordinal + 1
}

// transport sends a bearer token, if there is one.
type transport struct {
	http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	return t.RoundTripper.RoundTrip(r)
}

// client returns an HTTP client with a token and certificates.
func (b *bench) client(token string, certificates ...tls.Certificate) *http.Client {
	own := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: b.roots, Certificates: certificates, MinVersion: tls.VersionTLS12,
	}}
	b.t.Cleanup(own.CloseIdleConnections)
	return &http.Client{Transport: transport{own, token}}
}

// reply is an answer whose body the end of the test closes.
type reply struct{ *http.Response }

// get sends a request, and fails without an answer.
func (b *bench) get(client *http.Client, path string) reply {
	b.t.Helper()
	r, err := b.try(client, path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// try sends a request with a header.
func (b *bench) try(client *http.Client, path string, header http.Header) (reply, error) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "https://"+b.address+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	b.t.Cleanup(func() { _ = response.Body.Close() })
	return reply{response}, nil
}

// path is that of the events of the Session.
const path = "/v1/namespaces/ns/sessions/s/events"

var errBroken = errors.New("broken")
