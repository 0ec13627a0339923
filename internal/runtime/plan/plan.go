package plan

import "encoding/json"

// Plan is the next step of a turn: exactly one of ScheduleReason, ScheduleAct, Complete and WaitForToolResults
// (TURN-02).
type Plan interface {
	isPlan()
}

// ScheduleReason runs a reason step with this state.
type ScheduleReason struct {
	State State
}

// ScheduleAct runs an act step (TURN-06). The host mints the execution id of the step and reads the session's blueprint
// itself; it hands State back unchanged when the step has ended, so that the next reason step knows the response id.
type ScheduleAct struct {
	// State has the iteration of the reason step that asked for the calls, and that step's response id.
	State State
	// ToolCalls are the calls to make, in the model's order. The list may be empty.
	ToolCalls []ToolCall
	// ToolDefinitions, Locale and NetworkAccess are copied from the reason result.
	ToolDefinitions []json.RawMessage
	Locale          string
	NetworkAccess   json.RawMessage
}

// Complete ends the turn.
type Complete struct {
	// State is the last state, with the summary of the whole turn.
	State State
	// Error is the technical error text: that of the reason result, or GenericError when a failed step gave none. It is
	// empty after a blocked act. StopReason, not Error, says whether the turn failed.
	Error string
	// StopReason is why the turn ended.
	StopReason StopReason
	// Failure classifies the failure; nil if, and only if, the turn succeeded.
	Failure *Failure
}

// Succeeded reports whether the turn ended well, which includes having reached the iteration limit (TURN-14).
func (c Complete) Succeeded() bool {
	return !c.StopReason.Failed()
}

// WaitForToolResults starts nothing: the host persists Resume and goes on with a reason step in that state when the
// results have arrived (CLIENT-03).
type WaitForToolResults struct {
	Resume State
}

func (ScheduleReason) isPlan()     {}
func (ScheduleAct) isPlan()        {}
func (Complete) isPlan()           {}
func (WaitForToolResults) isPlan() {}

// Outcome is one decision: the plan, and the lifecycle effects that the host applies in this order (none for most
// decisions). The effects of an Outcome end a turn at most once; they are empty when the step had emitted the terminal
// events itself.
type Outcome struct {
	Plan    Plan
	Effects []Effect
}
