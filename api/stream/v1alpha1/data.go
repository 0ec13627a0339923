package v1alpha1

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Usage counts tokens.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	// CacheReadTokens and CacheWriteTokens are those of InputTokens that were read from the prompt cache of the
	// provider, and written to it. Only llm.generation has them.
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
}

// Message is one message of the conversation.
type Message struct {
	ID string `json:"id"`
	// Role of the author: user or assistant.
	Role string `json:"role"`
	// Content in order. A tool call that no part names comes after it.
	Content []Part `json:"content"`
	// ToolCalls that the message makes.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Metadata has details for programs.
	Metadata map[string]any `json:"metadata,omitempty"`
	// Phase of a message of a model: commentary, which goes with tool calls, or final_answer.
	Phase string `json:"phase,omitempty"`
}

// Part is one piece of the content of a message or of a result.
type Part struct {
	// Type of the part: text, image, tool_call, or reasoning, which only its provider can read and which is empty here.
	Type string `json:"type"`
	// Text of a text part.
	Text string `json:"text,omitempty"`
	// Base64 is an image by value, and MediaType its type; URL is an image by address.
	Base64    string `json:"base64,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	URL       string `json:"url,omitempty"`
	// ImageID is the id of an image that the Session has stored, and ImageBytes its size.
	ImageID    string `json:"image_id,omitempty"`
	ImageBytes int64  `json:"image_bytes,omitempty"`
	// ToolCallID of a tool_call part.
	ToolCallID string `json:"tool_call_id,omitempty"`
	// Phase of a text part, if the provider has marked it with another one than the message.
	Phase string `json:"phase,omitempty"`
}

// ToolCall is a tool call that a message makes.
type ToolCall struct {
	// ID of the call, unique in its Turn.
	ID string `json:"id"`
	// ProviderID is the id that the model gave the call.
	ProviderID string `json:"provider_id,omitempty"`
	// Name of the tool, as in the response of the model.
	Name string `json:"name"`
	// Arguments as in the response of the model: valid JSON or not.
	Arguments string `json:"arguments"`
}

// InputMessage is the data of input.message.
type InputMessage struct {
	Message Message `json:"message"`
	// Original is the message of the user, where hooks have made another one of it.
	Original *Message `json:"original,omitempty"`
}

// SessionActivated is the data of session.activated.
type SessionActivated struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
}

// SessionIdled is the data of session.idled. Iterations and Usage are absent after a failure.
type SessionIdled struct {
	TurnID     string `json:"turn_id"`
	Iterations *int32 `json:"iterations,omitempty"`
	Usage      *Usage `json:"usage,omitempty"`
}

// TurnStarted is the data of turn.started.
type TurnStarted struct {
	TurnID         string `json:"turn_id"`
	InputMessageID string `json:"input_message_id"`
	// InputContent is the text of the message.
	InputContent string `json:"input_content,omitempty"`
}

// TurnCompleted is the data of turn.completed.
type TurnCompleted struct {
	TurnID     string `json:"turn_id"`
	Iterations int32  `json:"iterations"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	// Usage of all model calls of the Turn.
	Usage        *Usage `json:"usage,omitempty"`
	InputContent string `json:"input_content,omitempty"`
	// FinalMessageID is the id of the final response, and FinalAnswerPreview its beginning.
	FinalMessageID     string `json:"final_message_id,omitempty"`
	FinalAnswerPreview string `json:"final_answer_preview,omitempty"`
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
	ToolCallCount      *int32 `json:"tool_call_count,omitempty"`
	LLMCallCount       *int32 `json:"llm_call_count,omitempty"`
	// Status is completed.
	Status string `json:"status,omitempty"`
	// StopReason is why the model stopped: end_turn, max_tokens, max_turn_requests, refusal.
	StopReason string `json:"stop_reason,omitempty"`
}

