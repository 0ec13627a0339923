//go:build e2e

package e2e_test

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// relay is a way to the API server that can be cut. It passes on credentials in headers, and has none of its own.
type relay struct {
	server *httptest.Server

	mu          sync.Mutex
	connections map[net.Conn]bool
	// through is the pod of the manager to which all ports are forwarded, whichever a client has chosen.
	through string
	used    int
}

// forwardedPod is the path at which the ports of a pod are forwarded.
var forwardedPod = regexp.MustCompile(`^(/api/v1/namespaces/` + managerNamespace + `/pods/)[^/]+(/portforward)$`)

func newRelay() *relay {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.NextProtos = []string{"http/1.1"} // only it can be upgraded
	transport, err := rest.TransportFor(anonymous)
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	r := &relay{connections: map[net.Conn]bool{}}
	quiet := log.New(io.Discard, "", 0)
	r.server = httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.URL.Path = r.redirect(request.Out.URL.Path)
		},
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
	})
	r.server.Config.ErrorLog = quiet
	r.server.Config.ConnState = r.note
	r.server.StartTLS()
	DeferCleanup(func() {
		r.cut()
		r.server.Close()
	})
	return r
}

// cluster is the cluster behind the relay.
func (r *relay) cluster() *clientcmdapi.Cluster {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	return &clientcmdapi.Cluster{Server: r.server.URL, CertificateAuthorityData: authority}
}

// lead makes ports from now on lead to a pod.
func (r *relay) lead(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.through, r.used = pod, 0
}

// uses is how often a port was forwarded to the pod.
func (r *relay) uses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

func (r *relay) redirect(path string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !forwardedPod.MatchString(path) {
		return path
	}
	r.used++
	return forwardedPod.ReplaceAllString(path, "${1}"+r.through+"${2}")
}

// note keeps the connections, also those that were upgraded.
func (r *relay) note(c net.Conn, state http.ConnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state == http.StateNew {
		r.connections[c] = true
	}
	if state == http.StateClosed {
		delete(r.connections, c)
	}
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.connections {
		_ = c.Close()
	}
	clear(r.connections)
}
