package invocation

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Rules: TOOL-01.
func TestEveryExecutorOfThisProcessIsRegistered(t *testing.T) {
	b := newBench(t)
	turn, _ := acting(v1alpha1.ToolExecutorHTTP, v1alpha1.SideEffectPure)
	names := []v1alpha1.ToolExecutor{v1alpha1.ToolExecutorNone}
	for _, e := range executors.All() {
		names = append(names, e.Name)
	}
	for _, executor := range names {
		call := v1alpha1.ToolCall{ID: "1-0", Executor: executor, SideEffect: v1alpha1.SideEffectPure, Attempt: 1}
		end, err := b.CarryOut(t.Context(), turn, Call{Call: call, Attempt: NewAttempt(&Line{})})
		if (err == nil) != executors.InProcess(executor) {
			t.Errorf("executor %s: %v", executor, err)
		}
		if err == nil && end.Outcome.Reason != v1alpha1.ToolCallReasonToolChanged {
			t.Errorf("a call of executor %s whose tool was deleted ends with %+v", executor, end.Outcome)
		}
	}
}
