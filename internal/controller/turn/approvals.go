package turn

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
)

// hasApprovals reports whether the step has calls that need approval.
func hasApprovals(calls []v1alpha1.ToolCall) bool {
	for _, call := range calls {
		if call.Policy == v1alpha1.ToolPolicyRequiresApproval {
			return true
		}
	}
	return false
}

// decidesInTime reports whether the ToolResult decides about exactly this call of the Turn before its approval times
// out. If the manager was down meanwhile, the creation time of the ToolResult counts.
func decidesInTime(result *v1alpha1.ToolResult, turn *v1alpha1.Turn, call v1alpha1.ToolCall, now time.Time) bool {
	if result.Spec.Decision == "" || !toolresult.Binds(result, turn, &call) {
		return false
	}
	by := call.ApproveBy
	return by == nil || now.Before(by.Time) || !result.CreationTimestamp.After(by.Time)
}

// approves reports whether one of the ToolResults approves a call, so that together they do not complete the step.
func approves(offered map[int]*v1alpha1.ToolResult) bool {
	for _, result := range offered {
		if result.Spec.Decision == v1alpha1.DecisionApprove {
			return true
		}
	}
	return false
}

// approve lets a call start whose approval is in the journal. Its status is an intent like any other: it is written
// before anything starts.
func (a *actScope) approve(index int) {
	if call := &a.turn.Status.ToolCalls[index]; tool.Unapproved(*call) {
		tool.Approve(call)
		a.approved = true
	}
}

// timeOut ends the calls without a decision in time. The journal does not have this before the step is closed: if
// another process appends an approval meanwhile, the closing entry is refused as stale.
func (a *actScope) timeOut(offered map[int]*v1alpha1.ToolResult, now time.Time) {
	for i, call := range a.calls() {
		_, done := a.step.outcomes[call.ID]
		switch {
		case done || !tool.Unapproved(call) || offered[i] != nil || host.WasGivenUp(call):
		case call.State.Settled():
			// The status has it already, from before a restart. A clock that is behind does not revert it.
			a.settle(i, tool.ApprovalTimedOut())
		case call.ApproveBy == nil:
		case now.Before(call.ApproveBy.Time):
			a.deadline(call.ApproveBy.Time)
		default:
			a.settle(i, tool.ApprovalTimedOut())
		}
	}
}

// beginApproved records in status that calls were approved, so that the next round starts them.
func (r *Reconciler) beginApproved(ctx context.Context, a *actScope) (flow, error) {
	r.show(a)
	return r.write(ctx, a.scope, writeApproval)
}
