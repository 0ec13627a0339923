package act

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Which outcomes a part may have: none that another process may still overtake.
func TestWhichOutcomesAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		call  v1alpha1.ToolCall
		state v1alpha1.ToolCallState
		kept  bool
	}{
		"a Job that has succeeded": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob}, v1alpha1.ToolCallStateSucceeded, true,
		},
		"a Job that has failed": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob}, v1alpha1.ToolCallStateFailed, true,
		},
		"a Job of which nothing is known": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce},
			v1alpha1.ToolCallStateUnknown, true,
		},
		"a Job that may still start": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce},
			v1alpha1.ToolCallStateNotExecuted, false,
		},
		"a request that was answered": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorHTTP, SideEffect: v1alpha1.SideEffectPure},
			v1alpha1.ToolCallStateSucceeded, true,
		},
		"a claim of another process": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorHTTP, SideEffect: v1alpha1.SideEffectAtMostOnce},
			v1alpha1.ToolCallStateUnknown, false,
		},
		"a client's result": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorClient}, v1alpha1.ToolCallStateSucceeded, false,
		},
		"a call that was refused": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorNone}, v1alpha1.ToolCallStateNotExecuted, false,
		},
		"an approval that came in too late": {
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, Policy: v1alpha1.ToolPolicyRequiresApproval},
			v1alpha1.ToolCallStateNotExecuted, false,
		},
	} {
		test.call.ID = "1-0"
		n, _ := knowing(map[string]tool.Outcome{"1-0": {State: test.state}}).Held([]v1alpha1.ToolCall{test.call})
		if kept := n == 1; kept != test.kept {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
}

func TestWhenATurnThatRunsOnKeepsItsOutcomes(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{
		0: -1, 16 << 10: -1, 16<<10 + 1: 10 * time.Second, 256 << 10: 10 * time.Second, 256<<10 + 1: time.Second,
	} {
		at := keepAt(bytes, moment)
		if got := at.Sub(moment); want < 0 && !at.IsZero() || want >= 0 && got != want {
			t.Errorf("%d bytes: %v", bytes, got)
		}
	}
}
