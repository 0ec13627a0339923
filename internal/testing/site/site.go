// Package site has HTTPS servers for tests of requests to the outside world, and the clients that reach them.
package site

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// Site is a server on this machine that counts its requests.
type Site struct {
	*httptest.Server
	requests atomic.Int64
}

// New starts a Site, which ends with the test.
func New(t testing.TB, handler http.HandlerFunc) *Site {
	t.Helper()
	s := &Site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Requests returns the number of requests so far.
func (s *Site) Requests() int { return int(s.requests.Load()) }

// Egress returns a client that reaches servers on this machine, and trusts the certificates of Sites.
func (s *Site) Egress() *egress.Client {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return egress.New(egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Roots: roots})
}

// Fine answers each request with the text "fine".
func Fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }

// NoSecrets is a credential.Reader of a namespace without Secrets.
func NoSecrets(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, NotFound(name)
}

// NotFound is the error of the API server about a Secret that does not exist.
func NotFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}
