package turns_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/capstantest"
)

// mortalManager is a manager that a spec kills.
type mortalManager struct {
	kit  *capstantest.Kit
	dead *atomic.Bool
}

// startMortal starts a manager, which a kill cuts off from its API server. It ends with its spec at the latest.
func startMortal(server *rest.Config, options capstantest.Options) *mortalManager {
	GinkgoHelper()
	m := &mortalManager{dead: &atomic.Bool{}}
	before := options.Transport
	options.Transport = func(next http.RoundTripper) http.RoundTripper {
		if before != nil {
			next = before(next)
		}
		return mortal{next, m.dead}
	}
	var err error
	m.kit, err = capstantest.Start(context.Background(), server, options)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = m.kit.Stop() })
	return m
}

// kill cuts the manager off and ends what is left of it.
func (m *mortalManager) kill() {
	m.dead.Store(true)
	_ = m.kit.Stop()
}

// mortal is a transport that a kill cuts: nothing that its process sends arrives any more.
type mortal struct {
	next http.RoundTripper
	dead *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (m mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("the process was killed")
	}
	response, err := m.next.RoundTrip(r)
	if m.dead.Load() {
		return nil, errors.New("the process was killed")
	}
	return response, err
}
