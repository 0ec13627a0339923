package event

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Usage counts tokens, in the names of the event contract.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	// CacheReadTokens and CacheWriteTokens are those of InputTokens that were read from the provider's prompt cache,
	// and written to it. Only llm.generation has them.
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
}

// UsageOf converts the counts of an API object to the names of the event contract.
func UsageOf(u v1alpha1.Usage) *Usage {
	return &Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.TotalTokens}
}

// InputMessage is the data of input.message.
type InputMessage struct {
	Message Message `json:"message"`
	// Original is the user's message where hooks have made another one of it. No prompt shows it.
	Original *Message `json:"original,omitempty"`
}

// SessionActivated is the data of session.activated (LIFE-01).
type SessionActivated struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
}

// TurnStarted is the data of turn.started (LIFE-01).
type TurnStarted struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
	// InputContent is the user's text.
	InputContent string `json:"input_content,omitempty"`
}

// TurnCompleted is the data of turn.completed (LIFE-03).
type TurnCompleted struct {
	// TurnID is set by the Factory.
	TurnID     string `json:"turn_id"`
	Iterations int32  `json:"iterations"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	// Usage of all model calls of the turn (GAP-13).
	Usage        *Usage `json:"usage,omitempty"`
	InputContent string `json:"input_content,omitempty"`
	// FinalMessageID is the id of the final response.
	FinalMessageID     string `json:"final_message_id,omitempty"`
	FinalAnswerPreview string `json:"final_answer_preview,omitempty"`
	// TimeToFirstTokenMS is that of the first response of the turn.
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
	ToolCallCount      *int32 `json:"tool_call_count,omitempty"`
	LLMCallCount       *int32 `json:"llm_call_count,omitempty"`
	// Status is "completed". The Factory sets it when it is empty.
	Status string `json:"status,omitempty"`
	// StopReason is why the model stopped, in the names of SM-09: end_turn, max_tokens, max_turn_requests, refusal.
	StopReason string `json:"stop_reason,omitempty"`
}

// TurnFailed is the data of turn.failed (LIFE-06).
type TurnFailed struct {
	// TurnID is set by the Factory.
	TurnID string `json:"turn_id"`
	// Error is free text.
	Error string `json:"error"`
	// ErrorCode and ErrorFields are set if the error is shown to the user (ERR-03).
	ErrorCode   string            `json:"error_code,omitempty"`
	ErrorFields map[string]string `json:"error_fields,omitempty"`
}

// SessionIdled is the data of session.idled (LIFE-04). Iterations and Usage are absent after a failure (LIFE-06).
type SessionIdled struct {
	// TurnID is set by the Factory.
	TurnID     string `json:"turn_id"`
	Iterations *int32 `json:"iterations,omitempty"`
	Usage      *Usage `json:"usage,omitempty"`
}

// ReasonStarted is the data of reason.started.
type ReasonStarted struct {
	Iteration int32  `json:"iteration"`
	Harness   string `json:"harness,omitempty"`
	Agent     string `json:"agent,omitempty"`
	// Model is the name of the Model that is called.
	Model string `json:"model,omitempty"`
}

// ReasonCompleted is the data of reason.completed (LLM-02, LLM-03).
type ReasonCompleted struct {
	Success       bool   `json:"success"`
	TextPreview   string `json:"text_preview,omitempty"`
	HasToolCalls  bool   `json:"has_tool_calls"`
	ToolCallCount int32  `json:"tool_call_count"`
	Error         string `json:"error,omitempty"`
	Usage         *Usage `json:"usage,omitempty"`
	DurationMS    *int64 `json:"duration_ms,omitempty"`
	// TimeToFirstTokenMS is that of the response; absent without one.
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
}

// OutputMessageStarted is the data of output.message.started.
type OutputMessageStarted struct {
	// TurnID is set by the Factory.
	TurnID string `json:"turn_id"`
	// MessageID is the id that the message will have, so that a lost stream is matched by message (GAP-14).
	MessageID string `json:"message_id"`
	Iteration int32  `json:"iteration,omitempty"`
	Model     string `json:"model,omitempty"`
}

// OutputMessageCompleted is the data of output.message.completed.
type OutputMessageCompleted struct {
	Message    Message `json:"message"`
	Usage      *Usage  `json:"usage,omitempty"`
	ResponseID string  `json:"response_id,omitempty"`
	// ErrorCode and ErrorFields are set if the message is about an error (ERR-03).
	ErrorCode   string            `json:"error_code,omitempty"`
	ErrorFields map[string]string `json:"error_fields,omitempty"`
}

// Modes of ReasonRecovered (PART-02).
const (
	// RecoveredFinalize: the partial response is the response.
	RecoveredFinalize = "finalize"
	// RecoveredRestart: the model was called again.
	RecoveredRestart = "restart"
)

// ReasonRecovered is the data of reason.recovered: an earlier process had begun to receive the response (PART-02).
type ReasonRecovered struct {
	// Mode is finalize or restart.
	Mode string `json:"mode"`
	// Length of the text that was taken over, in bytes; 0 with restart.
	Length int64 `json:"length"`
}

// LLMGeneration is the data of llm.generation. It does not repeat the prompt, which is the transcript before it.
type LLMGeneration struct {
	Provider string `json:"provider,omitempty"`
	// Model is the name of the model that has responded; without a response, of the requested one.
	Model         string `json:"model,omitempty"`
	Iteration     int32  `json:"iteration,omitempty"`
	MessageCount  int32  `json:"message_count"`
	ToolCount     int32  `json:"tool_count"`
	ToolCallCount int32  `json:"tool_call_count"`
	Usage         *Usage `json:"usage,omitempty"`
	// Cost of the call at the price that the Model had; nil when it is not known.
	Cost       *v1alpha1.Cost `json:"cost,omitempty"`
	DurationMS *int64         `json:"duration_ms,omitempty"`
	// TimeToFirstTokenMS is the time from the beginning of the last try to the first text, reasoning or tool call.
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
	FinishReason       string `json:"finish_reason,omitempty"`
	ResponseID         string `json:"response_id,omitempty"`
	// Tries is how often the model was called, if more than once.
	Tries int32 `json:"tries,omitempty"`
	// ReasoningDropped reports whether the model was called again without reasoning, because the provider refused it.
	ReasoningDropped bool `json:"reasoning_dropped,omitempty"`
	// ImagesDropped is how many images the model was called again without, because the provider refused them.
	ImagesDropped int32 `json:"images_dropped,omitempty"`

	Success bool   `json:"success"`
	Error   string `json:"error,omitempty"`
	// ErrorCode is the class of the error.
	ErrorCode string `json:"error_code,omitempty"`
}

// TranscriptRepaired is the data of transcript.repaired (DUR-08).
type TranscriptRepaired struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// Action is replay or synthesize.
	Action string `json:"action"`
}

// Budget is the data of the events of Budgets (BUDGET-03).
type Budget struct {
	TurnID string `json:"turn_id"`
	// Budget is the name of the Budget; empty for a process that does not know it any more.
	Budget  string `json:"budget,omitempty"`
	Message string `json:"message,omitempty"`
}

// CallSummary names a tool call without its arguments.
type CallSummary struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ActStarted is the data of act.started.
type ActStarted struct {
	Iteration int32         `json:"iteration,omitempty"`
	ToolCalls []CallSummary `json:"tool_calls"`
}

// ActCompleted is the data of act.completed.
type ActCompleted struct {
	Completed    bool   `json:"completed"`
	SuccessCount int32  `json:"success_count"`
	ErrorCount   int32  `json:"error_count"`
	DurationMS   *int64 `json:"duration_ms,omitempty"`
}

// SubAgent is the data of the events of sub-agents. The events of the sub-agent itself are those of its Session.
type SubAgent struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// Session and Turn are the names of the sub-agent's objects, SessionID is the UID of its Session.
	Session   string `json:"session"`
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"`
}

