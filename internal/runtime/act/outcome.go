package act

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// OutcomeOf returns the outcome of a call from the journal.
func OutcomeOf(call format.SettledCall) tool.Outcome {
	if call.State == "" {
		return clientOutcome(call)
	}
	outcome := tool.Outcome{
		State: call.State, Reason: call.Reason, Result: call.Result, Image: call.Image, Hooks: call.Hooks,
		Original: call.Original, SubAgent: call.SubAgent, Payment: call.Payment,
	}
	if call.Error != nil {
		outcome.Error = *call.Error
	}
	if call.StartedAt != nil {
		outcome.Started, outcome.StartedAt = true, call.StartedAt.Time
	}
	if call.FinishedAt != nil {
		outcome.FinishedAt = call.FinishedAt.Time
	}
	return outcome
}

// SettledOf returns an outcome in the form of the journal.
func SettledOf(id string, outcome tool.Outcome) format.SettledCall {
	call := format.SettledCall{
		ID: id, State: outcome.State, Reason: outcome.Reason, Result: outcome.Result, Image: outcome.Image,
		Hooks: outcome.Hooks, Original: outcome.Original, SubAgent: outcome.SubAgent,
		Payment: outcome.Payment,
	}
	if outcome.Error != "" {
		call.Error = &outcome.Error
	}
	if outcome.Started && !outcome.StartedAt.IsZero() {
		at := metav1.NewMicroTime(outcome.StartedAt)
		call.StartedAt = &at
	}
	if !outcome.FinishedAt.IsZero() {
		at := metav1.NewMicroTime(outcome.FinishedAt)
		call.FinishedAt = &at
	}
	return call
}

// rejected is the outcome of a call that was rejected.
func rejected(decision format.SettledCall) tool.Outcome {
	if decision.Error == nil {
		return tool.Rejected("")
	}
	return tool.Rejected(*decision.Error)
}

// clientOutcome is the outcome of a call with a client's result.
func clientOutcome(call format.SettledCall) tool.Outcome {
	if call.Error != nil {
		return tool.Outcome{
			State:  v1alpha1.ToolCallStateFailed,
			Reason: v1alpha1.ToolCallReasonClientError,
			Error:  *call.Error,
		}
	}
	text := ""
	if call.Result != nil {
		text = *call.Result
	}
	return tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonClientResult, Result: &text}
}

// TextBytes returns the size of the texts of an outcome.
func TextBytes(outcome tool.Outcome) int64 {
	bytes := len(outcome.Error) + len(outcome.Original)
	if outcome.Result != nil {
		bytes += len(*outcome.Result)
	}
	if outcome.Output != nil {
		bytes += len(outcome.Output.Content)
	}
	return int64(bytes)
}

// ShownOutcome returns the outcome of a call as a process states it that has only the status of the call. An outcome
// that takes no more memory than its preview stays whole.
func ShownOutcome(call v1alpha1.ToolCall, outcome tool.Outcome) tool.Outcome {
	if TextBytes(outcome) <= tool.MaxPreviewBytes {
		return outcome
	}
	Describe(&call, outcome)
	shown := tool.Recalled(call)
	shown.SubAgent, shown.Payment = outcome.SubAgent, outcome.Payment
	shown.Started, shown.StartedAt, shown.FinishedAt = outcome.Started, outcome.StartedAt, outcome.FinishedAt
	return shown
}

// NoClientOutcome is the outcome of a client call that no client answers.
func NoClientOutcome() tool.Outcome {
	return tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonNoClient, Error: event.SentenceNotExecuted,
	}
}

// HasNoClient reports whether an outcome is that of a call that no client answers. Its result is added to the next
// prompt (CLIENT-06).
func HasNoClient(outcome tool.Outcome) bool {
	return outcome.Reason == v1alpha1.ToolCallReasonNoClient
}

// abandoned is the outcome of a call that the Turn no longer waits for, because the user has sent a new message
// (CLIENT-05).
func abandoned(call v1alpha1.ToolCall) tool.Outcome {
	text := "Cancelled: user sent a new message"
	if Unapproved(call) {
		text = tool.NotExecutedText("the user sent a new message before it was approved")
	}
	return tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonSteered, Error: text}
}

// wasAbandoned reports whether the status shows the call as abandoned.
func wasAbandoned(call v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateNotExecuted && call.Reason == v1alpha1.ToolCallReasonSteered
}

// fromStatus returns the outcome of a call for which no process waits any more, from status alone.
func fromStatus(call v1alpha1.ToolCall) (tool.Outcome, bool) {
	switch {
	case wasAbandoned(call):
		return abandoned(call), true
	case call.State == v1alpha1.ToolCallStateNotExecuted && call.Reason == v1alpha1.ToolCallReasonNoClient:
		return NoClientOutcome(), true
	default:
		return tool.Outcome{}, false
	}
}

// neverStarted is the outcome of a call that nothing has started when the Turn ended.
func neverStarted() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error:  tool.NotExecutedText("the turn ended first"),
	}
}

// noResult is the outcome of a client call without a result when the Turn ended. The manager does not know what the
// client has done.
func noResult() tool.Outcome {
	return tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error: "The client provided no result before the turn ended.",
	}
}

// mayHaveRun is the outcome of a call that may have been running when the Turn ended.
func mayHaveRun() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateUnknown,
		Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error:  tool.UnknownText("the turn ended while it may have been running"),
	}
}
