package turn

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// missingGrace is how long a referenced object of a queued Turn may be missing before an Event reports it.
const missingGrace = 5 * time.Minute

// The actions of Events, which the manager takes when it records one.
const (
	actionWait = "Wait"
	actionEnd  = "End"
)

// noticesOf returns the Events for a status write: the Turn waits for people, or it has failed. They name calls and
// tools, but not their contents.
func noticesOf(before, after *v1alpha1.Turn) []notice.Notice {
	var notices []notice.Notice
	if calls := newlyWaitingCalls(before, after); len(calls) > 0 {
		reason, message := turnstate.WaitsFor(calls)
		notices = append(notices, notice.Notice{Reason: reason, Action: actionWait, Message: message})
	}
	if after.Status.Phase != v1alpha1.TurnPhaseFailed || queue.Finished(before) {
		return notices
	}
	succeeded := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionSucceeded)
	if succeeded == nil || succeeded.Reason == v1alpha1.ReasonAlreadyRan {
		return notices
	}
	return append(notices, notice.Notice{
		Warning: true, Reason: succeeded.Reason, Action: actionEnd,
		Message: "The Turn failed. See the condition Succeeded for the cause and the remedy.",
	})
}

// newlyWaitingCalls returns the calls that wait for people, if one of them did not wait before. Calls wait for client
// results once nothing else runs, and only if the Session waits for clients; they always wait for approvals and input.
func newlyWaitingCalls(before, after *v1alpha1.Turn) []v1alpha1.ToolCall {
	was := waitingCalls(before)
	now := waitingCalls(after)
	for _, call := range now {
		if !slices.ContainsFunc(was, func(c v1alpha1.ToolCall) bool { return c.ID == call.ID }) {
			return now
		}
	}
	return nil
}

// waitingCalls returns the calls of a Turn that wait for people.
func waitingCalls(turn *v1alpha1.Turn) []v1alpha1.ToolCall {
	var calls []v1alpha1.ToolCall
	for _, call := range turn.Status.ToolCalls {
		clients := turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults && call.State == v1alpha1.ToolCallStateWaiting
		if clients || act.AwaitsApproval(call) || act.AwaitsInput(call) {
			calls = append(calls, call)
		}
	}
	return calls
}

// notifyMissing records an Event about a reference of a queued Turn that has been missing for a while.
func (r *Reconciler) notifyMissing(s *scope, reason string) {
	since := s.turn.CreationTimestamp.Time
	var message string
	switch reason {
	case v1alpha1.ReasonSessionNotFound:
		message = fmt.Sprintf("Session %q does not exist.", s.turn.Spec.SessionRef.Name)
	case v1alpha1.ReasonSessionNotReady:
		ready := meta.FindStatusCondition(s.session.Status.Conditions, v1alpha1.ConditionReady)
		if at := ready.LastTransitionTime.Time; at.After(since) {
			since = at
		}
		message = fmt.Sprintf("Session %q cannot run the Turn (%s). See its condition Ready for the missing references.",
			s.session.Name, ready.Reason)
	default:
		return
	}
	if due := since.Add(missingGrace); r.Clock().Before(due) {
		s.deadline(due)
		return
	}
	r.Notices.Record(s.turn, notice.Notice{Warning: true, Reason: reason, Action: actionWait, Message: message})
}
