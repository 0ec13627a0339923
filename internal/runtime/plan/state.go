package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// DefaultMaxIterations is the number of reason steps a turn may have when neither its configuration nor the reason
	// result sets a limit (PHASE-05).
	DefaultMaxIterations uint32 = 500

	// MaxPreviewCharacters is the length, in Unicode characters, to which the final answer preview is cut (TURN-15).
	MaxPreviewCharacters = 2000

	firstIteration uint32 = 1
)

// State is what a turn carries from one step to the next (TURN-01), together with the running summary of the turn
// (TURN-15). It is a value: planning never changes the State it was given, and what its pointers refer to is never
// written to.
//
// The JSON form requires org_id, session_id, harness_id and input_message_id; the three ids must not be empty. agent_id
// is written as null when there is none; every other optional field is omitted. A missing iteration is read as 1, so
// that older payloads decode. A JSON null is the same as a missing field, and unknown fields are ignored.
type State struct {
	// OrgID is the internal number of the organisation. It is not the public organisation id.
	OrgID int64
	// SessionID, HarnessID and InputMessageID identify the session, its harness and the user message of this turn.
	SessionID, HarnessID, InputMessageID string
	// AgentID is the agent of the session; empty when it has none.
	AgentID string
	// TurnID is the id of the turn; empty until it is known. Next needs it from the first reason step on (GAP-17).
	TurnID string
	// PreviousResponseID is the provider's id of the last response, with which a provider can continue; empty when
	// there is none.
	PreviousResponseID string
	// Iteration is the 1-based number of the current reason step. It saturates at the largest uint32 (TURN-13).
	Iteration uint32
	// RequestID is an opaque trace id that is passed through unchanged; empty when there is none.
	RequestID string

	// Usage is the sum over all model calls of the turn so far; nil when no call has reported any (GAP-13).
	Usage *Usage
	// ToolCallCount is the number of tool calls planned so far.
	ToolCallCount uint32
	// LLMCallCount is the number of model calls that have answered so far: with success, or at least with usage.
	LLMCallCount uint32
	// TimeToFirstTokenMS is the first such time reported in the turn, in milliseconds; nil when there was none.
	TimeToFirstTokenMS *int64
	// LastOutputMessageID is the id of the latest assistant message; empty when there is none.
	LastOutputMessageID string
	// FinalAnswerPreview is the beginning of the latest text that was not empty, at most MaxPreviewCharacters long.
	FinalAnswerPreview string
	// StartedAt is when process_input was first planned; zero when that is not known.
	StartedAt time.Time
}

// stateJSON is the wire form of State. Pointers tell a missing field from an empty one.
type stateJSON struct {
	OrgID               *int64    `json:"org_id"`
	SessionID           *string   `json:"session_id"`
	HarnessID           *string   `json:"harness_id"`
	AgentID             *string   `json:"agent_id"`
	InputMessageID      *string   `json:"input_message_id"`
	TurnID              string    `json:"turn_id,omitempty"`
	PreviousResponseID  string    `json:"previous_response_id,omitempty"`
	Iteration           *uint32   `json:"iteration"`
	RequestID           string    `json:"request_id,omitempty"`
	Usage               *Usage    `json:"usage,omitempty"`
	ToolCallCount       uint32    `json:"tool_call_count,omitempty"`
	LLMCallCount        uint32    `json:"llm_call_count,omitempty"`
	TimeToFirstTokenMS  *int64    `json:"time_to_first_token_ms,omitempty"`
	LastOutputMessageID string    `json:"last_output_message_id,omitempty"`
	FinalAnswerPreview  string    `json:"final_answer_preview,omitempty"`
	StartedAt           time.Time `json:"started_at,omitzero"`
}

