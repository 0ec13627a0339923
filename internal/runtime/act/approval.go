package act

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// DefaultApprovalTimeout is how long a call may wait for its approval if its Tool does not set a timeout.
const DefaultApprovalTimeout = 24 * time.Hour

// AwaitApproval lets a call that is planned now wait for its approval, if the policy of its tool demands one, and
// reports whether it does. The latest time for the approval is to the second, and never earlier than the timeout of the
// tool.
func AwaitApproval(
	call *v1alpha1.ToolCall, policy v1alpha1.ToolPolicy, timeout *metav1.Duration, now time.Time,
) bool {
	if policy != v1alpha1.ToolPolicyRequiresApproval {
		return false
	}
	by := metav1.NewTime(now.Add(approvalTimeout(timeout) + time.Second - 1).Truncate(time.Second))
	call.Policy, call.ApproveBy = policy, &by
	call.Attempt, call.State, call.Reason = 0, v1alpha1.ToolCallStateWaiting, v1alpha1.ReasonApproval
	return true
}

func approvalTimeout(timeout *metav1.Duration) time.Duration {
	if timeout == nil || timeout.Duration <= 0 {
		return DefaultApprovalTimeout
	}
	return timeout.Duration
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
	removeRequest(call)
	call.Attempt, call.State, call.Reason, call.Preview = 1, v1alpha1.ToolCallStatePending, "", ""
}

// removeRequest removes the fields for approvers and clients from a call that does not wait any more.
func removeRequest(call *v1alpha1.ToolCall) {
	call.CallDigest, call.ApproveBy, call.Arguments, call.Hints, call.Input = "", nil, "", nil, nil
}
