package perf_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// responseWords are the words of a response, and wordEvery the time between two of them, which is no divisor of
	// shownEvery.
	responseWords = 100
	wordEvery     = 37 * time.Millisecond
	// shownEvery is the least time between two deltas of a response: see docs/events.md. The baseline waits as long.
	shownEvery = 100 * time.Millisecond
)

// BenchmarkTerminal reports how long a word takes from the server of a model to the terminal of a user who chats, at
// the median and the 99th percentile, as ratios to a program that reads the same server directly and prints as often as
// deltas may come. What is above 1 is the way through the manager, the event stream and kubectl capstan.
//
// Run it with the assets of the suites: make bench-terminal
func BenchmarkTerminal(b *testing.B) {
	source := &speaker{sent: map[string]time.Time{}}
	site := httptest.NewTLSServer(source)
	defer site.Close()
	chat := newBenchServer(b).chat(b, site)
	var direct, through []time.Duration
	for b.Loop() {
		direct = append(direct, source.direct(b, site)...)
		if _, err := chat.WriteString("Tell me\n"); err != nil {
			b.Fatal(err)
		}
		through = append(through, source.lags(b, chat)...)
	}
	for _, p := range []int{50, 99} {
		base, reached := percentile(direct, p), percentile(through, p)
		b.ReportMetric(base.Seconds()*1000, fmt.Sprintf("baseline-p%d-ms", p))
		b.ReportMetric(reached.Seconds()*1000, fmt.Sprintf("p%d-ms", p))
		b.ReportMetric(float64(reached)/float64(base), fmt.Sprintf("p%d-ratio", p))
	}
	b.ReportMetric(0, "ns/op") // That of a whole response is of no use.
}

func percentile(of []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)*p/100]
}

// speaker is a model server that streams one marked word after another.
type speaker struct {
	mu        sync.Mutex
	responses int
	// sent has the time of each word that no terminal has shown yet.
	sent map[string]time.Time
}

// ServeHTTP implements http.Handler.
func (s *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(choices, usage string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}`+
			"\n\n", choices, usage)
		_ = http.NewResponseController(w).Flush()
	}
	s.mu.Lock()
	s.responses++
	response := s.responses
	s.mu.Unlock()
	tick := time.NewTicker(wordEvery)
	defer tick.Stop()
	for i := range responseWords {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
		word := fmt.Sprintf("<%d.%d>", response, i)
		s.mu.Lock()
		s.sent[word] = time.Now()
		s.mu.Unlock()
		event(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":"%s "}}`, word), "")
	}
	event(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	event("", `,"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// marks are the words, and the end of a Turn in a chat.
var marks = regexp.MustCompile(`<[0-9]+\.[0-9]+>|── done`)

// lags reads a terminal until it has shown a response to its end, and returns how late each word was.
func (s *speaker) lags(b *testing.B, terminal *os.File) (lags []time.Duration) {
	b.Helper()
	if err := terminal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		b.Fatal(err)
	}
	var shown []byte
	piece := make([]byte, 4<<10)
	for {
		n, err := terminal.Read(piece)
		if err != nil {
			b.Fatalf("after %d of %d words: %v", len(lags), responseWords, err)
		}
		now := time.Now()
		shown = append(shown, piece[:n]...)
		end := 0
		for _, at := range marks.FindAllIndex(shown, -1) {
			word := string(shown[at[0]:at[1]])
			end = at[1]
			s.mu.Lock()
			sent, known := s.sent[word]
			delete(s.sent, word)
			s.mu.Unlock()
			if known {
				lags = append(lags, now.Sub(sent))
				continue
			}
			if len(lags) != responseWords {
				b.Fatalf("%q after %d of %d words", word, len(lags), responseWords)
			}
			return lags
		}
		shown = shown[end:]
	}
}

// direct reads a response, prints it to a terminal as often as deltas may come, and returns how late each word was.
func (s *speaker) direct(b *testing.B, site *httptest.Server) []time.Duration {
	b.Helper()
	terminal, tty, err := pty.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer terminal.Close()
	defer tty.Close()
	failed := make(chan error, 1)
	go func() { failed <- printPaced(b.Context(), site, tty) }()
	lags := s.lags(b, terminal)
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
	return lags
}

// printPaced prints a response, and that it is done.
func printPaced(ctx context.Context, site *httptest.Server, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, site.URL+"/chat/completions", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	response, err := site.Client().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	chunks := contents(response.Body)
	pending, next := "", time.Now()
	var due <-chan time.Time
	for {
		select {
		case text, more := <-chunks:
			if !more {
				_, err := io.WriteString(to, pending+"\n── done\n")
				return err
			}
			if pending += text; due == nil {
				due = time.After(time.Until(next))
			}
		case <-due:
			if _, err := io.WriteString(to, pending); err != nil {
				return err
			}
			pending, due, next = "", nil, time.Now().Add(shownEvery)
		}
	}
}

// contents are the texts of the chunks of a response.
func contents(body io.Reader) <-chan string {
	chunks := make(chan string)
	go func() {
		defer close(chunks)
		for lines := bufio.NewScanner(body); lines.Scan(); {
			var e struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if ok && json.Unmarshal(data, &e) == nil && len(e.Choices) > 0 {
				chunks <- e.Choices[0].Delta.Content
			}
		}
	}()
	return chunks
}

// chat starts a manager whose Model is at a site, and kubectl capstan chat under a pseudo-terminal.
func (s *benchServer) chat(b *testing.B, site *httptest.Server) *os.File {
	b.Helper()
	directory := b.TempDir()
	binary, kubeconfig := filepath.Join(directory, "kubectl-capstan"), filepath.Join(directory, "kubeconfig")
	output, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "../../cmd/kubectl-capstan").
		CombinedOutput()
	if err != nil {
		b.Fatalf("building kubectl-capstan: %v: %s", err, output)
	}
	if err := os.WriteFile(kubeconfig, s.kubeconfig, 0o600); err != nil {
		b.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	kit, err := capstantest.Start(context.WithoutCancel(b.Context()), s.config, capstantest.Options{
		Providers:   providers.All(),
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		EgressRoots: site.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Streams:     &capstantest.Streams{Listener: listener, Certificate: &site.TLS.Certificates[0]},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := kit.Stop(); err != nil {
			b.Error(err)
		}
	})
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	model := builder.Model("speaker").In(s.space).Default().Obj()
	model.Spec.Provider, model.Spec.Model, model.Spec.BaseURL = v1alpha1.ModelProviderOpenAI, "m", site.URL
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capstan-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: "capstan-stream"},
			Data:       map[string]string{"address": listener.Addr().String(), "ca.crt": string(authority)},
		},
		model, builder.Harness(builder.HarnessName).In(s.space).Obj(),
	} {
		if err := s.client.Create(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.create(b.Context(), builder.Session("demo").In(s.space).Obj()); err != nil {
		b.Fatal(err)
	}
	command := exec.CommandContext(b.Context(), binary, "--kubeconfig", kubeconfig, "-n", s.space, "chat", "demo")
	command.Env = append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = terminal.Close()
	})
	return terminal
}
