package step

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// listing is a Config with an MCPServer that lists tools with the given descriptions, each after its name.
func listing(tools ...string) turnstate.Config {
	server := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "server-uid"},
		Spec:       v1alpha1.MCPServerSpec{URL: "https://mcp.example.org/"},
	}
	texts := map[string]definition.RemoteTexts{}
	for i := 0; i < len(tools); i += 2 {
		name, description := tools[i], tools[i+1]
		digest := tool.Hash(description)
		server.Status.DiscoveredTools = append(server.Status.DiscoveredTools,
			v1alpha1.MCPServerTool{Name: name, Digest: digest})
		texts[name] = definition.RemoteTexts{
			Digest: digest, Description: description, InputSchema: []byte(`{ "type": "object", "description": "<a & b>" }`),
		}
	}
	definition.SetDiscovered(&server.Status, &server.Spec)
	c := with()
	c.Tools, c.Texts = definition.OfServer(server), &shelf{remote: texts}
	return c
}

// Rules: MCP-02, PHASE-07.
func TestACallIsPinnedToTheDefinitionThatTheModelWasShown(t *testing.T) {
	for name, restarts := range map[string]bool{"in one process": false, "in a new process for each step": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.responds("", calls(1, "mcp_s__find")...)
			turn, _ := b.reason(newTurn("demo-1"), listing("find", "Finds.", "other", "Lists."))
			if call := turn.Progress.ToolCalls[0]; call.State != v1alpha1.ToolCallStatePending {
				t.Fatalf("the first call is %+v", call)
			}
			changed := listing("find", "Deletes.", "other", "Lists.")
			next := func() (turnstate.Turn, *journal.Closed) {
				t.Helper()
				if restarts {
					b = onStore(t, b.store)
				}
				b.responds("", append(calls(1, "mcp_s__find"), calls(1, "mcp_s__other")...)...)
				return b.reason(b.looked(turn), changed)
			}
			turn, closed := next()
			if shown := b.asked[len(b.asked)-1].Tools[0].Description; shown != "Finds." {
				t.Errorf("the model is shown %q in the middle of the Turn", shown)
			}
			find, other := turn.Progress.ToolCalls[0], turn.Progress.ToolCalls[1]
			if find.State != v1alpha1.ToolCallStateNotExecuted || find.Reason != v1alpha1.ToolCallReasonToolChanged ||
				!strings.Contains(planned(closed)[0].Refusal, "present definition") {
				t.Errorf("the call of the changed tool is %+v: %s", find, planned(closed)[0].Refusal)
			}
			if other.State != v1alpha1.ToolCallStatePending {
				t.Errorf("the call of the other tool is %+v", other)
			}
			turn, closed = next()
			if shown := b.asked[len(b.asked)-1].Tools; shown[0].Description != "Deletes." || shown[1].Description != "Lists." {
				t.Errorf("after the refusal the model is shown %+v", shown)
			}
			if find := turn.Progress.ToolCalls[0]; find.State != v1alpha1.ToolCallStatePending {
				t.Errorf("the call of the definition that was shown is %+v", find)
			}
			if closed.Context == nil || len(closed.Context.Content) > 0 {
				t.Errorf("the same context is recorded again: %+v", closed.Context)
			}
		})
	}
}

// Rules: MCP-02.
func TestAToolThatAServerAddsCountsFromTheNextTurn(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "mcp_s__find")...)
	turn, _ := b.reason(newTurn("demo-1"), listing("find", "Finds."))
	b.responds("", calls(1, "mcp_s__new")...)
	turn, _ = b.reason(b.looked(turn), listing("find", "Finds.", "new", "Deletes."))
	if call := turn.Progress.ToolCalls[0]; call.Reason != v1alpha1.ToolCallReasonToolNotFound {
		t.Errorf("the call of a tool that the model was not shown is %+v", call)
	}
}

// Rules: MCP-02.
func TestADefinitionWithoutRoomInTheJournalIsNotCalled(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "mcp_s__find")...)
	turn, _ := b.reason(newTurn("demo-1"), listing("find", "Finds."))
	b.responds("", calls(1, "mcp_s__find")...)
	large := listing("find", strings.Repeat("x", 1<<20))
	for range 2 {
		var closed *journal.Closed
		turn, closed = b.reason(b.looked(turn), large)
		if call := turn.Progress.ToolCalls[0]; call.Reason != v1alpha1.ToolCallReasonToolChanged ||
			!strings.Contains(planned(closed)[0].Refusal, "next message") || closed.Context != nil {
			t.Errorf("the call is %+v: %s", call, planned(closed)[0].Refusal)
		}
	}
}

// Rules: MCP-02, HOOK-20.
func TestACallThatHooksRewriteAfterARestartIsNotPinnedAnew(t *testing.T) {
	b := newBench(t)
	c, err := wholeConfig(t.Context(), listing("find", "Finds."))
	if err != nil {
		t.Fatal(err)
	}
	_, pinned := b.pin(newTurn("demo-1"), c, calls(1, "mcp_s__find"))
	record := journal.Record{
		Calls: []journal.PlannedCall{{ID: pinned[0].ID, Name: "mcp_s__find", Arguments: "{}"}},
		Transition: v1alpha1.TurnProgress{
			Plan: &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseAct}, Summary: &v1alpha1.TurnSummary{}, ToolCalls: pinned,
		},
	}
	rewrites := map[string]hook.CallResult{pinned[0].ID: {Arguments: []byte(`{"a":1}`)}}
	for description, want := range map[string]v1alpha1.ToolCallState{
		"Finds.": v1alpha1.ToolCallStatePending, "Deletes.": v1alpha1.ToolCallStateNotExecuted,
	} {
		now, err := wholeConfig(t.Context(), listing("find", description))
		if err != nil {
			t.Fatal(err)
		}
		got := b.amended(newTurn("demo-1"), now, record, rewrites)
		if call := got.Transition.ToolCalls[0]; call.State != want {
			t.Errorf("a tool that %q: the call is %+v", description, call)
		}
	}
}
