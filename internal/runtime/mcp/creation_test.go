package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// creating is a server whose calls become a task with further members.
func creating(t *testing.T, members string) *site.Site {
	t.Helper()
	next := site.MCPHandler(site.Stateless, site.Echo("echo"))
	return site.New(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"tools/call"`) {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
			return
		}
		var request struct{ ID json.RawMessage }
		if json.Unmarshal(body, &request) != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"t-1","status":"working"%s}}`,
			request.ID, members)
	})
}

// Rules: MCP-02.
func TestATaskThatCannotBeFollowedIsNotTakenForAResult(t *testing.T) {
	for name, members := range map[string]string{
		"a message that is too long": `,"_meta":{"a":"` + strings.Repeat("x", 20<<10) + `"}`,
		"spaces behind it":           strings.Repeat(" ", 20<<10),
		"an invalid id":              `,"taskId":"a b"`,
	} {
		t.Run(name, func(t *testing.T) {
			s := creating(t, members)
			result, err := mcp.Call(t.Context(), s.Egress(), mcp.Server{URL: s.URL}, mcp.Request{Tool: "echo"})
			if err != nil || result.Task == nil || result.Task.ID != "" {
				t.Errorf("the call returns %+v, %v", result, err)
			}
		})
	}
	s := creating(t, "")
	if result, err := mcp.Call(t.Context(), s.Egress(), mcp.Server{URL: s.URL}, mcp.Request{Tool: "echo"}); err != nil ||
		result.Task == nil || result.Task.ID != "t-1" {
		t.Errorf("the call returns %+v, %v", result, err)
	}
}
