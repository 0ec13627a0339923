package tooloutput

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// attempt identifies an attempt of a call.
type attempt struct {
	turn    types.UID
	step    int32
	call    string
	attempt int32
}

// running returns the calls of the open step of a Turn whose containers run, according to its status, by attempt.
func running(turn *v1alpha1.Turn) map[attempt]v1alpha1.ToolCall {
	plan := turn.Status.Plan
	if plan == nil || plan.Phase != v1alpha1.PlanPhaseAct || queue.Finished(turn) || turn.DeletionTimestamp != nil {
		return nil
	}
	calls := map[attempt]v1alpha1.ToolCall{}
	for _, call := range turn.Status.ToolCalls {
		if call.Executor == v1alpha1.ToolExecutorJob && call.State == v1alpha1.ToolCallStateRunning {
			calls[attempt{turn.UID, plan.Step, call.ID, max(call.Attempt, 1)}] = call
		}
	}
	return calls
}
