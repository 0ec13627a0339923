package act

import (
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Startable returns the calls that may start now, in order (TOOL-12), and when the next one may whose attempt is to
// come later; zero for none.
func Startable(
	calls []v1alpha1.ToolCall, concurrency v1alpha1.ToolConcurrency, now time.Time,
) (due []int, next time.Time) {
	for _, index := range chosen(calls, concurrency, MaxConcurrency) {
		if at := calls[index].NotBefore; at != nil && now.Before(at.Time) {
			next = Earlier(next, at.Time)
			continue
		}
		due = append(due, index)
	}
	return due, next
}

// Start shows that the process carries out a call from now on.
func Start(call *v1alpha1.ToolCall) {
	call.State, call.Reason, call.NotBefore = v1alpha1.ToolCallStateRunning, "", nil
}

// Intend records the attempts that this process has written to a status which had the calls of before.
func (s *Step) Intend(before, now []v1alpha1.ToolCall) {
	for i, call := range now {
		known := int32(0)
		if i < len(before) {
			known = before[i].Attempt
		}
		if call.Attempt > known {
			s.Row(call.ID).IntendedAttempt = call.Attempt
		}
	}
}

// InProgress reports whether a call that has no outcome has begun. exists reports whether a Job of the call may exist.
// A call whose pod is gated and not recorded has not begun: it is withdrawn.
func (s *Step) InProgress(call v1alpha1.ToolCall, exists bool) bool {
	switch {
	case s.Done(call.ID), AwaitsInput(call):
		return false
	case inProcess(call, s.Local):
		return call.State == v1alpha1.ToolCallStateRunning
	case call.Executor == v1alpha1.ToolExecutorAgent:
		return recorded(call)
	default:
		return call.Executor == v1alpha1.ToolExecutorJob && !Withdrawable(call) && exists
	}
}

// Requested reports whether a call that a process carries out itself has begun, according to the status.
func Requested(calls []v1alpha1.ToolCall) bool {
	for _, call := range calls {
		if executors.InProcess(call.Executor) && !Unapproved(call) &&
			(call.State != v1alpha1.ToolCallStatePending || call.Attempt > 1) {
			return true
		}
	}
	return false
}

// RecordsPod reports whether the pod of a call starts only once its UID is in status, and it is not there.
func RecordsPod(call v1alpha1.ToolCall) bool {
	return call.Executor == v1alpha1.ToolExecutorJob && AwaitsWithdrawal(call)
}

// RecordsSubAgent reports whether a call runs as a sub-agent whose Session is not in status.
func RecordsSubAgent(call v1alpha1.ToolCall) bool {
	return call.Executor == v1alpha1.ToolExecutorAgent && AwaitsWithdrawal(call)
}

// RecordedSubAgent reports whether the Turn of the sub-agent of an open call may be created: its Session is in status.
func RecordedSubAgent(call v1alpha1.ToolCall) bool {
	return call.SubAgent != nil && !call.State.Settled()
}

// RecordedPod reports whether the pod of an open call may start: its UID is in status.
func RecordedPod(call v1alpha1.ToolCall) bool {
	return call.PodUID != "" && !call.State.Settled()
}
