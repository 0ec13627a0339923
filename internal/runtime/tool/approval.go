package tool

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// DefaultApprovalTimeout is how long a call may wait for its approval when its Tool does not say.
const DefaultApprovalTimeout = 24 * time.Hour

// ApproveBy is until when a call that is planned now can be approved, to the second and never less than its Tool says;
// nil when calls of the Tool need no approval.
func ApproveBy(spec *v1alpha1.ToolSpec, now time.Time) *metav1.Time {
	if spec.Policy != v1alpha1.PolicyRequiresApproval {
		return nil
	}
	timeout := DefaultApprovalTimeout
	if given := spec.ApprovalTimeout; given != nil && given.Duration > 0 {
		timeout = given.Duration
	}
	by := metav1.NewTime(now.Add(timeout + time.Second - 1).Truncate(time.Second))
	return &by
}

// Unapproved reports whether a call needs approval and nothing has approved it: it has no attempt, so that nothing of
// it may start.
func Unapproved(call v1alpha1.ToolCall) bool {
	return call.Policy == v1alpha1.PolicyRequiresApproval && call.Attempt == 0
}

// AwaitsApproval reports whether a call can still be approved.
func AwaitsApproval(call v1alpha1.ToolCall) bool {
	return Unapproved(call) && !call.State.Settled()
}

// Approve lets a call start: it becomes one like any other, with its first attempt.
func Approve(call *v1alpha1.ToolCall) {
	Asked(call)
	call.Attempt, call.State, call.Reason, call.Preview = 1, v1alpha1.CallPending, "", ""
}

// Asked takes out of a call what only those who are asked about it need: it waits no longer.
func Asked(call *v1alpha1.ToolCall) {
	call.CallDigest, call.ApproveBy, call.Arguments = "", nil, ""
}

// Rejected is the outcome of a call that somebody rejected.
func Rejected() Outcome {
	return Outcome{State: v1alpha1.CallNotExecuted, Reason: ReasonRejected, Error: sentence("The tool was not executed", "its approval was refused") +
		" It has changed nothing. Do not call it again with the same arguments unless you are told to."}
}

// ApprovalTimedOut is the outcome of a call that nobody approved in time.
func ApprovalTimedOut() Outcome {
	return notExecuted(ReasonApprovalTimeout, "it needs approval, and nobody approved it in time")
}

// Held says of each call whether it must wait for an approval, its own or another's: in Sequential nothing overtakes a
// call that waits for approval, and in Parallel nothing of its concurrencyClass does, so that calls start in the order
// in which the model made them. Calls that run or have ended, and those of client tools, are not held.
func Held(calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency) []bool {
	held := make([]bool, len(calls))
	classes, waits := map[string]bool{}, false
	for i := range calls {
		call := &calls[i]
		switch {
		case AwaitsApproval(*call):
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
