//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// polisher is the server of a webhook that rewrites messages. The manager does not trust its certificate otherwise.
type polisher struct {
	url, certificate string

	mu      sync.Mutex
	headers []http.Header
}

func newPolisher(ctx context.Context, address string) *polisher {
	GinkgoHelper()
	certificate, pair := certificateFor(address)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	p := &polisher{url: "https://" + net.JoinHostPort(address, port) + "/polish", certificate: string(certificate)}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	DeferCleanup(server.Close)
	return p
}

// ServeHTTP implements http.Handler.
func (p *polisher) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.headers = append(p.headers, request.Header.Clone())
	_, _ = io.WriteString(response, `{"decision": "mutate", "patch": {"message": "Polished:"}}`)
}

// seen are the headers of the requests.
func (p *polisher) seen() []http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.headers
}

var _ = Describe("A Capability", alone, Label(hereLabel), func() {
	// Rules: CAP-03, BP-02.
	It("brings all that it has to a Session, and stops its Turns while it is archived", SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			host := newMCPHost(ctx)
			webhook := newPolisher(ctx, host.address)
			namespace := newNamespace(ctx)
			server := host.serve(ctx, namespace, site.Stateless, "plain")
			create(ctx, managerMayReadSecrets(namespace))
			apply(ctx, namespace, strings.NewReplacer("TOOLBOX_IMAGE", toolboxImage, "SERVER_URL", server.url,
				"WEBHOOK_URL", webhook.url, "CA_BUNDLE", strconv.Quote(webhook.certificate)).Replace(capabilityManifest))
			kubectl(ctx, "wait", "--namespace", namespace, "capability/counting", "capability/filing", "session/demo",
				"session/reading", "--for=condition=Ready", "--timeout=60s")
			show("Capabilities", kubectl(ctx, "get", "--namespace", namespace, "capabilities", "--output=wide"))
			counting := &v1alpha1.Capability{ObjectMeta: named(namespace, "counting")}
			Expect(api.Get(ctx, keyOf(counting), counting)).To(Succeed())
			Expect(counting.Status.Dependencies).To(Equal([]string{"session_file_system", "object/filing", "current_time"}))

			By("using the prompt, the tools, the server, the hooks and the files")
			ask(ctx, namespace, "demo-1")
			answer := succeeded(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(And(HavePrefix("Polished: "), ContainSubstring("Count all words."),
				HaveSuffix(" 3 signed blocked by pre_tool_use hook: it is a secret")))
			Expect(jobsIn(ctx, namespace)).To(HaveLen(1))
			server.called(ctx, 1)
			Expect(webhook.seen()).To(ConsistOf(And(
				HaveKeyWithValue("X-Capability", []string{"counting"}),
				HaveKeyWithValue("Authorization", []string{"Bearer of-the-hook"}))))
			Expect(systemPrompt(ctx, namespace)).To(And(
				ContainSubstring("Count as /rules.md demands."), ContainSubstring(`{"language":"English"}`)))

			By("being a blueprint")
			create(ctx, builder.Turn("reading-1").In(namespace).Session("reading").Obj())
			reading := succeeded(ctx, namespace, "reading-1")
			Expect(reading.Status.Model).To(Equal("reading"))
			Expect(reading.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonMaxTurnRequests))
			Expect(reading.Status.Summary.ModelCalls).To(BeEquivalentTo(2))
			Expect(reading.Status.Summary.Calls).To(Equal("1/1"))

			By("being archived")
			kubectl(ctx, "patch", "--namespace", namespace, "capability/filing", "--type=merge", "--patch",
				`{"spec":{"lifecycle":"Archived"}}`)
			kubectl(ctx, "wait", "--namespace", namespace, "capability/counting", "session/demo", "session/reading",
				"--for=condition=Ready=false", "--timeout=30s")
			ask(ctx, namespace, "demo-2")
			kubectl(ctx, "patch", "--namespace", namespace, "capability/filing", "--type=merge", "--patch",
				`{"spec":{"lifecycle":"Active"}}`)
			succeeded(ctx, namespace, "demo-2")
		})
})

// systemPrompt is that of Session demo in the journal.
func systemPrompt(ctx context.Context, namespace string) string {
	GinkgoHelper()
	for _, entry := range journal(ctx, namespace) {
		if entry.Context != nil && entry.Context.Content != nil {
			c, err := prompt.Unpack(entry.Context.Content)
			Expect(err).NotTo(HaveOccurred())
			return c.SystemPrompt
		}
	}
	Fail("the journal has no system prompt")
	return ""
}
