//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/otlp"
)

// traced is an HTTP tool at this process. It responds to no request before a manager was killed that waits for it.
type traced struct {
	url string

	mu       sync.Mutex
	contexts []string
}

// newTraced starts the tool, and a receiver of the spans of the managers of this spec.
func newTraced(ctx context.Context) (*traced, *otlp.Receiver) {
	GinkgoHelper()
	var config net.ListenConfig
	listen := func() (net.Listener, string) {
		GinkgoHelper()
		listener, err := config.Listen(ctx, "tcp", ":0")
		Expect(err).NotTo(HaveOccurred())
		_, port, err := net.SplitHostPort(listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		return listener, net.JoinHostPort(hostAddress(ctx), port)
	}
	at, collector := listen()
	received := otlp.Listen(at)
	DeferCleanup(received.Close)

	at, address := listen()
	certificate, pair := certificateFor(hostAddress(ctx))
	t := &traced{url: "https://" + address}
	server := &http.Server{
		Handler: t, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	}
	go func() { _ = server.ServeTLS(at, "", "") }()
	DeferCleanup(server.Close)
	environment := []corev1.EnvVar{{Name: "OTEL_EXPORTER_OTLP_ENDPOINT", Value: "http://" + collector}}
	trustIn(ctx, certificate, environment, "--egress-allow-cidr="+hostAddress(ctx)+"/32")
	return t, received
}

// ServeHTTP implements http.Handler.
func (t *traced) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	t.mu.Lock()
	t.contexts = append(t.contexts, request.Header.Get("Traceparent"))
	first := len(t.contexts) == 1
	t.mu.Unlock()
	if first {
		_, _ = io.Copy(io.Discard, request.Body) // Only then does the server see the end of the connection.
		<-request.Context().Done()
		return
	}
	_, _ = io.WriteString(response, "clear")
}

// seen are the trace contexts of the requests.
func (t *traced) seen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.contexts)
}

// managerLines are the lines of the log of a manager's pod, also of the process before.
func managerLines(ctx context.Context, m manager) (lines []map[string]any) {
	GinkgoHelper()
	for _, previous := range []bool{true, false} {
		options := &corev1.PodLogOptions{Container: managerContainer, Previous: previous}
		text, err := clientset.CoreV1().Pods(m.pod.Namespace).GetLogs(m.pod.Name, options).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		for raw := range bytes.Lines(text) {
			line := map[string]any{}
			if json.Unmarshal(raw, &line) == nil {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// runbooks runs the commands of docs/runbooks.md, and returns what they print.
func runbooks(ctx context.Context) string {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(os.Getenv(envRepository), "docs", "runbooks.md"))
	Expect(err).NotTo(HaveOccurred(), "the suite is run by hack/e2e.sh")
	commands := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(page, -1)
	Expect(len(commands)).To(BeNumerically(">", 3))
	var all strings.Builder
	for _, block := range commands {
		shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", string(block[1]))
		shell.Env = append(os.Environ(), "PATH="+filepath.Dir(os.Getenv(envKubectl))+":"+os.Getenv("PATH"))
		output, err := shell.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s%s", block[1], output)
		fmt.Fprintf(&all, "%s\n%s\n", block[1], cut(string(output)))
	}
	Expect(all.String()).To(ContainSubstring("[+]policies ok"))
	return all.String()
}

var _ = Describe("The trace of a Turn", alone, Label(hereLabel), func() {
	It("is one tree although its manager is killed twice", SpecTimeout(crashLimit), func(ctx SpecContext) {
		asked, received := newTraced(ctx)
		jobs := newToolServer(ctx)
		jobs.hold("read", "write")
		script := builder.Script("done", calls{jobs.call("read"), call("ask", nil)}, calls{jobs.call("write")})
		namespace := newStage(ctx, script,
			toolbox("read", "report", v1alpha1.SideEffectPure), toolbox("write", "report", v1alpha1.SideEffectAtMostOnce),
			builder.HTTPTool("ask", v1alpha1.SideEffectIdempotent, asked.url).Obj())
		created := ask(ctx, namespace, "demo-1")
		Eventually(ctx, asked.seen).WithPolling(promptly).Should(HaveLen(1))
		for _, tool := range []string{"read", "write"} {
			jobs.visited(ctx, tool, 1)
			strike, survived := killed(ctx, settled(ctx))
			Expect(strike()).To(Succeed())
			jobs.letGo(tool)
			Eventually(ctx, survived).WithTimeout(takeover).Should(Succeed())
		}
		Eventually(ctx, turn(namespace, "demo-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())

		id := strings.ReplaceAll(string(created.UID), "-", "")
		Eventually(ctx, func() []otlp.Span { return received.Spans(id) }).Should(HaveLen(12))
		spans := received.Spans(id)
		root, err := otlp.Root(spans, "")
		Expect(err).NotTo(HaveOccurred(), "%+v", spans)
		Expect(root.Name).To(HavePrefix("invoke_agent "))
		names, contexts := map[string]int{}, map[string]string{}
		for _, s := range spans {
			Expect(s.Failed).To(BeFalse(), s.Name)
			Expect(s.Attributes).To(HaveKeyWithValue("capstan.turn.uid", string(created.UID)))
			name := s.Name
			if strings.HasPrefix(name, "invoke_agent ") {
				name = "invoke_agent"
			}
			names[name]++
			contexts[s.Name] = "00-" + id + "-" + s.ID + "-01"
		}
		Expect(names).To(Equal(map[string]int{
			"invoke_agent": 1, "reason": 3, "chat simulated": 3, "act": 2, "execute_tool read": 1, "execute_tool write": 1,
			"execute_tool ask": 1,
		}))
		for _, tool := range []string{"read", "write"} {
			Expect(jobs.of(tool)).To(HaveLen(1))
			Expect(jobs.of(tool)[0].trace).To(Equal(contexts["execute_tool "+tool]))
		}
		Expect(asked.seen()).To(And(HaveLen(2), HaveEach(contexts["execute_tool ask"])))

		By("reading the log")
		about := map[string]bool{}
		for _, line := range managerLines(ctx, settled(ctx)) {
			if of, ok := line["Turn"].(map[string]any); ok && of["namespace"] == namespace {
				Expect(line).To(And(HaveKeyWithValue("trace_id", id), HaveKeyWithValue("span_id", root.ID)))
				about[line["msg"].(string)] = true
			}
		}
		Expect(about).NotTo(BeEmpty())
		show("lines about the Turn", slices.Sorted(maps.Keys(about)))

		By("using the runbooks")
		show("the commands of the runbooks", runbooks(ctx))
	})
})
