package tool

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// CallChanged is the outcome of a call whose Tool has changed since it was planned. An earlier process may have started
// the call if it may start more than once.
func CallChanged(call v1alpha1.ToolCall) Outcome {
	const why = "it was changed or removed after it was called"
	if AtMostOnce(call) {
		return NotExecuted(v1alpha1.ToolCallReasonToolChanged, why)
	}
	return Failed(v1alpha1.ToolCallReasonToolChanged, InterruptedText(why))
}

// CallUnclaimed is the outcome of a call that was not started because the journal had no room for its claim.
func CallUnclaimed() Outcome {
	return NotExecuted(v1alpha1.ToolCallReasonLogFull, "the journal of the Session is full")
}

// CallAbandoned is the outcome of a call whose claim has no recorded outcome.
func CallAbandoned() Outcome {
	return AfterStart(Unknown(v1alpha1.ToolCallReasonManagerLost, "the process that ran it has ended"))
}

// Changed is the outcome of a call that has not started, and whose Tool has changed since it was planned.
func Changed() Outcome {
	return NotExecuted(v1alpha1.ToolCallReasonToolChanged, "it was changed or removed after it was called")
}

// RateLimited is the outcome of a call whose Tool or MCPServer was called as often in the last minute as it may be
// (TOOL-14).
func RateLimited(perMinute int32, retryAfter time.Duration) Outcome {
	outcome := NotExecuted(v1alpha1.ToolCallReasonRateLimited,
		fmt.Sprintf("it may be called %d times per minute, and was", perMinute))
	outcome.Error += fmt.Sprintf(" Wait at least %d seconds before you call it again.",
		max(int64((retryAfter+time.Second-1)/time.Second), 1))
	return outcome
}

// Rejected is the outcome of a rejected call. The reason is that of the user who has rejected it; empty for none.
func Rejected(reason string) Outcome {
	text := sentence("The tool was not executed", "its approval was rejected") +
		" It has changed nothing. Do not call it again with the same arguments unless you are told to."
	if reason != "" {
		text += " The reason of the user who has rejected it: " + reason
	}
	return Outcome{State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonRejected, Error: text}
}

// ApprovalTimedOut is the outcome of a call that was not approved in time.
func ApprovalTimedOut() Outcome {
	return NotExecuted(v1alpha1.ToolCallReasonApprovalTimeout, "it requires approval and was not approved in time")
}
