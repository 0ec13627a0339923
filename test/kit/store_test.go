package kit_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
)

// loopback is where the servers of this suite are.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// shop is the server of the tool buy.
var shop *store

// store needs a connection for the first request of each Turn, which it knows by its trace.
type store struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string]bool
}

func newStore() *store {
	s := &store{seen: map[string]bool{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trace := strings.Split(r.Header.Get("Traceparent")+"--", "-")[1]
		s.mu.Lock()
		first := !s.seen[trace]
		s.seen[trace] = true
		s.mu.Unlock()
		if first {
			w.Header().Set("Capstan-Connection-Required", "shop")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "bought")
	}))
	return s
}

func (s *store) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}
