package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// wire records the JSON-RPC methods of requests, and passes them on.
type wire struct {
	mu      sync.Mutex
	methods []string
	headers []http.Header
}

func (w *wire) around(next http.Handler) http.HandlerFunc {
	return func(response http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var message struct{ Method string }
		_ = json.Unmarshal(body, &message)
		w.mu.Lock()
		w.methods = append(w.methods, strings.TrimSpace(r.Method+" "+message.Method))
		w.headers = append(w.headers, r.Header.Clone())
		w.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(response, r)
	}
}

func (w *wire) count(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, m := range w.methods {
		if m == method {
			n++
		}
	}
	return n
}

func reach(s *site.Site) mcp.Server { return mcp.Server{URL: s.URL + "/mcp"} }

// Rules: MCP-01, MCP-02.
func TestBothGenerationsListAndRunTheirTools(t *testing.T) {
	yes := true
	careful := site.Echo("delete")
	careful.Annotations = &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes, Title: "Delete"}
	for g, version := range map[site.Generation]string{site.Stateful: "2025-11-25", site.Stateless: "2026-07-28"} {
		t.Run(string(g), func(t *testing.T) {
			w := &wire{}
			s := site.New(t, w.around(site.MCPHandler(g, site.Echo("echo"), careful)))
			listing, err := mcp.List(t.Context(), s.Egress(), reach(s))
			if err != nil || len(listing.Tools) != 2 || listing.ProtocolVersion == "" {
				t.Fatalf("the tools are %+v, %v", listing, err)
			}
			if listing.ProtocolVersion != version {
				t.Errorf("the protocol is %s, want %s", listing.ProtocolVersion, version)
			}
			slices.SortFunc(listing.Tools, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
			remove := listing.Tools[0]
			if remove.Name != "delete" || remove.Title != "Delete" ||
				!slices.Equal(remove.Hints, []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive, v1alpha1.ToolHintOpenWorld}) {
				t.Errorf("the tool is %+v", remove)
			}
			if string(listing.Tools[1].InputSchema) != `{"type":"object"}` {
				t.Errorf("the schema is %s", listing.Tools[1].InputSchema)
			}
			result, err := mcp.Call(t.Context(), s.Egress(), reach(s), mcp.Request{
				Tool: "echo", Arguments: json.RawMessage(`{"a":1}`), Key: "key-1",
			})
			if err != nil || result.Text != `{"a":1}` || result.IsError || result.Asked != nil {
				t.Fatalf("the result is %+v, %v", result, err)
			}
			if w.count("POST tools/call") != 1 || w.count("GET") != 0 {
				t.Errorf("the requests are %q", w.methods)
			}
			for i, method := range w.methods {
				if key := w.headers[i].Get("Idempotency-Key"); (key == "key-1") != (method == "POST tools/call") {
					t.Errorf("%s has the key %q", method, key)
				}
			}
		})
	}
}

func TestHeadersAreSentWithEveryRequestAndNowhereElse(t *testing.T) {
	other := site.New(t, site.Fine)
	w := &wire{}
	handler := site.MCPHandler(site.Stateless, site.Echo("echo"))
	s := site.New(t, w.around(handler))
	server := reach(s)
	server.Header, server.Secret = http.Header{"X-Plain": {"a"}}, http.Header{"Authorization": {"Bearer b"}}
	if _, err := mcp.List(t.Context(), s.Egress(), server); err != nil {
		t.Fatal(err)
	}
	for i, header := range w.headers {
		if header.Get("X-Plain") != "a" || header.Get("Authorization") != "Bearer b" {
			t.Errorf("%s has the headers %v", w.methods[i], header)
		}
	}
	redirects := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	server.URL = redirects.URL
	if _, err := mcp.List(t.Context(), redirects.Egress(), server); err == nil || other.Requests() != 0 {
		t.Errorf("a redirect was followed: %v, %d requests", err, other.Requests())
	}
}

func TestNoRequestGoesWhereTheListDoesNotPermitIt(t *testing.T) {
	s := site.NewMCP(t, site.Stateless, site.Echo("echo"))
	_, err := mcp.Call(t.Context(), s.Egress(), reach(s), mcp.Request{
		Tool: "echo", Permits: func(*url.URL) bool { return false },
	})
	var e *mcp.Error
	if !errors.As(err, &e) || e.Called || e.Request == nil || e.Request.Reason != egress.ReasonForbidden ||
		s.Requests() != 0 {
		t.Errorf("it ends with %+v, %v, %d requests", e, err, s.Requests())
	}
}

