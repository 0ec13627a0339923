package act

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// What a new process makes of a call that is settled in status and has no Job any more.
func TestWhatIsRecalledFromStatus(t *testing.T) {
	const pending, failed = v1alpha1.ToolCallStatePending, v1alpha1.ToolCallStateFailed
	const succeeded, unknown = v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateUnknown
	for name, test := range map[string]struct {
		class      v1alpha1.SideEffect
		state      v1alpha1.ToolCallState
		repeatable bool // handled without a look at the Job
		want       v1alpha1.ToolCallState
	}{
		"Pure that succeeded":       {v1alpha1.SideEffectPure, succeeded, true, pending},
		"Idempotent that succeeded": {v1alpha1.SideEffectIdempotent, succeeded, true, pending},
		"Pure that failed":          {v1alpha1.SideEffectPure, failed, true, failed},
		"Pure that is open":         {v1alpha1.SideEffectPure, pending, false, pending},
		"AtMostOnce, succeeded":     {v1alpha1.SideEffectAtMostOnce, succeeded, false, failed},
		"AtMostOnce, unknown":       {v1alpha1.SideEffectAtMostOnce, unknown, false, unknown},
		"no class":                  {"", succeeded, false, failed},
		"AtMostOnce that is open":   {v1alpha1.SideEffectAtMostOnce, pending, false, pending},
	} {
		step, call := &Step{}, v1alpha1.ToolCall{
			ID: "1-0", Executor: v1alpha1.ToolExecutorJob, SideEffect: test.class, State: test.state, PodUID: "pod",
			Attempt: 1, Preview: "so",
		}
		repeatable := step.RecallRepeatable(&call)
		if repeatable != test.repeatable {
			t.Errorf("%s: handled as repeatable: %v", name, repeatable)
		}
		if !repeatable && step.RecallSettled(&call) == (test.state == pending) {
			t.Errorf("%s: settled from status: %v", name, test.state == pending)
		}
		if call.State != test.want || step.Done("1-0") != (test.want != pending) {
			t.Errorf("%s: %s, settled %v; want %s", name, call.State, step.Done("1-0"), test.want)
		}
	}
}

func TestARequestOfAnEarlierProcessIsSentAgain(t *testing.T) {
	for state, want := range map[v1alpha1.ToolCallState]v1alpha1.ToolCallState{
		v1alpha1.ToolCallStatePending:   v1alpha1.ToolCallStatePending,
		v1alpha1.ToolCallStateRunning:   v1alpha1.ToolCallStatePending,
		v1alpha1.ToolCallStateSucceeded: v1alpha1.ToolCallStatePending,
		v1alpha1.ToolCallStateWaiting:   v1alpha1.ToolCallStateWaiting,
	} {
		call := v1alpha1.ToolCall{State: state, Reason: "so"}
		RestartRequest(&call)
		if call.State != want || (call.Reason == "") != (state != want) {
			t.Errorf("%s: %s (%s), want %s", state, call.State, call.Reason, want)
		}
	}
}

func TestADeletedPodExplainsACallThatDidNotStart(t *testing.T) {
	step, why := &Step{}, tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Reason: "Unschedulable"}
	step.Row("1-0").StartFailure = &why
	for state, want := range map[v1alpha1.ToolCallState]string{
		v1alpha1.ToolCallStateNotExecuted: "Unschedulable", v1alpha1.ToolCallStateSucceeded: "own",
	} {
		if got := step.ExplainDeletion("1-0", tool.Outcome{State: state, Reason: "own"}); got.Reason != want {
			t.Errorf("%s: %s, want %s", state, got.Reason, want)
		}
	}
	if got := step.ExplainDeletion("1-1", tool.Outcome{State: why.State, Reason: "own"}); got.Reason != "own" {
		t.Errorf("another call is explained by %s", got.Reason)
	}
}