// MarshalJSON writes the wire form of TURN-01.
func (s State) MarshalJSON() ([]byte, error) {
	wire := stateJSON{
		OrgID:               &s.OrgID,
		SessionID:           &s.SessionID,
		HarnessID:           &s.HarnessID,
		InputMessageID:      &s.InputMessageID,
		TurnID:              s.TurnID,
		PreviousResponseID:  s.PreviousResponseID,
		Iteration:           &s.Iteration,
		RequestID:           s.RequestID,
		Usage:               s.Usage,
		ToolCallCount:       s.ToolCallCount,
		LLMCallCount:        s.LLMCallCount,
		TimeToFirstTokenMS:  s.TimeToFirstTokenMS,
		LastOutputMessageID: s.LastOutputMessageID,
		FinalAnswerPreview:  s.FinalAnswerPreview,
		StartedAt:           s.StartedAt,
	}
	if s.AgentID != "" {
		wire.AgentID = &s.AgentID
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads the wire form of TURN-01. It fails when a required field is missing or a field has another type;
// the State is then unchanged.
func (s *State) UnmarshalJSON(data []byte) error {
	var wire stateJSON
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("decoding the turn state: %w", err)
	}
	if missing := wire.missingField(); missing != "" {
		return fmt.Errorf("decoding the turn state: the required field %s is missing or empty", missing)
	}
	iteration := firstIteration
	if wire.Iteration != nil {
		iteration = *wire.Iteration
	}
	agentID := ""
	if wire.AgentID != nil {
		agentID = *wire.AgentID
	}
	*s = State{
		OrgID:               *wire.OrgID,
		SessionID:           *wire.SessionID,
		HarnessID:           *wire.HarnessID,
		AgentID:             agentID,
		InputMessageID:      *wire.InputMessageID,
		TurnID:              wire.TurnID,
		PreviousResponseID:  wire.PreviousResponseID,
		Iteration:           iteration,
		RequestID:           wire.RequestID,
		Usage:               wire.Usage,
		ToolCallCount:       wire.ToolCallCount,
		LLMCallCount:        wire.LLMCallCount,
		TimeToFirstTokenMS:  wire.TimeToFirstTokenMS,
		LastOutputMessageID: wire.LastOutputMessageID,
		FinalAnswerPreview:  preview(wire.FinalAnswerPreview),
		StartedAt:           wire.StartedAt,
	}
	return nil
}

// missingField names the first required field that is not there; empty when all are.
func (w *stateJSON) missingField() string {
	if w.OrgID == nil {
		return "org_id"
	}
	required := []struct {
		name  string
		value *string
	}{
		{"session_id", w.SessionID},
		{"harness_id", w.HarnessID},
		{"input_message_id", w.InputMessageID},
	}
	for _, field := range required {
		if field.value == nil || *field.value == "" {
			return field.name
		}
	}
	return ""
}

// nextIteration is the state one iteration on. The number saturates, so that an absurd stored value can not wrap round
// to the first iteration and run the hooks of the first iteration again (TURN-13).
func (s State) nextIteration() State {
	s.Iteration = saturatingAdd(s.Iteration, 1)
	return s
}

// withReason adds what one reason step contributes to the turn summary (TURN-15). Text and message id of a failed step
// are an apology, not an answer, and stay out.
func (s State) withReason(result ReasonResult) State {
	if result.Usage != nil {
		var sum Usage
		if s.Usage != nil {
			sum = *s.Usage
		}
		sum = sum.Add(*result.Usage)
		s.Usage = &sum
	}
	if result.Success || result.Usage != nil {
		s.LLMCallCount = saturatingAdd(s.LLMCallCount, 1)
	}
	if s.TimeToFirstTokenMS == nil && result.TimeToFirstTokenMS != nil {
		first := *result.TimeToFirstTokenMS
		s.TimeToFirstTokenMS = &first
	}
	if !result.Success {
		return s
	}
	if result.OutputMessageID != "" {
		s.LastOutputMessageID = result.OutputMessageID
	}
	if result.Text != "" {
		s.FinalAnswerPreview = preview(result.Text)
	}
	return s
}

// durationMS is the age of the turn in milliseconds; nil when start or present are unknown. A clock that went backwards
// gives 0.
func (s State) durationMS(now time.Time) *int64 {
	if s.StartedAt.IsZero() || now.IsZero() {
		return nil
	}
	elapsed := max(now.Sub(s.StartedAt).Milliseconds(), 0)
	return &elapsed
}

// preview cuts text to MaxPreviewCharacters on a character boundary.
func preview(text string) string {
	if len(text) <= MaxPreviewCharacters {
		return text
	}
	count := 0
	for offset := range text {
		if count == MaxPreviewCharacters {
			// A clone, because a slice would keep the whole text in memory for as long as the state lives.
			return strings.Clone(text[:offset])
		}
		count++
	}
	return text
}

func saturatingAdd(value uint32, add uint64) uint32 {
	return uint32(min(uint64(value)+min(add, math.MaxUint32), math.MaxUint32))
}
