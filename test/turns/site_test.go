package turns_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// loopback is where the sites of the specs are, which no request reaches unless the operator allows it.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// testRoots trusts the certificate that all test servers of the standard library have.
func testRoots() *x509.CertPool {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return roots
}

// managerLog has all lines that the controllers have logged.
var managerLog = &transcript{}

type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *transcript) contains(word string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(t.text.String(), word)
}

// asked is a request that a site has got.
type asked struct {
	*http.Request
	body string
}

// site is a server of a spec's own.
type site struct {
	*httptest.Server
	mu  sync.Mutex
	got []asked
}

// newSite starts a server that ends with the spec.
func newSite(answer http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, asked{r, string(body)})
		s.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	}))
	DeferCleanup(func() {
		// The manager may still listen to the server.
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.got...)
}

// keys are the different Idempotency-Keys that the site has got.
func (s *site) keys() map[string]int {
	keys := map[string]int{}
	for _, r := range s.requests() {
		keys[r.Header.Get("Idempotency-Key")]++
	}
	return keys
}

// responds is a handler that always responds with the same text.
func responds(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// untilGone is an answer that never comes: it ends with the connection.
func untilGone(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// tool is a Tool that asks the site.
func (s *site) tool(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ToolSpec{
			Description: "A tool of the tests.",
			SideEffect:  class,
			HTTP:        &v1alpha1.HTTPTool{URL: s.URL + "/" + name},
		},
	}
}

// newServiceSite starts a server with a certificate for a host, and returns the certificate.
func newServiceSite(host string, handler http.Handler) (certificate []byte, server *httptest.Server) {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, []string{host})
	Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(certificate, key)
	Expect(err).NotTo(HaveOccurred())
	server = httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	DeferCleanup(server.Close)
	return certificate, server
}