// rpc is a JSON-RPC message.
type rpc struct {
	ID     json.RawMessage
	Method string
}

// message is the JSON-RPC message of a request, which can be read again.
func message(r *http.Request) rpc {
	var m rpc
	body, err := io.ReadAll(r.Body)
	if err == nil {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		_ = json.Unmarshal(body, &m)
	}
	return m
}

func methodOf(r *http.Request) string      { return message(r).Method }
func idOf(r *http.Request) json.RawMessage { return message(r).ID }

// respond is a server that completes the handshake and answers calls with a function.
func respond(call http.HandlerFunc) http.HandlerFunc {
	handler := site.MCPHandler(site.Stateful, site.Echo("echo"))
	return func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "tools/call" {
			call(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}
}

// Rules: DUR-01.
func TestACallIsSentOnceWhateverTheServerDoes(t *testing.T) {
	for name, call := range map[string]http.HandlerFunc{
		"a status":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"an unknown session": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"a lost connection":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no message": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "fine")
		},
		"another type": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") },
		"a stream that ends": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n")
		},
		"a response without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 2 * mcp.MaxResponseBytes {
				if _, err := w.Write([]byte("[")); err != nil {
					return
				}
			}
		},
		"a deep message": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, strings.Repeat(`{"a":`, 30_000))
		},
		"events without end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range mcp.MaxResponseBytes {
				if _, err := fmt.Fprint(w, ": nothing\n\n"); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{}
			s := site.New(t, w.around(respond(call)))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := mcp.Call(ctx, s.Egress(), reach(s), mcp.Request{Tool: "echo", Key: "k"})
			var e *mcp.Error
			if !errors.As(err, &e) || !e.Called || ctx.Err() != nil {
				t.Errorf("it ends with %#v, %v", e, err)
			}
			if n := w.count("POST tools/call"); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}

func TestACallThatTakesTooLongIsEnded(t *testing.T) {
	s := site.New(t, respond(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := mcp.Call(ctx, s.Egress(), reach(s), mcp.Request{Tool: "echo", Key: "k"})
	var e *mcp.Error
	if !errors.As(err, &e) || !e.Called || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ends with %#v, %v", e, err)
	}
}

func TestAServerWithoutEndOfItsListIsTooLarge(t *testing.T) {
	handler := site.MCPHandler(site.Stateful)
	s := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &message)
		if message.Method != "tools/list" {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"nextCursor":"more"}}`, message.ID)
	})
	_, err := mcp.List(t.Context(), s.Egress(), reach(s))
	var large *mcp.TooLargeError
	if !errors.As(err, &large) {
		t.Errorf("it ends with %v", err)
	}
}

func TestResultsAreTextsOrBlocksWithImages(t *testing.T) {
	for name, c := range map[string]struct {
		result *sdk.CallToolResult
		want   string
	}{
		"texts": {&sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "one"}, &sdk.TextContent{Text: "two"},
		}}, "one\ntwo"},
		"structured content alone": {
			&sdk.CallToolResult{StructuredContent: map[string]any{"a": 1}}, `{"a":1}`,
		},
		"structured content and its text": {&sdk.CallToolResult{
			Content: []sdk.Content{&sdk.TextContent{Text: "a is 1"}}, StructuredContent: map[string]any{"a": 1},
		}, "a is 1"},
		"an image": {&sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "plot"}, &sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")},
		}}, `[{"type":"text","text":"plot"},{"type":"image","mimeType":"image/png","data":"cG5n"}]`},
		"audio": {&sdk.CallToolResult{Content: []sdk.Content{
			&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("wav")},
		}}, `(Left out: audio of type "audio/wav".)`},
		"a link": {&sdk.CallToolResult{Content: []sdk.Content{
			&sdk.ResourceLink{URI: "file:///a", Name: "a"},
		}}, `{"type":"resource_link","uri":"file:///a","name":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			made := site.Echo("make")
			made.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult { return c.result }
			s := site.NewMCP(t, site.Stateless, made)
			got, err := mcp.Call(t.Context(), s.Egress(), reach(s), mcp.Request{Tool: "make", Key: "k"})
			if err != nil || got.Text != c.want {
				t.Errorf("the result is %+v, %v, want %s", got, err, c.want)
			}
		})
	}
}
