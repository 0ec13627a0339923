package plan

import "time"

// SessionStatus is a session status as events spell it (LIFE-08).
type SessionStatus string

const (
	// StatusActive means that a turn is running.
	StatusActive SessionStatus = "active"
	// StatusIdle means that no turn is running. A failed turn leaves its session idle too.
	StatusIdle SessionStatus = "idle"
	// StatusWaitingForToolResults means that the turn waits for results from outside.
	StatusWaitingForToolResults SessionStatus = "waiting_for_tool_results"
)

// Effect is one lifecycle operation that a decision asks the host for: EffectSetStatus, or an Event.
type Effect interface {
	isEffect()
}

// Event is an Effect that emits an event. Its JSON form is the event's data. The event context is that of the turn: its
// TurnID and InputMessageID, without execution or span ids.
type Event interface {
	Effect
	// EventType is the wire name of the event, such as turn.completed.
	EventType() string
}

// EffectSetStatus sets the session status.
type EffectSetStatus struct {
	Status SessionStatus
}

// EffectSessionActivated emits session.activated (LIFE-01).
type EffectSessionActivated struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
}

// EffectTurnStarted emits turn.started (LIFE-01).
type EffectTurnStarted struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
	// InputContent is the text of the user message; empty when it could not be read.
	InputContent string `json:"input_content,omitempty"`
}

// EffectTurnCompleted emits turn.completed (LIFE-03).
type EffectTurnCompleted struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"-"`
	// Iterations is the number of the last reason step.
	Iterations uint32 `json:"iterations"`
	// DurationMS is the time since process_input in milliseconds; nil when unknown.
	DurationMS *int64 `json:"duration_ms,omitempty"`
	// Usage is that of the whole turn; nil when none was reported.
	Usage              *Usage `json:"usage,omitempty"`
	FinalMessageID     string `json:"final_message_id,omitempty"`
	FinalAnswerPreview string `json:"final_answer_preview,omitempty"`
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
	ToolCallCount      uint32 `json:"tool_call_count"`
	LLMCallCount       uint32 `json:"llm_call_count"`
	// Status is always "completed".
	Status string `json:"status"`
	// StopReason is in wire form, such as max_turn_requests.
	StopReason string `json:"stop_reason"`
}

// EffectTurnFailed emits turn.failed (LIFE-06).
type EffectTurnFailed struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"-"`
	// Error is the sentence for the user.
	Error string `json:"error"`
	// Code and Fields are the classification; Fields is omitted when empty (ERR-03).
	Code   ErrorCode      `json:"error_code"`
	Fields map[string]any `json:"error_fields,omitempty"`
}

// EffectSessionIdled emits session.idled (LIFE-04). Iterations and Usage are nil after a failed turn (LIFE-06).
type EffectSessionIdled struct {
	TurnID         string  `json:"turn_id"`
	InputMessageID string  `json:"-"`
	Iterations     *uint32 `json:"iterations,omitempty"`
	Usage          *Usage  `json:"usage,omitempty"`
}

// EventType is session.activated.
func (EffectSessionActivated) EventType() string { return "session.activated" }

// EventType is turn.started.
func (EffectTurnStarted) EventType() string { return "turn.started" }

// EventType is turn.completed.
func (EffectTurnCompleted) EventType() string { return "turn.completed" }

// EventType is turn.failed.
func (EffectTurnFailed) EventType() string { return "turn.failed" }

// EventType is session.idled.
func (EffectSessionIdled) EventType() string { return "session.idled" }

func (EffectSetStatus) isEffect()        {}
func (EffectSessionActivated) isEffect() {}
func (EffectTurnStarted) isEffect()      {}
func (EffectTurnCompleted) isEffect()    {}
func (EffectTurnFailed) isEffect()       {}
func (EffectSessionIdled) isEffect()     {}

// Started is what the host applies when a turn begins, before it runs the input activity (LIFE-01). It is the one
// sequence that no decision returns. inputContent is the text of the user message, empty when it could not be read.
func Started(state State, inputContent string) []Effect {
	return []Effect{
		EffectSetStatus{Status: StatusActive},
		EffectSessionActivated{TurnID: state.TurnID, InputMessageID: state.InputMessageID},
		EffectTurnStarted{TurnID: state.TurnID, InputMessageID: state.InputMessageID, InputContent: inputContent},
	}
}

// completedEffects ends a turn well (LIFE-05): the event first, then the status, then session.idled.
func completedEffects(state State, reason StopReason, now time.Time) []Effect {
	iterations := state.Iteration
	return []Effect{
		EffectTurnCompleted{
			TurnID:             state.TurnID,
			InputMessageID:     state.InputMessageID,
			Iterations:         iterations,
			DurationMS:         state.durationMS(now),
			Usage:              state.Usage,
			FinalMessageID:     state.LastOutputMessageID,
			FinalAnswerPreview: state.FinalAnswerPreview,
			TimeToFirstTokenMS: state.TimeToFirstTokenMS,
			ToolCallCount:      state.ToolCallCount,
			LLMCallCount:       state.LLMCallCount,
			Status:             "completed",
			StopReason:         reason.Wire(),
		},
		EffectSetStatus{Status: StatusIdle},
		EffectSessionIdled{
			TurnID:         state.TurnID,
			InputMessageID: state.InputMessageID,
			Iterations:     &iterations,
			Usage:          state.Usage,
		},
	}
}

// failedEffects ends a turn badly (LIFE-06): the status first, then both events.
func failedEffects(state State, text string, failure Failure) []Effect {
	return []Effect{
		EffectSetStatus{Status: StatusIdle},
		EffectTurnFailed{
			TurnID:         state.TurnID,
			InputMessageID: state.InputMessageID,
			Error:          text,
			Code:           failure.Code,
			Fields:         failure.Fields,
		},
		EffectSessionIdled{TurnID: state.TurnID, InputMessageID: state.InputMessageID},
	}
}
