package model

import (
	"context"
	"encoding/json"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// ToolDefinition is the definition of a tool for the model.
type ToolDefinition struct {
	// Name by which the model calls the tool.
	Name string
	// Description tells the model what the tool does and when to use it.
	Description string
	// InputSchema is the JSON Schema of the arguments; nil accepts any object.
	InputSchema json.RawMessage
}

// Request is one model call (LLM-01).
type Request struct {
	// Model is the provider's name of the model, as Name returns it.
	Model string
	// SystemPrompt is the system prompt, including the locale. It may be empty.
	SystemPrompt string
	// Messages is the conversation, oldest first, with fences around tool results (event.Fenced). It has reasoning of
	// this Model only, which is sent back to the provider in its place. Drivers do not change it.
	Messages []event.Message
	// Tools that the model may call.
	Tools []ToolDefinition
	// Locale of the response, a BCP 47 tag; empty for none.
	Locale string
	// Iteration numbers the model calls of the Turn, from 1.
	Iteration int32
	// TurnID is the UID of the Turn. No provider is sent it.
	TurnID string
	// User is a pseudonym by which the provider can distinguish users, at most 64 letters and digits; empty for none
	// (LLM-10). Drivers send it where the provider documents a field for it.
	User string
	// OnPartial is called with the response so far, whenever more has arrived, by the goroutine that called Generate.
	// It returns at once. It may be nil.
	OnPartial func(Partial)
}

// Partial is the part of a response that has arrived.
type Partial struct {
	// Text of the model so far, without its reasoning.
	Text string
	// ToolCalls reports whether it has begun to call tools.
	ToolCalls bool
}

// ReportPartial calls OnPartial, if it is set.
func (r Request) ReportPartial(p Partial) {
	if r.OnPartial != nil {
		r.OnPartial(p)
	}
}

// ToolCall is a tool call that the model requests.
type ToolCall struct {
	// ProviderID is the model's own id of the call.
	ProviderID string
	// Name of the tool, as in the model's response. The tool may not exist.
	Name string
	// Arguments of the model's response, byte for byte, valid JSON or not.
	Arguments string
}

// Usage counts the tokens of one call.
type Usage struct {
	// InputTokens that the model read, with those of the next two.
	InputTokens int64
	// CacheReadTokens came from the provider's prompt cache.
	CacheReadTokens int64
	// CacheWriteTokens were written to it. They are not included in CacheReadTokens.
	CacheWriteTokens int64
	// OutputTokens that the model wrote.
	OutputTokens int64
}

// Words for Response.FinishReason. Providers may use others.
const (
	// FinishStop: the response is complete.
	FinishStop = "stop"
	// FinishToolCalls: the model waits for the results of its calls.
	FinishToolCalls = "tool_calls"
	// FinishFiltered: a filter of the provider ended the response, or prevented it.
	FinishFiltered = "content_filter"
)

// Response is the model's response.
type Response struct {
	// Text of the response. It may be empty.
	Text string
	// ToolCalls that the model requests, in order. With none, the model has finished.
	ToolCalls []ToolCall
	// Content is the response in the provider's order, with its reasoning. It is nil where there is no reasoning and the
	// text comes before the calls.
	Content []Content
	// Phase is the provider's mark of the last text: what a message of this response is (LLM-09). It is empty where the
	// provider marks nothing.
	Phase event.Phase
	// FinishReason is why the model stopped: one of the words above, or the provider's own.
	FinishReason string
	// FinishWord is the provider's own word if FinishReason replaces it by one of ours; otherwise it is empty.
	FinishWord string
	// Usage of this call alone (GAP-13).
	Usage Usage
	// ResponseID is the provider's id of the response, at most 256 bytes. It may be empty.
	ResponseID string
	// Model is the provider's name of the model that has responded.
	Model string
}

// Driver calls one Model. It is safe for concurrent use.
type Driver interface {
	// Generate requests one response. It ends early with the context's error when the context does. The code of the
	// Turn's error is that of any other error (CodeOf).
	Generate(ctx context.Context, r Request) (*Response, error)
}
