package mcp_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/mcpwire"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// Rules: MCP-01, MCP-02.
func TestTheMessagesOfBothGenerations(t *testing.T) {
	for _, g := range []site.Generation{site.Stateful, site.Stateless} {
		t.Run(string(g), func(t *testing.T) {
			var mu sync.Mutex
			var messages []mcpwire.Message
			seen := func() []mcpwire.Message {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(messages)
			}
			r := mcpwire.NewRecorder(func(m mcpwire.Message) {
				mu.Lock()
				defer mu.Unlock()
				messages = append(messages, m)
			})
			s := site.New(t, r.Around(site.MCPHandler(g, site.Echo("echo"))).ServeHTTP)
			l := listening(t, s, 0)
			l.Listen(t.Context(), search, reach(s))
			if _, err := mcp.List(t.Context(), s.Egress(), reach(s)); err != nil {
				t.Fatal(err)
			}
			clients := mcp.NewClients(s.Egress(), mcp.ClientsOptions{})
			for range 2 {
				request := mcp.Request{Tool: "echo", Arguments: json.RawMessage(`{}`)}
				if _, err := clients.Call(t.Context(), sessionOf("ns", "demo"), reach(s), request); err != nil {
					t.Fatal(err)
				}
			}
			clients.Close()
			l.Close()
			want := mcpwire.Expected(g)
			t.Cleanup(func() {
				if !t.Failed() {
					return
				}
				for purpose, c := range mcpwire.ByPurpose(seen()) {
					t.Logf("%s\n%s\nwant\n%s", purpose, c, want[purpose])
				}
			})
			eventually(t, "the messages are those that are expected", func() bool {
				return reflect.DeepEqual(mcpwire.ByPurpose(seen()), want)
			})
		})
	}
}
