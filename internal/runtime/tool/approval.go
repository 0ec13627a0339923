package tool

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// DefaultApprovalTimeout is how long a call may wait for its approval if its Tool does not set a timeout.
const DefaultApprovalTimeout = 24 * time.Hour

// ApproveBy returns the latest time at which a call that is planned now can be approved, to the second and never
// earlier than the timeout of its tool; nil if the policy of the tool demands no approval.
func ApproveBy(policy v1alpha1.ToolPolicy, timeout *metav1.Duration, now time.Time) *metav1.Time {
	if policy != v1alpha1.ToolPolicyRequiresApproval {
		return nil
	}
	by := metav1.NewTime(now.Add(positive(timeout, DefaultApprovalTimeout) + time.Second - 1).Truncate(time.Second))
	return &by
}

// Unapproved reports whether a call requires approval and was not approved: it has no attempt, so that nothing of it
// may start.
func Unapproved(call v1alpha1.ToolCall) bool {
	return call.Policy == v1alpha1.ToolPolicyRequiresApproval && call.Attempt == 0
}

// AwaitsApproval reports whether a call can still be approved.
func AwaitsApproval(call v1alpha1.ToolCall) bool {
	return Unapproved(call) && !call.State.Settled()
}

// Approve lets a call start: it becomes an ordinary call with its first attempt.
func Approve(call *v1alpha1.ToolCall) {
	Asked(call)
	call.Attempt, call.State, call.Reason, call.Preview = 1, v1alpha1.ToolCallStatePending, "", ""
}

// Asked removes the fields for approvers and clients from a call that does not wait any more.
func Asked(call *v1alpha1.ToolCall) {
	call.CallDigest, call.ApproveBy, call.Arguments = "", nil, ""
}

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

// Held reports for each call whether it must wait for an approval or a Secret, its own or another's: in Sequential no
// call overtakes one that waits, and in Parallel no call of its concurrencyClass does, so that calls start in the
// model's order. Calls that run or have ended, and those of client tools, are not held.
func Held(calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency) []bool {
	held := make([]bool, len(calls))
	classes, waits := map[string]bool{}, false
	for i := range calls {
		call := &calls[i]
		switch {
		case AwaitsApproval(*call), Withheld(*call):
			held[i], waits = true, true
			classes[call.ConcurrencyClass] = call.ConcurrencyClass != ""
		case !open(call) || running(call):
		case concurrency == v1alpha1.ToolConcurrencySequential:
			held[i] = waits
		default:
			held[i] = classes[call.ConcurrencyClass]
		}
	}
	return held
}
