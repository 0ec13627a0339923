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
		if first, second := step.Of("1-0").Intended, step.Of("1-1").Intended; first != test.first || second != test.second {
			t.Errorf("%s: %d and %d, want %d and %d", name, first, second, test.first, test.second)
		}
	}
}
