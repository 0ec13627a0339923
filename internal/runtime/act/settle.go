package act

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
)

// Describe writes the end of a call to status.
func Describe(call *v1alpha1.ToolCall, outcome tool.Outcome) {
	call.State, call.Reason, call.NotBefore = outcome.State, outcome.Reason, nil
	removeRequest(call)
	if call.SubAgent != nil && outcome.SubAgent != nil {
		described := *call.SubAgent
		described.Totals = outcome.SubAgent
		call.SubAgent = &described
	}
	switch {
	case outcome.Error != "":
		call.Preview = tool.ShownPreview(outcome.Error)
	case outcome.Result != nil:
		call.Preview = tool.ShownPreview(content.Preview(*outcome.Result))
	}
}

// Show writes the known end of a call to status, if there is one, and reports whether there is. The pod that the call
// ran in may be known from the journal alone.
func (s *Step) Show(call *v1alpha1.ToolCall) bool {
	row := s.find(call.ID)
	if row == nil || row.Outcome == nil {
		return false
	}
	Describe(call, *row.Outcome)
	if call.PodUID == "" {
		call.PodUID = row.RecordedOutcome.Call.PodUID
	}
	return true
}

// KeepPods adds the pods that an earlier status has recorded to calls that have none, unless it was that of an earlier
// attempt. A manager that was paused may know of fewer attempts.
func KeepPods(calls, before []v1alpha1.ToolCall) {
	recorded := map[string]v1alpha1.ToolCall{}
	for _, call := range before {
		if call.PodUID != "" {
			recorded[call.ID] = call
		}
	}
	for i := range calls {
		call := &calls[i]
		if was, known := recorded[call.ID]; known && call.PodUID == "" && call.Attempt <= was.Attempt {
			call.PodUID, call.PodName = was.PodUID, was.PodName
		}
	}
}

// Settle records the end of a call, shows it in status, and returns it. It is only "not executed" if no attempt of the
// call may have started.
func (s *Step) Settle(call *v1alpha1.ToolCall, outcome tool.Outcome) tool.Outcome {
	row := s.Row(call.ID)
	if row.UnstartedAttempts < call.Attempt-1-restarts(*call) {
		outcome = tool.WithEarlierAttempts(*call, outcome)
	}
	if Withdrawable(*call) && outcome.State == v1alpha1.ToolCallStateNotExecuted {
		row.Unfenced = true
	}
	row.Outcome, row.Cut, row.MissingSecret = &outcome, false, nil
	Describe(call, outcome)
	return outcome
}

// Retries reports whether a call continues with another attempt after this outcome, and plans it. Its number and time
// are an intent: they are in status before it starts, so that they survive a restart or a change of the leader. An
// AtMostOnce call has one attempt.
func (s *Step) Retries(call *v1alpha1.ToolCall, ended tool.Outcome, now time.Time) bool {
	if !WillRetry(*call, ended) {
		return false
	}
	if ended.State == v1alpha1.ToolCallStateNotExecuted {
		s.Row(call.ID).UnstartedAttempts++
	}
	notBefore := metav1.NewTime(now.Add(RetryPause(call.Attempt - restarts(*call))))
	call.NotBefore = &notBefore
	call.Attempt++
	call.State, call.Reason, call.PodName = v1alpha1.ToolCallStatePending, ended.Reason, ""
	return true
}

// WillRetry reports whether a call continues with another attempt after this outcome.
func WillRetry(call v1alpha1.ToolCall, ended tool.Outcome) bool {
	return ended.Retryable && !tool.AtMostOnce(call) && call.Attempt-restarts(call) < MaxAttempts
}

// Refuse settles a call that was planned as refused.
func (s *Step) Refuse(call *v1alpha1.ToolCall) tool.Outcome {
	return s.Settle(call, tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: call.Reason, Error: s.Plan(call.ID).Refusal,
	})
}

// Fence drops the outcomes that another leader has overtaken by recording a pod or a sub-agent of a call that this
// process considers not executed.
func (s *Step) Fence(calls []v1alpha1.ToolCall) {
	for _, call := range calls {
		if row := s.find(call.ID); row != nil && row.Unfenced && recorded(call) {
			row.Outcome, row.Unfenced = nil, false
		}
	}
}

// maxUnread is how often the log of a container may fail to be read.
const maxUnread = 11

// LogLost reports whether the output of a call is lost, after a log of it could not be read. A log without the result,
// or none, is read once more, because it may lag the end of its container. Any other failure is one of the network, the
// API server or the node, and may be transient; with the pauses between them, maxUnread attempts take a minute and a
// half.
func (r *Row) LogLost(missing bool) bool {
	if missing {
		again := r.misread
		r.misread = true
		return again
	}
	r.unread++
	return r.unread >= maxUnread
}
