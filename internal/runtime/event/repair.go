package event

// CallState is the known state of a tool call that has no result in the transcript (DUR-03, DUR-08).
type CallState int

const (
	// CallNotRecorded: nothing was ever started for the call.
	CallNotRecorded CallState = iota
	// CallSettled: the call has an outcome, which the transcript lacks.
	CallSettled
	// CallInterrupted: the call was started, and its outcome cannot be determined.
	CallInterrupted
	// CallRunning: the call was started and may still run.
	CallRunning
	// CallLookupFailed: the state of the call could not be read.
	CallLookupFailed
	// CallUnrecorded: no record of calls is kept, so that a call without a result can only have been abandoned.
	CallUnrecorded
)

// CallRecord is the state of a call, with its outcome where there is one.
type CallRecord struct {
	// State of the call.
	State CallState
	// Result of a settled call; nil if it returned none.
	Result []Part
	// Error of a settled or interrupted call.
	Error string
}

// Lookup returns the known state of a call of an assistant message.
type Lookup func(message Message, call ToolCall) CallRecord

// Texts for the model about a tool call that has no result (DUR-08).
const (
	// SentenceInterrupted: the call was started, and its outcome cannot be determined.
	SentenceInterrupted = "The tool call was interrupted after it had started and its result is unknown. " +
		"It was not run again."
	// SentenceUncertain: the call may still run.
	SentenceUncertain = "The outcome of this tool call is uncertain: it was started and no result was recorded. " +
		"Do not retry it."
	// SentenceNotExecuted: the call was never started.
	SentenceNotExecuted = "This tool call was not executed. It is safe to retry it."
	// SentenceStatusUnknown: the state of the call could not be read.
	SentenceStatusUnknown = "The status of this tool call is unknown. Do not retry it."
	// SentenceCancelled: the call was abandoned.
	SentenceCancelled = "cancelled - another message came in"
)

// Repair adds a result for every tool call of an assistant message that has no later result, for the prompt alone:
// neither the given messages nor the journal change (DUR-08). lookup determines the content; without it, calls count as
// cancelled. Added results follow those that the message has already. The second value lists the repairs, in order.
//
// A result belongs to the newest call before it that has its id and no result yet, because ids are unique within a turn
// only.
func Repair(messages []Message, lookup Lookup) ([]Message, []TranscriptRepaired) {
	missing := callsWithoutResult(messages)
	if len(missing) == 0 {
		return messages, nil
	}
	repaired := make([]Message, 0, len(messages)+len(missing))
	var repairs []TranscriptRepaired
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		repaired = append(repaired, m)
		if len(missing[i]) == 0 {
			continue
		}
		calls := missing[i]
		for i+1 < len(messages) && messages[i+1].Role == RoleToolResult {
			i++
			repaired = append(repaired, messages[i])
		}
		for _, call := range calls {
			result, action := repair(m, call, lookup)
			repaired = append(repaired, result)
			repairs = append(repairs, TranscriptRepaired{ToolCallID: call.ID, ToolName: call.Name, Action: action})
		}
	}
	return repaired, repairs
}

// callsWithoutResult are the calls without a result, by the index of their message.
func callsWithoutResult(messages []Message) map[int][]ToolCall {
	type open struct{ message, call int }
	waiting := map[string][]open{}
	for i, m := range messages {
		switch m.Role {
		case RoleUser:
		case RoleAssistant:
			for j, call := range m.ToolCalls {
				waiting[call.ID] = append(waiting[call.ID], open{i, j})
			}
		case RoleToolResult:
			if stack := waiting[m.ToolCallID]; len(stack) > 0 {
				waiting[m.ToolCallID] = stack[:len(stack)-1]
			}
		}
	}
	left := map[open]bool{}
	for _, stack := range waiting {
		for _, o := range stack {
			left[o] = true
		}
	}
	missing := map[int][]ToolCall{}
	for i, m := range messages {
		for j, call := range m.ToolCalls {
			if left[open{i, j}] {
				missing[i] = append(missing[i], call)
			}
		}
	}
	return missing
}

func repair(m Message, call ToolCall, lookup Lookup) (Message, string) {
	record := CallRecord{State: CallUnrecorded}
	if lookup != nil {
		record = lookup(m, call)
	}
	// The id is a function of the repaired call, so that a prompt that is built twice is the same to the byte.
	result := Message{ID: m.ID + "/" + call.ID, Role: RoleToolResult, ToolCallID: call.ID, ToolName: call.Name}
	switch record.State {
	case CallSettled:
		result.Content, result.Error = record.Result, record.Error
		return result, ActionReplay
	case CallInterrupted:
		result.Error = record.Error
		if result.Error == "" {
			result.Error = SentenceInterrupted
		}
		return result, ActionReplay
	case CallRunning:
		result.Error = SentenceUncertain
	case CallNotRecorded:
		result.Error = SentenceNotExecuted
	case CallUnrecorded:
		result.Error = SentenceCancelled
	default:
		result.Error = SentenceStatusUnknown
	}
	return result, ActionSynthesize
}
