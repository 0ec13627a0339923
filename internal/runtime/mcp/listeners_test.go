package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

var search = mcp.Subject{Namespace: "ns", Name: "search"}

// notices counts those of all servers.
type notices struct {
	*mcp.Listeners
	n atomic.Int64
}

// listening returns Listeners for a site, which end with the test.
func listening(t *testing.T, s *site.Site, limit int) *notices {
	t.Helper()
	l := &notices{}
	l.Listeners = mcp.NewListeners(s.Egress(), mcp.ListenersOptions{Max: limit, Noticed: func(mcp.Subject) { l.n.Add(1) }})
	t.Cleanup(l.Close)
	return l
}

// Rules: MCP-01.
func TestServersOfBothGenerationsSendNotices(t *testing.T) {
	for _, g := range []site.Generation{site.Stateful, site.Stateless} {
		t.Run(string(g), func(t *testing.T) {
			w := &wire{}
			server := site.MCPServer(site.Echo("echo"))
			s := site.New(t, w.around(site.Serve(g, server)))
			l := listening(t, s, 0)
			l.Listen(t.Context(), search, reach(s))
			l.Listen(t.Context(), search, reach(s))
			if l.Open() != 1 || !l.Tried(search) || l.n.Load() != 0 {
				t.Fatalf("%d streams are open, %d notices have come, the requests are %q", l.Open(), l.n.Load(), w.methods)
			}
			site.Offer(server, site.Echo("another"))
			eventually(t, "a notice comes", func() bool { return l.n.Load() == 1 })
			l.Forget(search)
			if l.Open() != 0 || l.Tried(search) {
				t.Error("the stream outlives its MCPServer")
			}
			if n := w.count("GET") + w.count("POST subscriptions/listen"); n != 1 {
				t.Errorf("the requests are %q", w.methods)
			}
		})
	}
}

func TestAServerThatOffersNoNoticesIsAskedOnce(t *testing.T) {
	for name, around := range map[string]func(http.Handler) http.HandlerFunc{
		"no capability": func(http.Handler) http.HandlerFunc {
			silent := sdk.NewServer(&sdk.Implementation{Name: "a", Version: "1"}, &sdk.ServerOptions{
				Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			})
			return site.Serve(site.Stateless, silent).ServeHTTP
		},
		"no stream": func(next http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				next.ServeHTTP(w, r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, around(site.MCPHandler(site.Stateful, site.Echo("echo"))))
			l := listening(t, s, 0)
			l.Listen(t.Context(), search, reach(s))
			before := s.Requests()
			l.Listen(t.Context(), search, reach(s))
			if l.Open() != 0 || !l.Tried(search) || s.Requests() > before+1 {
				t.Errorf("%d streams, %d requests, then %d", l.Open(), before, s.Requests())
			}
		})
	}
}

// streaming is a server whose stream of notices is a function.
func streaming(stream http.HandlerFunc) http.HandlerFunc {
	handler := site.MCPHandler(site.Stateful, site.Echo("echo"))
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		stream(w, r)
	}
}

// event sends an event to a client, and reports whether it is there.
func event(w http.ResponseWriter, id int, message string) bool {
	_, err := fmt.Fprintf(w, "retry: 1\nid: %d\ndata: %s\n\n", id, message)
	_ = http.NewResponseController(w).Flush()
	return err == nil
}

func TestNoticesWithoutEndEndTheStream(t *testing.T) {
	for name, message := range map[string]string{
		"notices":   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"questions": `{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		"others": `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` +
			strings.Repeat("a", 4096) + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var streams, answers atomic.Int64
			busy, most := atomic.Int64{}, atomic.Int64{}
			handler := streaming(func(w http.ResponseWriter, r *http.Request) {
				streams.Add(1)
				for i := 0; r.Context().Err() == nil; i++ {
					text := message
					if strings.Contains(text, "%d") {
						text = fmt.Sprintf(text, i)
					}
					if !event(w, i, text) {
						return
					}
				}
			})
			s := site.New(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && methodOf(r) == "" {
					most.Store(max(most.Load(), busy.Add(1)))
					answers.Add(1)
					defer busy.Add(-1)
				}
				handler(w, r)
			})
			l := listening(t, s, 0)
			l.Listen(t.Context(), search, reach(s))
			eventually(t, "the stream ends", func() bool { return l.Open() == 0 })
			if streams.Load() != 1 || most.Load() > 8 {
				t.Errorf("%d streams, %d answers, %d of them at once", streams.Load(), answers.Load(), most.Load())
			}
		})
	}
}

func TestAStreamThatEndsIsNotOpenedAgainByItself(t *testing.T) {
	s := site.New(t, streaming(func(w http.ResponseWriter, _ *http.Request) { event(w, 1, "{}") }))
	l := listening(t, s, 0)
	l.Listen(t.Context(), search, reach(s))
	eventually(t, "the stream ends", func() bool { return l.Open() == 0 })
	before := s.Requests()
	l.Listen(t.Context(), search, reach(s))
	if s.Requests() == before {
		t.Error("it is not opened with the next discovery")
	}
}

func TestAStreamThatDoesNotBeginIsAbandoned(t *testing.T) {
	gone := make(chan struct{})
	s := site.New(t, streaming(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	}))
	l := listening(t, s, 0)
	began := time.Now()
	l.Listen(t.Context(), search, reach(s))
	if took := time.Since(began); took > 15*time.Second || l.Open() != 0 {
		t.Errorf("%d streams after %s", l.Open(), took)
	}
	<-gone
}

func TestStreamsAreBoundedAndSharedBetweenNamespaces(t *testing.T) {
	s := site.NewMCP(t, site.Stateless, site.Echo("echo"))
	l := listening(t, s, 8)
	open := func(namespace string, n int) {
		for i := range n {
			l.Listen(t.Context(), mcp.Subject{Namespace: namespace, Name: fmt.Sprint(i)}, reach(s))
		}
	}
	open("greedy", 12)
	if l.Open() != 7 {
		t.Errorf("a namespace alone has %d of 8 streams", l.Open())
	}
	open("modest", 4)
	if l.Open() != 8 {
		t.Errorf("%d streams are open, want 8", l.Open())
	}
	before := s.Requests()
	open("modest", 4)
	if s.Requests() != before {
		t.Error("the other namespace does not have its half")
	}
	l.Close()
	if l.Open() != 0 {
		t.Error("streams are open after the end")
	}
}
