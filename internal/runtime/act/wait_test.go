package act

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

func TestWhenAStepWaitsForOthers(t *testing.T) {
	call := func(id string, executor v1alpha1.ToolExecutor, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
		return v1alpha1.ToolCall{ID: id, Executor: executor, State: state}
	}
	running := call("1-0", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateRunning)
	client := call("1-1", v1alpha1.ToolExecutorClient, v1alpha1.ToolCallStateWaiting)
	done := call("1-2", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateSucceeded)
	next := call("1-4", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStatePending)
	guarded := call("1-3", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateWaiting)
	guarded.Policy = v1alpha1.ToolPolicyRequiresApproval
	approved := guarded
	Approve(&approved)
	rejected := map[string]tool.Outcome{"1-3": tool.Rejected("")}
	sequential := v1alpha1.ToolConcurrencySequential
	const wait, follow = true, false
	for name, test := range map[string]struct {
		clients     bool
		calls       []v1alpha1.ToolCall
		outcomes    map[string]tool.Outcome
		concurrency v1alpha1.ToolConcurrency
		want        bool
	}{
		"no calls":                     {clients: wait},
		"a client":                     {clients: wait, calls: []v1alpha1.ToolCall{client}, want: true},
		"a client and a Job that runs": {clients: wait, calls: []v1alpha1.ToolCall{running, client}},
		"a client and a Job that ended": {
			clients: wait, calls: []v1alpha1.ToolCall{running, client}, outcomes: map[string]tool.Outcome{"1-0": {}}, want: true,
		},
		"a client and one in status": {clients: wait, calls: []v1alpha1.ToolCall{done, client}, want: true},
		"all have ended": {
			clients: wait, calls: []v1alpha1.ToolCall{done, client}, outcomes: map[string]tool.Outcome{"1-1": {}},
		},
		"a client that is not waited for":         {clients: follow, calls: []v1alpha1.ToolCall{client}},
		"an approval":                             {clients: wait, calls: []v1alpha1.ToolCall{guarded}, want: true},
		"an approval, hints or not":               {clients: follow, calls: []v1alpha1.ToolCall{guarded}, want: true},
		"an approval, clients are not waited for": {clients: follow, calls: []v1alpha1.ToolCall{client, guarded}, want: true},
		"an approval and a client":                {clients: wait, calls: []v1alpha1.ToolCall{client, guarded}, want: true},
		"an approval and a Job that runs":         {clients: wait, calls: []v1alpha1.ToolCall{running, guarded}},
		"an approval and a Job that may start":    {clients: wait, calls: []v1alpha1.ToolCall{guarded, next}},
		"a Job that is behind an approval": {
			clients: wait, calls: []v1alpha1.ToolCall{guarded, next}, concurrency: sequential, want: true,
		},
		"a Job that is before an approval": {
			clients: wait, calls: []v1alpha1.ToolCall{next, guarded}, concurrency: sequential,
		},
		"approved": {clients: wait, calls: []v1alpha1.ToolCall{approved}},
		"approved, behind another": {
			clients: wait, calls: []v1alpha1.ToolCall{guarded, approved}, concurrency: sequential, want: true,
		},
		"rejected": {clients: wait, calls: []v1alpha1.ToolCall{guarded}, outcomes: rejected},
	} {
		if got := knowing(test.outcomes).WaitsForOthers(test.calls, test.clients, test.concurrency); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A missing Secret is looked for again later and later, and at once in a process that is notified of new ones.
func TestWhenAMissingSecretIsLookedForAgain(t *testing.T) {
	call := pendingCall("1-0", v1alpha1.ToolExecutorHTTP)
	missing := &MissingSecret{Tool: "t", Reason: v1alpha1.ReasonSecretMissing, Problem: "It is not there."}
	calls, step, now := []v1alpha1.ToolCall{call}, &Step{}, moment
	looks := func(local bool) bool {
		step.Local = local
		round := NewRound(step, calls, Facts{})
		did := driver{}.drive(t, round, now)
		if found := strings.Contains(did, "CheckSecrets{[0]}"); found || round.WakeAt().After(now) {
			return found
		}
		t.Fatalf("neither looked for nor due later: %s", did)
		return false
	}
	for look, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		next := step.Withhold(&calls[0], missing, now)
		if next.Sub(now) != want || len(step.Missing(calls)) != 1 || calls[0].Reason != missing.Reason {
			t.Fatalf("check %d: the next one comes after %v, the call is %+v", look, next.Sub(now), calls[0])
		}
		if looks(false) || !looks(true) {
			t.Errorf("check %d: checked too early, or not in a process that is notified", look)
		}
		if now = next; !looks(false) {
			t.Errorf("check %d: not checked when it is due", look)
		}
	}
	for range 20 {
		step.Withhold(&calls[0], missing, now)
	}
	moved := *missing
	if moved.Reason = v1alpha1.ReasonToolsNotDiscovered; !step.Withhold(&calls[0], &moved, now).After(now) ||
		len(step.Missing(calls)) != 1 {
		t.Errorf("a call of an MCPServer that has moved is %+v", calls[0])
	}
	if next := step.Withhold(&calls[0], missing, now); next.Sub(now) != lastSecretCheck {
		t.Errorf("the last pause is %v", next.Sub(now))
	}
	step.Release(&calls[0])
	if len(step.Missing(calls)) != 0 || calls[0].Reason != "" {
		t.Errorf("released, the call is %+v", calls[0])
	}
	if next := step.Withhold(&calls[0], missing, now); next.Sub(now) != firstSecretCheck {
		t.Errorf("after it was there, the pause is %v", next.Sub(now))
	}
}
