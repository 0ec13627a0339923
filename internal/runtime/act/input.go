package act

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// AwaitsInput reports whether a call waits for answers to questions of its tool.
func AwaitsInput(call v1alpha1.ToolCall) bool {
	return call.Input != nil && call.State == v1alpha1.ToolCallStateWaiting
}

// AwaitsAnswer reports whether a call waits for the answer to one of these questions.
func AwaitsAnswer(call v1alpha1.ToolCall, id string) bool {
	return AwaitsInput(call) &&
		slices.ContainsFunc(call.Input.Requests, func(r v1alpha1.ToolInputRequest) bool { return r.ID == id })
}

// ShownInput returns a call as status shows it while it waits for answers to what the journal has of its tool. The
// answers that are in the journal already are taken in by ApplyRecorded.
func ShownInput(call v1alpha1.ToolCall, asked format.AskedInput) v1alpha1.ToolCall {
	call.State, call.Reason, call.NotBefore, call.CallDigest = v1alpha1.ToolCallStateWaiting, v1alpha1.ReasonInput, nil,
		asked.Digest
	if tool.AsksForConnection(asked.Requests) {
		call.Reason = v1alpha1.ReasonConnection
	}
	call.Input = &v1alpha1.ToolInput{Round: asked.Round, Requests: slices.Clone(asked.Requests)}
	call.Preview = ""
	if len(asked.Requests) > 0 {
		call.Preview = tool.ShownPreview(asked.Requests[0].Message)
	}
	return call
}

// Ask lets a call wait for answers to what its tool has asked, which the journal has. Another process may have recorded
// some of them: the journal is read again.
func (s *Step) Ask(call *v1alpha1.ToolCall, ref format.SettledRef) {
	s.Row(call.ID).addInput(ref)
	s.Read = false
	*call = ShownInput(*call, *ref.Call.Asked)
}

// addInput adds a question or an answer that the journal has, without its texts.
func (r *Row) addInput(ref format.SettledRef) {
	if ref.Ordinal == 0 || slices.ContainsFunc(r.Input, func(known format.SettledRef) bool {
		return known.Ordinal == ref.Ordinal
	}) {
		return
	}
	short := format.SettledRef{Ordinal: ref.Ordinal, Call: format.SettledCall{ID: ref.Call.ID, Source: ref.Call.Source}}
	if asked := ref.Call.Asked; asked != nil {
		short.Call.Asked = &format.AskedInput{Round: asked.Round, Digest: asked.Digest}
		for _, q := range asked.Requests {
			short.Call.Asked.Requests = append(short.Call.Asked.Requests, v1alpha1.ToolInputRequest{ID: q.ID, Mode: q.Mode})
		}
	}
	if given := ref.Call.Answered; given != nil {
		short.Call.Answered = &format.AnsweredInput{
			Round: given.Round, Answer: v1alpha1.InputAnswer{ID: given.Answer.ID, Action: given.Answer.Action},
		}
	}
	r.Input = append(r.Input, short)
}

// action returns the answer to a question that the journal has, and whether it has one.
func (r *Row) action(round int32, question string) (v1alpha1.InputAction, bool) {
	for _, ref := range r.Input {
		if given := ref.Call.Answered; given != nil && given.Round == round && given.Answer.ID == question {
			return given.Answer.Action, true
		}
	}
	return "", false
}

// Connections returns the providers that the tool of a call has reported to need a connection to, in this order.
func (s *Step) Connections(id string) []string {
	var names []string
	for _, ref := range s.copyOf(id).Input {
		if asked := ref.Call.Asked; asked != nil && tool.AsksForConnection(asked.Requests) {
			names = append(names, asked.Requests[0].ID)
		}
	}
	return names
}

// applyAnswers removes the questions of a call whose answers the journal has. The call may continue once none is left.
// It reports whether the call needs a further attempt for that: a Job runs once, and the next one is an intent like any
// other.
func (s *Step) applyAnswers(call *v1alpha1.ToolCall) (attempt bool) {
	row := s.find(call.ID)
	if row == nil || row.Outcome != nil || !AwaitsInput(*call) {
		return false
	}
	input := call.Input.DeepCopy()
	for _, question := range call.Input.Requests {
		action, given := row.action(input.Round, question.ID)
		if given && question.Mode == v1alpha1.ToolInputModeConnection && action != v1alpha1.InputActionAccept {
			s.Settle(call, tool.ConnectionMissing(question.ID))
			return false
		}
	}
	input.Requests = slices.DeleteFunc(input.Requests, func(r v1alpha1.ToolInputRequest) bool {
		_, given := row.action(input.Round, r.ID)
		return given
	})
	call.Input = input
	if len(input.Requests) > 0 {
		return false
	}
	removeRequest(call)
	call.State, call.Reason, call.Preview = v1alpha1.ToolCallStatePending, "", ""
	call.Input = &v1alpha1.ToolInput{Round: input.Round}
	if call.Executor != v1alpha1.ToolExecutorJob {
		return false
	}
	call.Attempt++
	call.PodUID, call.PodName = "", ""
	row.StartFailure, row.misread, row.unread = nil, false, 0
	return true
}

// restarts is how many attempts of a call before the last one were ended by its tool, which has done nothing in them.
// The last one is the one that has asked, while the call waits.
func restarts(call v1alpha1.ToolCall) int32 {
	if call.Executor != v1alpha1.ToolExecutorJob {
		return 0
	}
	rounds := tool.InputRound(call)
	if AwaitsInput(call) {
		rounds--
	}
	return min(max(rounds, 0), max(call.Attempt-1, 0))
}

// External reports whether others may take part in a call of the step: it has calls that a client answers or that need
// approval, or its tools have asked something.
func (s *Step) External(calls []v1alpha1.ToolCall) bool {
	return HasExternalCalls(calls) || s != nil && slices.ContainsFunc(s.rows, func(row *Row) bool {
		return len(row.Input) > 0
	})
}

// askedLast is the outcome of a call that had asked for input when the Turn ended. An answer may have been sent since,
// by another process.
func askedLast(call v1alpha1.ToolCall) tool.Outcome {
	what := "input of the user"
	if call.Reason == v1alpha1.ReasonConnection {
		what = "a connection"
	}
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateUnknown,
		Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error:  tool.UnknownText("the turn ended while the tool was waiting for " + what),
	}
}
