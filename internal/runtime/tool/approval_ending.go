package tool

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Rejected is the outcome of a rejected call.
func Rejected() Outcome {
	return Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonRejected,
		Error: sentence("The tool was not executed", "its approval was rejected") +
			" It has changed nothing. Do not call it again with the same arguments unless you are told to.",
	}
}

// ApprovalTimedOut is the outcome of a call that was not approved in time.
func ApprovalTimedOut() Outcome {
	return notExecuted(v1alpha1.ToolCallReasonApprovalTimeout, "it requires approval and was not approved in time")
}
