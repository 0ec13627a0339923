package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Usage counts the tokens of one or several model calls.
type Usage struct {
	// InputTokens and OutputTokens are the tokens of the prompt and of the response.
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CacheReadTokens and CacheWriteTokens are the tokens taken from, and stored in, the provider's prompt cache.
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
}

// Add is the sum of both, field by field. A sum saturates at the largest int64, and a negative count is taken as 0: a
// provider that reports nonsense must not lower a total that budgets are held against.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		InputTokens:      addTokens(u.InputTokens, other.InputTokens),
		OutputTokens:     addTokens(u.OutputTokens, other.OutputTokens),
		CacheReadTokens:  addTokens(u.CacheReadTokens, other.CacheReadTokens),
		CacheWriteTokens: addTokens(u.CacheWriteTokens, other.CacheWriteTokens),
	}
}

func addTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// ToolCall is one call that the model requests. All of it is the model's text and must be treated as data.
type ToolCall struct {
	// ID names the call in the transcript.
	ID string `json:"id"`
	// Name is the tool as the model saw it.
	Name string `json:"name"`
	// Arguments is the JSON value from the model; nil for none. It must be valid JSON: a driver keeps other text as a
	// JSON string.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ReasonResult is what a reason step observed (LLM-01). A failed model call is a result with Success false, not an
// error (LLM-03).
//
// On decode success, text and has_tool_calls are required; everything else may be missing.
type ReasonResult struct {
	// Success reports whether the model answered.
	Success bool `json:"success"`
	// Text is the response or, on failure, the sentence for the user.
	Text string `json:"text"`
	// HasToolCalls reports whether the turn continues with an act step. It is trusted; ToolCalls is not consulted
	// (TURN-06).
	HasToolCalls bool `json:"has_tool_calls"`
	// ToolCalls are the calls that the model requests.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// ToolDefinitions are the tools the model saw, handed to the act step unread.
	ToolDefinitions []json.RawMessage `json:"tool_definitions,omitempty"`
	// MaxIterations is the limit in force for this turn; 0 takes the one from Facts.
	MaxIterations uint32 `json:"max_iterations,omitempty"`
	// Error is the technical error text of a failure; empty when there is none.
	Error string `json:"error,omitempty"`
	// Usage is that of this call only; nil when the provider reported none.
	Usage *Usage `json:"usage,omitempty"`
	// OutputMessageID is the id of the assistant message; empty when none was stored.
	OutputMessageID string `json:"output_message_id,omitempty"`
	// TimeToFirstTokenMS is in milliseconds; nil when not measured.
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
	// ResponseID is the provider's id of this response; empty when it has none.
	ResponseID string `json:"response_id,omitempty"`
	// Locale and NetworkAccess are handed to the act step; NetworkAccess is not read.
	Locale        string          `json:"locale,omitempty"`
	NetworkAccess json.RawMessage `json:"network_access,omitempty"`
	// FinishReason is why the model stopped, in the provider's own word or the one that its driver has put in its
	// place; StopReasonFor maps it (SM-09).
	FinishReason string `json:"finish_reason,omitempty"`
	// Failure is the classification of a failure by a caller with more knowledge than the texts. It is used unchanged,
	// unless its code is empty (TURN-10).
	Failure *Failure `json:"failure,omitempty"`
	// TerminalEmitted reports whether the step itself has emitted turn.failed and session.idled, as a blocked one does;
	// the planner then adds none, so that the first and most precise ones stand (GAP-05). It has no meaning on success.
	TerminalEmitted bool `json:"terminal_emitted,omitempty"`
}

// UnmarshalJSON applies the decode rules of LLM-01. On an error the result is unchanged.
func (r *ReasonResult) UnmarshalJSON(data []byte) error {
	type fields ReasonResult
	var required struct {
		Success      *bool   `json:"success"`
		Text         *string `json:"text"`
		HasToolCalls *bool   `json:"has_tool_calls"`
	}
	if err := json.Unmarshal(data, &required); err != nil {
		return fmt.Errorf("decoding the reason result: %w", err)
	}
	if required.Success == nil || required.Text == nil || required.HasToolCalls == nil {
		return fmt.Errorf("decoding the reason result: success, text and has_tool_calls are required")
	}
	var decoded fields
	if err := json.Unmarshal(data, &decoded); err != nil {
		return fmt.Errorf("decoding the reason result: %w", err)
	}
	decoded.NetworkAccess = withoutNull(decoded.NetworkAccess)
	for i := range decoded.ToolCalls {
		decoded.ToolCalls[i].Arguments = withoutNull(decoded.ToolCalls[i].Arguments)
	}
	*r = ReasonResult(decoded)
	return nil
}

// ActResult is what the planner reads of an act step's result (TURN-11). Tool outputs do not concern it.
type ActResult struct {
	// Blocked reports whether the step refused to run and has already emitted turn.failed and session.idled (BLK-04).
	Blocked bool `json:"blocked"`
	// WaitingForToolResults reports whether client results are still missing.
	WaitingForToolResults bool `json:"waiting_for_tool_results"`
	// Failure is why the step was blocked; nil stands for CodeDependencyUnavailable.
	Failure *Failure `json:"failure,omitempty"`
}

// ReadActResult reads the act step's raw output. A field that is missing or has another type counts as false (for
// failure: nil), and so does every field of a value that is no object. Field names are case-sensitive. Only text that
// is not JSON is an error (TURN-11).
func ReadActResult(raw json.RawMessage) (ActResult, error) {
	fields, err := readObject(raw)
	if err != nil {
		return ActResult{}, fmt.Errorf("decoding the act result: %w", err)
	}
	result := ActResult{
		Blocked:               isTrue(fields["blocked"]),
		WaitingForToolResults: isTrue(fields["waiting_for_tool_results"]),
	}
	var failure Failure
	if err := json.Unmarshal(fields["failure"], &failure); err == nil && failure.Code != "" {
		result.Failure = &failure
	}
	return result, nil
}

// readObject returns the members of a JSON object, and none for a JSON value of another kind.
func readObject(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var value json.RawMessage
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, nil //nolint:nilerr // valid JSON that is no object has no members
	}
	return fields, nil
}

func isTrue(raw json.RawMessage) bool {
	return bytes.Equal(bytes.TrimSpace(raw), []byte("true"))
}

func withoutNull(raw json.RawMessage) json.RawMessage {
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}
