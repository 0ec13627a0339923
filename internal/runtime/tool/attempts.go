package tool

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// WithEarlierAttempts is the outcome of a call in view of the attempts before the last one: it is only "not executed"
// when no attempt of it may have started.
func WithEarlierAttempts(call v1alpha1.ToolCall, outcome Outcome) Outcome {
	if call.Attempt <= 1 || outcome.State != v1alpha1.CallNotExecuted {
		return outcome
	}
	why := strings.TrimSuffix(outcome.Error, changedNothing)
	why = strings.Replace(why, toolNotExecuted, "The last attempt was not executed", 1)
	outcome.State = v1alpha1.CallFailed
	outcome.Error = "An earlier attempt of the tool was interrupted and may have done part of its work. " + why +
		" It is safe to call it again."
	return outcome
}
