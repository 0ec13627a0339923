package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// sessionOf is a Caller of a namespace.
func sessionOf(namespace, session string) mcp.Caller {
	return mcp.Caller{Namespace: namespace, Server: "search", Identity: session}
}

// keeping returns Clients for a site, which end with the test.
func keeping(t *testing.T, s *site.Site, o mcp.ClientsOptions) *mcp.Clients {
	t.Helper()
	clients := mcp.NewClients(s.Egress(), o)
	t.Cleanup(clients.Close)
	return clients
}

// echoes calls the tool echo.
func echoes(t *testing.T, c *mcp.Clients, s *site.Site, by mcp.Caller, repeatable bool) {
	t.Helper()
	result, err := c.Call(t.Context(), by, reach(s), mcp.Request{Tool: "echo", Key: "k", Repeatable: repeatable})
	if err != nil || result.Text != "{}" {
		t.Fatalf("the call ends with %+v, %v", result, err)
	}
}

// Rules: MCP-02.
func TestAKeptClientSparesTheHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		generation site.Generation
		repeatable bool
		want       map[string]int
	}{
		"with sessions": {site.Stateful, true, map[string]int{
			"POST initialize": 1, "POST notifications/initialized": 1, "POST ping": 0, "DELETE": 0,
		}},
		"with sessions, at most once": {site.Stateful, false, map[string]int{"POST initialize": 1, "POST ping": 2}},
		"without sessions":            {site.Stateless, false, map[string]int{"POST server/discover": 1, "POST ping": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{}
			s := site.New(t, w.around(site.MCPHandler(c.generation, site.Echo("echo"))))
			clients := keeping(t, s, mcp.ClientsOptions{})
			for range 3 {
				echoes(t, clients, s, sessionOf("ns", "a"), c.repeatable)
			}
			if n := w.count("POST tools/call"); n != 3 || clients.Kept() != 1 || clients.Made() != 1 {
				t.Errorf("%d calls, %d clients kept of %d", n, clients.Kept(), clients.Made())
			}
			for method, want := range c.want {
				if n := w.count(method); n != want {
					t.Errorf("%d requests %s, want %d; all are %q", n, method, want, w.methods)
				}
			}
		})
	}
}

func TestNoTwoCallersShareASession(t *testing.T) {
	w := &wire{}
	s := site.New(t, w.around(site.MCPHandler(site.Stateful, site.Echo("echo"))))
	clients := keeping(t, s, mcp.ClientsOptions{})
	for _, by := range []string{"a", "b", "a", "b"} {
		echoes(t, clients, s, sessionOf("ns", by), true)
	}
	var sessions []string
	for i, method := range w.methods {
		if method == "POST tools/call" {
			sessions = append(sessions, w.headers[i].Get("Mcp-Session-Id"))
		}
	}
	if sessions[0] == sessions[1] || sessions[0] != sessions[2] || sessions[1] != sessions[3] || sessions[0] == "" {
		t.Errorf("the calls of a, b, a, b are in the sessions %q", sessions)
	}
}

// restarting is a server whose sessions are lost by restart.
type restarting struct{ handler atomic.Pointer[http.Handler] }

func (r *restarting) restart() {
	handler := site.MCPHandler(site.Stateful, site.Echo("echo"))
	r.handler.Store(&handler)
}

func (r *restarting) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	(*r.handler.Load()).ServeHTTP(w, request)
}

// Rules: DUR-01.
func TestAfterALostSessionOnlyARepeatableCallIsSentAgain(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		t.Run(fmt.Sprintf("repeatable %t", repeatable), func(t *testing.T) {
			w, r := &wire{}, &restarting{}
			r.restart()
			s := site.New(t, w.around(r))
			clients := keeping(t, s, mcp.ClientsOptions{})
			echoes(t, clients, s, sessionOf("ns", "a"), repeatable)
			r.restart()
			echoes(t, clients, s, sessionOf("ns", "a"), repeatable)
			calls, pings := 3, 0
			if !repeatable {
				calls, pings = 2, 1
			}
			if w.count("POST tools/call") != calls || w.count("POST ping") != pings || w.count("POST initialize") != 2 ||
				clients.Outdated() != 1 {
				t.Errorf("the requests are %q", w.methods)
			}
		})
	}
}

