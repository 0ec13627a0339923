package openai

import (
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// Finish reasons of an incomplete response. Gateways pass on the words of their providers.
const (
	finishLength  = "length"
	finishFilter  = "content_filter"
	finishSafety  = "safety"
	finishRefusal = "refusal"
)

// maxResponseID is the maximum length of a response id that is kept, in bytes.
const maxResponseID = 256

// answer accumulates the response from the chunks of a stream.
type answer struct {
	id      string
	model   string
	text    strings.Builder
	refusal strings.Builder
	calls   []*call
	// newest are the newest calls of each index.
	newest   map[int64]*call
	finish   string
	finished bool
	usage    model.Usage
	// chunks counts the received chunks, and size their texts and arguments in bytes. arguments is the size of the
	// largest arguments of a call.
	chunks, size, arguments int
	// thought is the reasoning of the model, and kind its field. excess reports whether it exceeds the bound.
	thought strings.Builder
	kind    string
	excess  bool
}

// call is a tool call whose arguments arrive in pieces.
type call struct {
	id, name  string
	arguments strings.Builder
}

// add processes one chunk. It is an error if the response has become too long.
func (a *answer) add(chunk sdk.ChatCompletionChunk) error {
	a.chunks++
	if a.id == "" && len(chunk.ID) <= maxResponseID {
		a.id = chunk.ID
	}
	if a.model == "" {
		a.model = chunk.Model
	}
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		// The tokens of the prompt include those read from a cache, and those written to one.
		a.usage = model.Usage{
			InputTokens:      u.PromptTokens,
			CacheReadTokens:  u.PromptTokensDetails.CachedTokens,
			CacheWriteTokens: u.PromptTokensDetails.CacheWriteTokens,
			OutputTokens:     u.CompletionTokens,
		}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		a.text.WriteString(choice.Delta.Content)
		a.refusal.WriteString(choice.Delta.Refusal)
		a.size += len(choice.Delta.Content) + len(choice.Delta.Refusal)
		a.think(choice.Delta)
		for _, piece := range choice.Delta.ToolCalls {
			a.addCall(piece)
		}
		if choice.FinishReason != "" {
			a.finish, a.finished = choice.FinishReason, true
		}
	}
	return provider.TooLong(name, a.size, len(a.calls), a.arguments)
}

// addCall processes a piece of a tool call. Servers that send whole calls may give all of them the same index; then the
// id distinguishes them.
func (a *answer) addCall(piece sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	c := a.newest[piece.Index]
	if c == nil || piece.ID != "" && c.id != "" && piece.ID != c.id {
		if a.newest == nil {
			a.newest = map[int64]*call{}
		}
		c = &call{}
		a.newest[piece.Index] = c
		a.calls = append(a.calls, c)
	}
	if c.id == "" {
		c.id = piece.ID
	}
	if c.name == "" {
		c.name = piece.Function.Name
	}
	c.arguments.WriteString(piece.Function.Arguments)
	a.arguments = max(a.arguments, c.arguments.Len())
	a.size += len(piece.ID) + len(piece.Function.Name) + len(piece.Function.Arguments)
}

// response returns the response so far.
func (a *answer) response(asked string) model.Response {
	r := model.Response{Text: a.text.String(), Usage: a.usage, ResponseID: a.id, Model: a.model}
	if r.Text == "" {
		r.Text = a.refusal.String()
	}
	if r.Model == "" {
		r.Model = asked
	}
	for _, c := range a.calls {
		r.ToolCalls = append(r.ToolCalls, model.ToolCall{ProviderID: c.id, Name: c.name, Arguments: c.arguments.String()})
	}
	r.Content = a.content(r.Text)
	return r
}

// complete is a response that the model has ended.
func (a *answer) complete(asked, key string) (*model.Response, error) {
	r := a.response(asked)
	r.FinishReason = provider.SafeCode(a.finish, key)
	switch strings.ToLower(a.finish) {
	case finishLength:
		return provider.CutShort(name, r)
	case finishFilter, finishSafety, finishRefusal:
		return provider.Filtered(r), nil
	default:
		return &r, nil
	}
}

// filtered is a response that a filter of the server has prevented or cut off, with the server's word for it.
func (a *answer) filtered(asked, word string) *model.Response {
	r := a.response(asked)
	r.FinishReason = word
	return provider.Filtered(r)
}

// hasContent reports whether a chunk has content of the response, the model's reasoning included. Servers send empty
// chunks to keep the connection open.
func hasContent(chunk sdk.ChatCompletionChunk) bool {
	for _, choice := range chunk.Choices {
		delta := choice.Delta
		if delta.Content != "" || delta.Refusal != "" || len(delta.ToolCalls) > 0 || choice.FinishReason != "" {
			return true
		}
		for _, field := range thoughts {
			if raw := delta.JSON.ExtraFields[field].Raw(); raw != "" && raw != "null" && raw != `""` {
				return true
			}
		}
	}
	return false
}