// TurnFailed is the data of turn.failed.
type TurnFailed struct {
	TurnID string `json:"turn_id"`
	// Error is a text.
	Error string `json:"error"`
	// ErrorCode and ErrorFields are set if the error is shown to the user.
	ErrorCode   string            `json:"error_code,omitempty"`
	ErrorFields map[string]string `json:"error_fields,omitempty"`
}

// ReasonStarted is the data of reason.started.
type ReasonStarted struct {
	Iteration int32  `json:"iteration"`
	Harness   string `json:"harness,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Model     string `json:"model,omitempty"`
}

// ReasonCompleted is the data of reason.completed.
type ReasonCompleted struct {
	Success            bool   `json:"success"`
	TextPreview        string `json:"text_preview,omitempty"`
	HasToolCalls       bool   `json:"has_tool_calls"`
	ToolCallCount      int32  `json:"tool_call_count"`
	Error              string `json:"error,omitempty"`
	Usage              *Usage `json:"usage,omitempty"`
	DurationMS         *int64 `json:"duration_ms,omitempty"`
	TimeToFirstTokenMS *int64 `json:"time_to_first_token_ms,omitempty"`
}

// ReasonRecovered is the data of reason.recovered.
type ReasonRecovered struct {
	// Mode is finalize, if the partial response is the response, or restart, if the model was called again.
	Mode string `json:"mode"`
	// Length of the text that was taken over, in bytes; 0 with restart.
	Length int64 `json:"length"`
}

// OutputMessageStarted is the data of output.message.started.
type OutputMessageStarted struct {
	TurnID string `json:"turn_id"`
	// MessageID is the id that the message has in its deltas and when it is complete.
	MessageID string `json:"message_id"`
	Iteration int32  `json:"iteration,omitempty"`
	Model     string `json:"model,omitempty"`
}

// OutputMessageCompleted is the data of output.message.completed.
type OutputMessageCompleted struct {
	Message    Message `json:"message"`
	Usage      *Usage  `json:"usage,omitempty"`
	ResponseID string  `json:"response_id,omitempty"`
	// ErrorCode and ErrorFields are set if the message is about an error.
	ErrorCode   string            `json:"error_code,omitempty"`
	ErrorFields map[string]string `json:"error_fields,omitempty"`
}

// LLMGeneration is the data of llm.generation.
type LLMGeneration struct {
	Provider      string `json:"provider,omitempty"`
	Model         string `json:"model,omitempty"`
	Iteration     int32  `json:"iteration,omitempty"`
	MessageCount  int32  `json:"message_count"`
	ToolCount     int32  `json:"tool_count"`
	ToolCallCount int32  `json:"tool_call_count"`
	Usage         *Usage `json:"usage,omitempty"`
	// Cost of the call at the price that the Model had; nil when it is not known.
	Cost               *v1alpha1.Cost `json:"cost,omitempty"`
	DurationMS         *int64         `json:"duration_ms,omitempty"`
	TimeToFirstTokenMS *int64         `json:"time_to_first_token_ms,omitempty"`
	FinishReason       string         `json:"finish_reason,omitempty"`
	ResponseID         string         `json:"response_id,omitempty"`
	// Tries is how often the model was called, if more than once.
	Tries int32 `json:"tries,omitempty"`
	// ReasoningDropped reports whether the model was called again without reasoning, ImagesDropped without how many
	// images, because the provider refused them.
	ReasoningDropped bool   `json:"reasoning_dropped,omitempty"`
	ImagesDropped    int32  `json:"images_dropped,omitempty"`
	Success          bool   `json:"success"`
	Error            string `json:"error,omitempty"`
	// ErrorCode is the class of the error.
	ErrorCode string `json:"error_code,omitempty"`
}

// TranscriptRepaired is the data of transcript.repaired.
type TranscriptRepaired struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// Action is replay, of the recorded outcome, or synthesize, of a sentence.
	Action string `json:"action"`
}

// Budget is the data of budget.warning, budget.paused, budget.exhausted and budget.resumed.
type Budget struct {
	TurnID string `json:"turn_id"`
	// Budget is the name of the Budget. It may be absent from budget.resumed.
	Budget  string `json:"budget,omitempty"`
	Message string `json:"message,omitempty"`
}

// ContextCompacting is the data of context.compacting.
type ContextCompacting struct {
	// Trigger is threshold, or request_too_large, if the provider has refused the prompt.
	Trigger string `json:"trigger"`
	// MessageCount and Tokens are those of the prompt; the tokens are estimated where no provider has counted them.
	MessageCount int32 `json:"message_count"`
	Tokens       int64 `json:"tokens"`
}

// ContextCompacted is the data of context.compacted.
type ContextCompacted struct {
	// Trigger is threshold, or request_too_large.
	Trigger string `json:"trigger"`
	// Mode is mask, if tool results were replaced by notes, summarize, if a model has written a summary of what was left
	// out, or trim, if older messages were left out without one.
	Mode string `json:"mode"`
	// MessageCount and Tokens are those of the prompt afterwards; the tokens are estimated.
	MessageCount int32 `json:"message_count"`
	Tokens       int64 `json:"tokens"`
	// Summary is the text that stands for the messages that were left out; empty if none were.
	Summary string `json:"summary,omitempty"`
	// Model is the name of the model that wrote the summary; empty for none.
	Model string `json:"model,omitempty"`
	// Error is why no model could write one.
	Error      string `json:"error,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
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

// ToolStarted is the data of tool.started.
type ToolStarted struct {
	ToolCall ToolCall `json:"tool_call"`
	Attempt  int32    `json:"attempt,omitempty"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
}

// ToolRateLimited is the data of tool.rate_limited.
type ToolRateLimited struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// DisplayName of the tool, for people.
	DisplayName string `json:"display_name,omitempty"`
	// Error is what the model reads.
	Error string `json:"error"`
}

// ToolCompleted is the data of tool.completed.
type ToolCompleted struct {
	ToolCallID  string `json:"tool_call_id"`
	ToolName    string `json:"tool_name"`
	DisplayName string `json:"display_name,omitempty"`
	Success     bool   `json:"success"`
	// Status is success, error, timeout, cancelled, or interrupted, if the outcome cannot be determined.
	Status string `json:"status"`
	// Result of the tool: null if it returned none.
	Result []Part `json:"result"`
	// Error is the text for the model if the call failed.
	Error       string `json:"error,omitempty"`
	DurationMS  *int64 `json:"duration_ms,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Hooks after the call that have changed the outcome, or did not allow it.
	Hooks []HookRun `json:"hooks,omitempty"`
	// Original is the beginning of what the tool returned, if hooks have changed that.
	Original string `json:"original,omitempty"`
	// Payment that was made for the call.
	Payment *Payment `json:"payment,omitempty"`
}

// Payment is a payment for a tool call.
type Payment struct {
	// State of the payment: Settled if the server reports that it was paid, Unconfirmed if it does not, Reserved if no
	// response is known. In all of them it may have been paid, and counts.
	State string `json:"state"`
	// Amount is a decimal in Currency.
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	// Rail is x402_base. Network is in CAIP-2 form, Asset the address of a contract, and Payee that of an account.
	Rail    string `json:"rail"`
	Network string `json:"network"`
	Asset   string `json:"asset"`
	Payee   string `json:"payee"`
	// Transaction is the hash that the server has reported.
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

// ToolCallRequested is the data of tool.call_requested.
type ToolCallRequested struct {
	ToolCalls []RequestedCall `json:"tool_calls"`
}

// SubAgent is the data of the events of sub-agents. The events of the sub-agent itself are those of its Session.
type SubAgent struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// Session and Turn are the names of the objects of the sub-agent, SessionID is the UID of its Session.
	Session   string `json:"session"`
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"`
}
