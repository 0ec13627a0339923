//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// modelServer speaks Chat Completions to the manager. How it answers goes by the model's name.
type modelServer struct {
	address, url string
}

// newModelServer starts a server with a certificate that the manager trusts from then on.
func newModelServer(ctx context.Context, handler http.Handler) *modelServer {
	GinkgoHelper()
	address := hostAddress(ctx)
	certificate, pair := certificateFor(address)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	DeferCleanup(server.Close)
	trust(ctx, certificate)
	return &modelServer{address: address, url: "https://" + net.JoinHostPort(address, port)}
}

// certificateFor is a certificate for an address, signed by itself, as PEM and with its key.
func certificateFor(address string) ([]byte, tls.Certificate) {
	GinkgoHelper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(address, []net.IP{net.ParseIP(address)}, nil)
	Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(certificate, key)
	Expect(err).NotTo(HaveOccurred())
	return certificate, pair
}

// offer creates Models of the server in a namespace, with the Secret that they name.
func (s *modelServer) offer(ctx context.Context, as client.Client, namespace string, models ...string) error {
	if err := secretFor(ctx, as, namespace, models[0]); err != nil {
		return err
	}
	for _, name := range models {
		if err := as.Create(ctx, &v1alpha1.Model{ObjectMeta: named(namespace, name), Spec: v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, Model: name, BaseURL: s.url + "/v1",
			SecretKeyRef: &v1alpha1.SecretKeyReference{Name: models[0], Key: "key"},
		}}); err != nil {
			return err
		}
	}
	return nil
}

// serveModel streams a response.
func serveModel(response http.ResponseWriter, request *http.Request) {
	var asked struct {
		Model string `json:"model"`
	}
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	response.Header().Set("Content-Type", "text/event-stream")
	write := func(text string) bool {
		_, err := io.WriteString(response, text)
		if flusher, ok := response.(http.Flusher); ok {
			flusher.Flush()
		}
		return err == nil && request.Context().Err() == nil
	}
	switch asked.Model {
	case "giant":
		for range 13 << 4 {
			if !write(argumentsDelta(strings.Repeat("{},", 64<<10/3))) {
				return
			}
		}
	case "chains":
		chain := strings.Repeat(`{"a":`, 9900) + "1" + strings.Repeat("}", 9900) + ","
		write(`data: {"choices":[{"index":0,"delta":{"x":[` + strings.Repeat(chain, 130) + "1]}}]}\n\n")
	case "endless":
		for write(contentDelta("and ")) {
			select {
			case <-request.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	case "drip":
		for _, piece := range strings.SplitAfter(argumentsDelta(strings.Repeat("x", 900<<10)), "xxxxxxxx") {
			if !write(piece) {
				return
			}
		}
	}
	write(
		contentDelta("Good.") + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	)
}

func contentDelta(text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
}

func argumentsDelta(arguments string) string {
	return fmt.Sprintf(
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":["+
			"{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"look\",\"arguments\":%q}}]}}]}\n\n",
		arguments,
	)
}

// managerMayReadSecrets is the role that an admin of a namespace gives to the manager.
func managerMayReadSecrets(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: named(namespace, "capstan-manager-secrets"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-manager-secrets"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: "capstan-manager"}},
	}
}
