package act

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Open reports whether a call has no final state in status.
func Open(call v1alpha1.ToolCall) bool {
	return !call.State.Settled()
}

// WaitsForResult reports whether an open call waits for a ToolResult of the kind of this one: a decision, an answer to
// a question, or a client's result.
func WaitsForResult(call v1alpha1.ToolCall, given v1alpha1.ToolResultSpec) bool {
	if given.Input != nil {
		return AwaitsAnswer(call, given.Input.ID) && call.CallDigest == given.CallDigest
	}
	return Open(call) && !AwaitsInput(call) && AwaitsApproval(call) == (given.Decision != "")
}

// RecallRepeatable handles a Pure or Idempotent call that is settled in status, but whose Job or outcome this process
// does not have: an earlier process concluded it. A failure is restored from status; any other call is started again.
// It reports whether the call is one of these.
func (s *Step) RecallRepeatable(call *v1alpha1.ToolCall) bool {
	if Open(*call) || tool.AtMostOnce(*call) {
		return false
	}
	if call.State == v1alpha1.ToolCallStateFailed {
		s.Settle(call, tool.Recalled(*call))
		return true
	}
	call.State, call.Reason, call.Preview, call.PodName = v1alpha1.ToolCallStatePending, "", "", ""
	return true
}

// RecallSettled ends a call whose Job is gone with the outcome in status, and reports whether status has one.
func (s *Step) RecallSettled(call *v1alpha1.ToolCall) bool {
	if Open(*call) {
		return false
	}
	s.Settle(call, tool.Recalled(*call))
	return true
}

// RestartRequest lets a request start again that an earlier process has sent or concluded: requests end with their
// process, and the claim of a call decides whether it may run, or how it has ended.
func RestartRequest(call *v1alpha1.ToolCall) {
	if call.State == v1alpha1.ToolCallStateRunning || !Open(*call) {
		call.State, call.Reason, call.Preview = v1alpha1.ToolCallStatePending, "", ""
	}
}

// ExplainDeletion returns the outcome of a call with the reason for which its pod was deleted, if it has not started.
func (s *Step) ExplainDeletion(id string, outcome tool.Outcome) tool.Outcome {
	if why := s.copyOf(id).StartFailure; why != nil && outcome.State == v1alpha1.ToolCallStateNotExecuted {
		return *why
	}
	return outcome
}

// pendingReasons are those that only a call shows whose Job exists.
var pendingReasons = []string{
	v1alpha1.ToolCallReasonStarting,
	v1alpha1.ToolCallReasonSuspended,
	v1alpha1.ToolCallReasonGated,
	v1alpha1.ToolCallReasonImagePull,
	v1alpha1.ToolCallReasonStartError,
	v1alpha1.ToolCallReasonUnschedulable,
}

// HadJob reports whether status shows that the Job of the current attempt of an open call was there.
func HadJob(call v1alpha1.ToolCall) bool {
	switch call.State {
	case v1alpha1.ToolCallStateRunning:
		return true
	case v1alpha1.ToolCallStatePending:
		return call.PodName != "" || slices.Contains(pendingReasons, call.Reason)
	default:
		return false
	}
}
