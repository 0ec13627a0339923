package crash_test

import (
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
)

// server answers the requests of all runs, and counts how often each call was started.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]map[string]int
}

func newServer() *server {
	s := &server{calls: map[string]map[string]int{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := strings.TrimPrefix(r.URL.Path, "/")
		s.mu.Lock()
		if s.calls[namespace] == nil {
			s.calls[namespace] = map[string]int{}
		}
		s.calls[namespace][r.Header.Get("Idempotency-Key")]++
		s.mu.Unlock()
		_, _ = io.WriteString(w, "answered")
	}))
	return s
}

// roots trusts the server.
func (s *server) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

// startedTwice says which calls of a namespace were started more than once.
func (s *server) startedTwice(namespace string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.calls[namespace] {
		if n > 1 {
			return fmt.Errorf("the AtMostOnce request with the key %s was sent %d times", key, n)
		}
	}
	return nil
}

// loopback is where the server is.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
