package tool

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// startedEarlier is the reason of an outcome after an attempt that may have started.
const startedEarlier = "An earlier attempt of the tool was interrupted and may have done part of its work. "

// WithEarlierAttempts is the outcome of a call in view of the attempts before the last one: it is only "not executed"
// when no attempt of it may have started. A tool that needs a connection reports what its last attempt has done, and
// nothing about those before it.
func WithEarlierAttempts(call v1alpha1.ToolCall, outcome Outcome) Outcome {
	switch {
	case call.Attempt <= 1:
		return outcome
	case outcome.Reason == v1alpha1.ToolCallReasonConnectionRequired && !strings.HasPrefix(outcome.Error, startedEarlier):
		outcome.Error = startedEarlier + strings.Replace(outcome.Error, toolDidNothing, lastDidNothing, 1)
		return outcome
	case outcome.State != v1alpha1.ToolCallStateNotExecuted:
		return outcome
	}
	why := strings.TrimSuffix(outcome.Error, changedNothing)
	why = strings.Replace(why, toolNotExecuted, "The last attempt was not executed", 1)
	outcome.State = v1alpha1.ToolCallStateFailed
	outcome.Error = startedEarlier + why + " It is safe to call it again."
	return outcome
}

// startedElsewhere is the reason of an outcome after an attempt that another process of the manager may have started.
const startedElsewhere = "Another manager process may have started the tool, which may do part of its work. "

// PerhapsStarted is the outcome of a call that this process has not executed and that an earlier process of the manager
// may have started: its request for a Job may arrive at any time. The Job of a call that may be withdrawn then starts
// nothing.
func PerhapsStarted(outcome Outcome) Outcome {
	why := strings.TrimSuffix(outcome.Error, changedNothing)
	why = strings.Replace(why, toolNotExecuted, "It was not started again", 1)
	outcome.State = v1alpha1.ToolCallStateFailed
	outcome.Error = startedElsewhere + why + " It is safe to call it again."
	return outcome
}