// Rules: DUR-01.
func TestACallThatMustNotBeRepeatedIsSentOnceEvenIfItsSessionIsLostMeanwhile(t *testing.T) {
	w := &wire{}
	lost := false
	s := site.New(t, w.around(respond(func(response http.ResponseWriter, r *http.Request) {
		if lost {
			response.WriteHeader(http.StatusNotFound)
			return
		}
		response.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(response, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"{}"}]}}`, idOf(r))
	})))
	clients := keeping(t, s, mcp.ClientsOptions{})
	echoes(t, clients, s, sessionOf("ns", "a"), false)
	lost = true
	_, err := clients.Call(t.Context(), sessionOf("ns", "a"), reach(s), mcp.Request{Tool: "echo", Key: "k"})
	if err == nil || w.count("POST tools/call") != 2 || clients.Kept() != 0 {
		t.Errorf("it ends with %v, the requests are %q, %d clients are kept", err, w.methods, clients.Kept())
	}
}

func TestAClientEndsWhenTheHeadersOrTheServerChange(t *testing.T) {
	w := &wire{}
	s := site.New(t, w.around(site.MCPHandler(site.Stateful, site.Echo("echo"))))
	clients := keeping(t, s, mcp.ClientsOptions{})
	server := reach(s)
	call := func(secret string) {
		t.Helper()
		server.Secret = http.Header{"Authorization": {secret}}
		if _, err := clients.Call(t.Context(), sessionOf("ns", "a"), server, mcp.Request{Tool: "echo"}); err != nil {
			t.Fatal(err)
		}
	}
	call("old")
	call("new")
	eventually(t, "the session with the old Secret ends", func() bool { return w.count("DELETE") == 1 })
	if w.count("POST initialize") != 2 || clients.Kept() != 1 {
		t.Errorf("the requests are %q", w.methods)
	}
	clients.Forget("ns", "another")
	if clients.Kept() != 1 {
		t.Error("a client ended with another MCPServer")
	}
	clients.Forget("ns", "search")
	eventually(t, "the session ends with its MCPServer", func() bool { return w.count("DELETE") == 2 })
	call("new")
	clients.Close()
	if w.count("DELETE") != 3 {
		t.Errorf("the sessions were not ended: %q", w.methods)
	}
	call("new")
	if clients.Kept() != 0 {
		t.Error("a client is kept after the end")
	}
}

func TestWhatIsKeptIsBoundedAndSharedBetweenNamespaces(t *testing.T) {
	s := site.NewMCP(t, site.Stateless, site.Echo("echo"))
	clients := keeping(t, s, mcp.ClientsOptions{Max: 16})
	for i := range 40 {
		echoes(t, clients, s, sessionOf("greedy", fmt.Sprint(i)), true)
	}
	if n := clients.Kept(); n != 14 {
		t.Errorf("a namespace alone has %d of 16 clients, want all but an eighth", n)
	}
	for i := range 40 {
		echoes(t, clients, s, sessionOf("modest", fmt.Sprint(i)), true)
	}
	if n := clients.Kept(); n != 16 {
		t.Errorf("%d clients are kept, want 16", n)
	}
	made := clients.Made()
	for i := range 8 {
		echoes(t, clients, s, sessionOf("modest", fmt.Sprint(32+i)), true)
		echoes(t, clients, s, sessionOf("greedy", fmt.Sprint(32+i)), true)
	}
	if clients.Made() != made {
		t.Error("the namespaces do not have half of the clients each")
	}
}

func TestAnUnusedClientEnds(t *testing.T) {
	w := &wire{}
	s := site.New(t, w.around(site.MCPHandler(site.Stateful, site.Echo("echo"))))
	clients := keeping(t, s, mcp.ClientsOptions{Idle: 20 * time.Millisecond})
	echoes(t, clients, s, sessionOf("ns", "a"), true)
	eventually(t, "the client ends", func() bool { return clients.Kept() == 0 && w.count("DELETE") == 1 })
}

// boasting is a server whose handshake is as large as it can be, with a session id of so many bytes.
func boasting(id int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch method := methodOf(r); method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", strings.Repeat("i", id))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":`+
				`{"experimental":{"a":%s}},"serverInfo":{"name":"a","version":"1"}}}`, idOf(r), many(45<<10))
		case "tools/call":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"{}"}]}}`, idOf(r))
		case "server/discover":
			w.WriteHeader(http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}
}

func TestAServerCannotFillTheMemoryByClientsThatAreKept(t *testing.T) {
	s := site.New(t, boasting(64))
	clients := keeping(t, s, mcp.ClientsOptions{})
	echoes(t, clients, s, sessionOf("ns", "first"), true)
	const more = 40
	before := heap()
	for i := range more {
		echoes(t, clients, s, sessionOf("ns", fmt.Sprint(i)), true)
	}
	each := (heap() - before) / more
	t.Logf("a client that is kept takes %d bytes", each)
	if clients.Kept() != more+1 || each > 128<<10 {
		t.Errorf("%d clients are kept, with %d bytes each", clients.Kept(), each)
	}
	s = site.New(t, boasting(32<<10))
	clients = keeping(t, s, mcp.ClientsOptions{})
	echoes(t, clients, s, sessionOf("ns", "a"), true)
	if clients.Kept() != 0 {
		t.Error("a session with an id of 32 KiB is kept")
	}
}

// heap is the memory in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
