package model

import (
	"context"
	"encoding/json"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// ToolDefinition is what the model is told of a tool.
type ToolDefinition struct {
	// Name by which the model calls the tool.
	Name string
	// Description tells what the tool does and when to use it.
	Description string
	// InputSchema is the JSON Schema of the arguments; nil accepts any object.
	InputSchema json.RawMessage
}

// Request is one model call (LLM-01).
type Request struct {
	// Model is the provider's name of the model, as Name gives it.
	Model string
	// SystemPrompt is what the model is told first, about the locale too. It may be empty.
	SystemPrompt string
	// Messages is the conversation, oldest first, with fences around what tools gave (event.Fenced). Drivers do not
	// change it.
	Messages []event.Message
	// Tools that the model may call.
	Tools []ToolDefinition
	// Locale that is to be answered in, a BCP 47 tag; empty for none.
	Locale string
	// Iteration numbers the model calls of the Turn, from 1.
	Iteration int32
	// TurnID is the UID of the Turn.
	TurnID string
	// PreviousResponseID is the ResponseID of the Turn's last answer, where the provider keeps the conversation.
	PreviousResponseID string
	// OnPartial is told what has come of the answer, whenever more has come, by the goroutine that called Generate. It
	// returns at once. nil for nobody.
	OnPartial func(Partial)
}

// Partial is what has come of an answer.
type Partial struct {
	// Text that the model has said so far, what it thinks left out.
	Text string
	// ToolCalls reports whether it has begun to call tools.
	ToolCalls bool
}

// Tell tells OnPartial, if there is one.
func (r Request) Tell(p Partial) {
	if r.OnPartial != nil {
		r.OnPartial(p)
	}
}

// ToolCall is a tool call that the model asks for.
type ToolCall struct {
	// ProviderID is the model's own id of the call.
	ProviderID string
	// Name of the tool, as the model gave it. It may be that of no tool.
	Name string
	// Arguments as the model gave them, byte for byte, valid JSON or not.
	Arguments string
}

// Usage counts the tokens of one call.
type Usage struct {
	// InputTokens that the model read, with those of the next two.
	InputTokens int64
	// CacheReadTokens came from the provider's prompt cache.
	CacheReadTokens int64
	// CacheWriteTokens were put into it. None of them is among CacheReadTokens.
	CacheWriteTokens int64
	// OutputTokens that the model wrote.
	OutputTokens int64
}

// Words for Response.FinishReason. Providers may use others.
const (
	// FinishStop: the model had nothing more to say.
	FinishStop = "stop"
	// FinishToolCalls: the model waits for the results of its calls.
	FinishToolCalls = "tool_calls"
	// FinishFiltered: a filter of the provider ended the answer, or let none begin.
	FinishFiltered = "content_filter"
)

// Response is the model's answer.
type Response struct {
	// Text that the model said. It may be empty.
	Text string
	// ToolCalls that the model asks for, in order. With none, the model has finished.
	ToolCalls []ToolCall
	// FinishReason is why the model stopped: one of the words above, or the provider's own.
	FinishReason string
	// FinishWord is the provider's own word where FinishReason is one of ours in its place; otherwise it is empty.
	FinishWord string
	// Usage of this call alone (GAP-13).
	Usage Usage
	// ResponseID is the provider's id of the answer, at most 256 bytes. It may be empty.
	ResponseID string
	// Model is the provider's name of the model that answered.
	Model string
}

// Driver speaks to one Model. It is safe for concurrent use.
type Driver interface {
	// Generate asks for one answer. It ends early with the context's error when the context does. The text of any other
	// error is what the Turn's error is classified by (ERR-02).
	Generate(ctx context.Context, r Request) (*Response, error)
}
