package crash_test

import (
	"crypto/x509"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/capstantest"
)

// server answers the requests of all runs, and counts how often each call was started.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
}

func newServer() *server {
	s := &server{calls: map[string]int{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if run := tools.of(namespace); run != nil && run.handler != nil && name == "mcp" {
			s.serveMCP(w, r, run)
			return
		}
		s.count(namespace, r.Header.Get("Idempotency-Key"))
		text := "answered"
		if run := tools.of(namespace); run != nil {
			defer run.toolStarted()
			if run.needs != nil {
				if provider := run.needs(run); provider != "" {
					w.Header().Set("Capstan-Connection-Required", provider)
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
			}
			if run.respond != nil {
				text = run.respond(r.Context(), run, name)
			}
		}
		_, _ = io.WriteString(w, text)
	}))
	return s
}

// count counts a request of a call.
func (s *server) count(namespace, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[namespace+"/"+key]++
}

// roots trusts the server.
func (s *server) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

// started is how often the request with an idempotency key was received.
func (s *server) started(namespace, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[namespace+"/"+key]
}

// loopback is where the server is.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// modelCalls are how often each process has called a model for an iteration of a Turn. A call for a summary of the
// conversation before an iteration has the number of that, negated.
type modelCalls map[int32]map[*process]int

// promptCounter counts model calls.
type promptCounter struct {
	mu    sync.Mutex
	calls map[types.UID]modelCalls
}

// see counts a request of a process.
func (c *promptCounter) see(by *process, p capstantest.Prompt) {
	if strings.HasPrefix(p.System, "You write a summary") {
		p.Iteration = -p.Iteration
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[types.UID]modelCalls{}
	}
	if c.calls[p.Turn] == nil {
		c.calls[p.Turn] = modelCalls{}
	}
	if c.calls[p.Turn][p.Iteration] == nil {
		c.calls[p.Turn][p.Iteration] = map[*process]int{}
	}
	c.calls[p.Turn][p.Iteration][by]++
}

// of are the model calls of some Turns.
func (c *promptCounter) of(turns []types.UID) map[types.UID]modelCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[types.UID]modelCalls{}
	for _, uid := range turns {
		found[uid] = modelCalls{}
		for iteration, by := range c.calls[uid] {
			found[uid][iteration] = maps.Clone(by)
		}
	}
	return found
}
