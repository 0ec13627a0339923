package act

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhichAttemptsAProcessHasWritten(t *testing.T) {
	calls := func(first, second int32) []v1alpha1.ToolCall {
		return []v1alpha1.ToolCall{{ID: "1-0", Attempt: first}, {ID: "1-1", Attempt: second}}
	}
	for name, test := range map[string]struct {
		before, now   []v1alpha1.ToolCall
		first, second int32
	}{
		"a new step":       {nil, calls(1, 0), 1, 0},
		"nothing new":      {calls(1, 2), calls(1, 2), 0, 0},
		"a second attempt": {calls(1, 1), calls(2, 1), 2, 0},
		"an approved call": {calls(1, 0), calls(1, 1), 0, 1},
		"an older attempt": {calls(3, 0), calls(2, 0), 0, 0},
	} {
		step := &Step{}
		step.Intend(test.before, test.now)
		if first, second := step.Row(
			"1-0",
		).IntendedAttempt, step.Row(
			"1-1",
		).IntendedAttempt; first != test.first ||
			second != test.second {
			t.Errorf("%s: %d and %d, want %d and %d", name, first, second, test.first, test.second)
		}
	}
}

// Rules: CLIENT-01.
func TestOnlyCallsThatTheManagerCarriesOutStart(t *testing.T) {
	for executor, want := range map[v1alpha1.ToolExecutor]bool{
		v1alpha1.ToolExecutorJob:     true,
		v1alpha1.ToolExecutorHTTP:    true,
		v1alpha1.ToolExecutorBuiltin: true,
		v1alpha1.ToolExecutorClient:  false,
		v1alpha1.ToolExecutorNone:    false,
	} {
		call := v1alpha1.ToolCall{ID: "1-0", Executor: executor, Attempt: 1, State: v1alpha1.ToolCallStatePending}
		if starts := chosen([]v1alpha1.ToolCall{call}, "", 0); (len(starts) == 1) != want {
			t.Errorf("%s: the calls %v start", executor, starts)
		}
	}
}