// ToolStarted is the data of tool.started.
type ToolStarted struct {
	ToolCall ToolCall `json:"tool_call"`
	Attempt  int32    `json:"attempt,omitempty"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
}

// ToolProgress is the data of tool.progress.
type ToolProgress struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
	// Message of the tool. It is text of the tool, which may be empty.
	Message string `json:"message,omitempty"`
	// Progress increases from event to event of a call. Total is its value at the end; 0 if it is unknown.
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
}

// ToolCompleted is the data of tool.completed (TOOL-15). MSG-03 defines the resulting message.
type ToolCompleted struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
	Success     bool   `json:"success"`
	// Status is one of the Status constants.
	Status string `json:"status"`
	// Result is the tool's result: nil if it returned none at all, empty if it returned an empty one.
	Result []Part `json:"result"`
	// Error is the text for the model if the call failed.
	Error      string `json:"error,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	// Fingerprint of the call (DUR-06).
	Fingerprint string `json:"fingerprint,omitempty"`
	// Fence is the nonce that the model reads around the outcome. It is minted by Step.ToolCompleted.
	Fence string `json:"fence,omitempty"`
	// Hooks after the call that have changed the outcome, or did not allow it.
	Hooks []HookRun `json:"hooks,omitempty"`
	// Original is the beginning of what the tool returned, its result or its error, if hooks have changed that. Models
	// do not read it.
	Original string `json:"original,omitempty"`
	// Payment that was made for the call.
	Payment *Payment `json:"payment,omitempty"`
}

// ToolRateLimited is the data of tool.rate_limited (TOOL-14). The resulting message is like that of a failed call.
type ToolRateLimited struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
	// Error is the text for the model.
	Error string `json:"error"`
	// Fence is the nonce that the model reads around the outcome. It is minted by Step.ToolRateLimited.
	Fence string `json:"fence,omitempty"`
}

// Payment is a payment for a tool call (PAY-01). Models do not read it.
type Payment struct {
	// State of the payment: Settled, Unconfirmed, or Reserved if nothing is known of it.
	State string `json:"state"`
	// Amount is a decimal in Currency.
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	// Rail, and the Network, Asset and Payee on it.
	Rail    string `json:"rail"`
	Network string `json:"network"`
	Asset   string `json:"asset"`
	Payee   string `json:"payee"`
	// Transaction that the server has reported.
	Transaction string `json:"transaction,omitempty"`
}

// HookRun is the outcome of one hook.
type HookRun struct {
	// Hook is its id.
	Hook string `json:"hook"`
	// Decision of the hook: allow, block, mutate or error.
	Decision string `json:"decision"`
	// Reason of the decision, or the error.
	Reason string `json:"reason,omitempty"`
}

// RequestedCall is a tool call that is requested from the client.
type RequestedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Description of the tool, or its beginning, and DisplayName, for people.
	Description string `json:"description,omitempty"`
	DisplayName string `json:"display_name,omitempty"`
	// Hints of the tool: ReadOnly, Destructive, OpenWorld.
	Hints []string `json:"hints,omitempty"`
}

// ToolCallRequested is the data of tool.call_requested (TOOL-17).
type ToolCallRequested struct {
	ToolCalls []RequestedCall `json:"tool_calls"`
}
