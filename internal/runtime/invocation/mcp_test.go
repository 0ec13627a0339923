package invocation

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// offering is an MCPServer at a site, with the tool echo that was discovered there.
func offering(s *site.Site, class v1alpha1.SideEffect) *v1alpha1.MCPServer {
	server := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "search", UID: "server-uid"},
		Spec: v1alpha1.MCPServerSpec{
			URL: s.URL + "/mcp", Tools: []v1alpha1.MCPToolRule{{Name: "echo", SideEffect: class}},
		},
		Status: v1alpha1.MCPServerStatus{DiscoveredTools: []v1alpha1.MCPServerTool{{Name: "echo", Digest: "d"}}},
	}
	definition.SetDiscovered(&server.Status, &server.Spec)
	return server
}

// Rules: MCP-02.
func TestACallOfAnMCPServerThatHasMovedWaitsUntilItsToolsAreDiscovered(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectIdempotent} {
		t.Run(string(class), func(t *testing.T) {
			s, store := site.NewMCP(t, site.Stateless, site.Echo("echo")), memory.New()
			b := onStore(t, store).reaching(s)
			server := offering(s, class)
			server.Spec.URL = s.URL + "/elsewhere"
			turn, call := acting(v1alpha1.ToolExecutorMCP, class)
			call.Name = "mcp_search__echo"
			d := definition.OfServer(server).Find(call.Name)
			d.Pin(&call)
			_, err := b.CarryOut(t.Context(), turn, Call{Call: call, Definition: d, Attempt: NewAttempt(&Line{})})
			var missing *act.MissingSecret
			if !errors.As(err, &missing) || missing.Reason != v1alpha1.ReasonToolsNotDiscovered ||
				!strings.Contains(missing.Error(), `MCPServer "search"`) {
				t.Fatalf("it ends with %v", err)
			}
			if held, err := b.MissingSecret(
				t.Context(),
				executor.Asker{Namespace: "ns"},
				d,
			); err != nil || held == nil ||
				*held != *missing {
				t.Errorf("it waits for %+v, %v", held, err)
			}
			if b.entries() != 0 || s.Requests() != 0 {
				t.Errorf("%d entries, %d requests", b.entries(), s.Requests())
			}
			definition.SetDiscovered(&server.Status, &server.Spec)
			d = definition.OfServer(server).Planned(call)
			if held, err := b.MissingSecret(
				t.Context(),
				executor.Asker{Namespace: "ns"},
				d,
			); err != nil || held != nil ||
				d == nil {
				t.Fatalf("once they are discovered it waits for %+v, %v", held, err)
			}
			end, err := b.CarryOut(t.Context(), turn, Call{Call: call, Definition: d, Attempt: NewAttempt(&Line{})})
			if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded {
				t.Fatalf("it ends with %+v, %v", end, err)
			}
			if class != v1alpha1.SideEffectAtMostOnce {
				return
			}
			// The outcome of a call that was sent follows from the journal.
			server.Spec.URL, server.Status.DiscoveredConnection = s.URL+"/elsewhere", "another"
			again := Call{Call: call, Definition: definition.OfServer(server).Planned(call), Attempt: NewAttempt(&Line{})}
			requests := s.Requests()
			end, err = onStore(t, store).reaching(s).CarryOut(t.Context(), turn, again)
			if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || s.Requests() != requests {
				t.Errorf("in another process it ends with %+v, %v", end, err)
			}
		})
	}
}
