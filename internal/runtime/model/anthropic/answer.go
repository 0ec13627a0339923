package anthropic

import (
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// The event names and values of the stream.
const (
	eventMessageStart = "message_start"
	eventMessageDelta = "message_delta"
	eventBlockStart   = "content_block_start"
	eventBlockDelta   = "content_block_delta"
	eventBlockStop    = "content_block_stop"
	blockText         = "text"
	blockToolUse      = "tool_use"
	deltaText         = "text_delta"
	deltaArguments    = "input_json_delta"
	deltaThinking     = "thinking_delta"
	deltaSignature    = "signature_delta"
)

// maxResponseID is the maximum length of a response id that is kept, in bytes.
const maxResponseID = 256

// answer accumulates the response from the events of a stream. The SDK's own accumulator would turn incomplete
// arguments into empty ones.
type answer struct {
	id, model string
	text      strings.Builder
	calls     []*call
	// blocks are the calls by the index of their block.
	blocks map[int64]*call
	// pieces are the blocks in order, thoughts those of thinking by their index, and thinking is the size of these.
	pieces   []piece
	thoughts map[int64]*thought
	thinking int
	finish   string
	// input are the tokens of the prompt: new ones, those written to the cache, and those read from it.
	input  [3]int64
	output int64
	// events counts the received events, and size their texts and arguments in bytes. arguments is the size of the
	// largest arguments of a call.
	events, size, arguments int
}

// call is a tool call whose arguments arrive in pieces.
type call struct {
	id, name string
	// initial are the arguments at the start of the block. They are used if the block ends without a piece.
	initial   string
	arguments strings.Builder
	ended     bool
}

// add processes one event. It is an error if the response has become too long.
func (a *answer) add(e sdk.MessageStreamEventUnion) error {
	a.events++
	switch e.Type {
	case eventMessageStart:
		if len(e.Message.ID) <= maxResponseID {
			a.id = e.Message.ID
		}
		a.model = e.Message.Model
		u := e.Message.Usage
		a.input, a.output = [3]int64{u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens}, u.OutputTokens
	case eventBlockStart:
		a.begin(e)
	case eventBlockDelta:
		a.grow(e)
	case eventBlockStop:
		if c := a.blocks[e.Index]; c != nil {
			c.ended = true
		}
		if t := a.thoughts[e.Index]; t != nil {
			t.ended = true
		}
	case eventMessageDelta:
		a.end(e)
	}
	return provider.TooLong(name, a.size, len(a.calls), a.arguments)
}

// begin processes the start of a block.
func (a *answer) begin(e sdk.MessageStreamEventUnion) {
	switch e.ContentBlock.Type {
	case kindThinking, kindRedacted:
		a.beginThought(e)
	case blockText:
		a.pieces = append(a.pieces, piece{from: a.text.Len()})
		a.text.WriteString(e.ContentBlock.Text)
		a.size += len(e.ContentBlock.Text)
	case blockToolUse:
		c := &call{id: e.ContentBlock.ID, name: e.ContentBlock.Name, initial: e.ContentBlock.JSON.Input.Raw()}
		a.calls = append(a.calls, c)
		a.pieces = append(a.pieces, piece{call: len(a.calls)})
		if a.blocks == nil {
			a.blocks = map[int64]*call{}
		}
		a.blocks[e.Index] = c
		a.size += len(c.id) + len(c.name) + len(c.initial)
		a.arguments = max(a.arguments, len(c.initial))
	}
}

// grow processes a piece of a block.
func (a *answer) grow(e sdk.MessageStreamEventUnion) {
	switch e.Delta.Type {
	case deltaText:
		a.text.WriteString(e.Delta.Text)
		a.size += len(e.Delta.Text)
	case deltaArguments:
		if c := a.blocks[e.Index]; c != nil {
			c.arguments.WriteString(e.Delta.PartialJSON)
			a.arguments = max(a.arguments, c.arguments.Len())
			a.size += len(e.Delta.PartialJSON)
		}
	case deltaThinking:
		a.think(e.Index, e.Delta.Thinking, "")
	case deltaSignature:
		a.think(e.Index, "", e.Delta.Signature)
	}
}

// end records the stop reason and the usage. Each number is that of the whole response; those that do not apply are
// missing.
func (a *answer) end(e sdk.MessageStreamEventUnion) {
	if reason := string(e.Delta.StopReason); reason != "" {
		a.finish = reason
	}
	u := e.Usage
	for i, count := range []struct {
		given bool
		value int64
	}{
		{u.JSON.InputTokens.Valid(), u.InputTokens},
		{u.JSON.CacheCreationInputTokens.Valid(), u.CacheCreationInputTokens},
		{u.JSON.CacheReadInputTokens.Valid(), u.CacheReadInputTokens},
	} {
		if count.given {
			a.input[i] = count.value
		}
	}
	if u.JSON.OutputTokens.Valid() {
		a.output = u.OutputTokens
	}
}

// response returns the response so far.
func (a *answer) response(asked string) model.Response {
	r := model.Response{
		Text:    a.text.String(),
		Content: a.content(),
		Usage: model.Usage{
			InputTokens:      a.input[0] + a.input[1] + a.input[2],
			CacheWriteTokens: a.input[1],
			CacheReadTokens:  a.input[2],
			OutputTokens:     a.output,
		},
		ResponseID: a.id,
		Model:      a.model,
	}
	if r.Model == "" {
		r.Model = asked
	}
	for _, c := range a.calls {
		r.ToolCalls = append(r.ToolCalls, model.ToolCall{ProviderID: c.id, Name: c.name, Arguments: c.receivedArguments()})
	}
	return r
}

// receivedArguments are the arguments received so far, byte for byte.
func (c *call) receivedArguments() string {
	if c.arguments.Len() == 0 && c.ended {
		return c.initial
	}
	return c.arguments.String()
}

// complete is a response that the model has ended.
func (a *answer) complete(asked, key string) (*model.Response, error) {
	r := a.response(asked)
	r.FinishReason = provider.SafeCode(a.finish, key)
	switch sdk.StopReason(a.finish) {
	case sdk.StopReasonMaxTokens:
		return provider.CutShort(name, a.cut(r))
	case sdk.StopReasonModelContextWindowExceeded:
		return provider.OutOfContext(name, asked, a.cut(r))
	case sdk.StopReasonRefusal:
		// Calls that it began before it refused are not intended.
		r.ToolCalls, r.Content = nil, nil
		return &r, nil
	case sdk.StopReasonPauseTurn:
		return nil, fmt.Errorf("%s paused its response for a server tool that was not requested", name)
	default:
		return &r, nil
	}
}

// cut is a response that a limit has ended. A call that was cut before its first piece looks like one without
// arguments.
func (a *answer) cut(r model.Response) model.Response {
	if last := len(a.calls) - 1; last >= 0 && a.calls[last].arguments.Len() == 0 {
		r.ToolCalls[last].Arguments = ""
	}
	return r
}

// hasContent reports whether an event has content of the response, the model's reasoning included: a ping has none, nor
// has the start of an empty thinking block, after which newer models send nothing until they have finished thinking
// (github.com/docker/docker-agent/pull/2451).
func hasContent(e sdk.MessageStreamEventUnion) bool {
	switch e.Type {
	case eventBlockStart:
		return e.ContentBlock.Type != kindThinking || e.ContentBlock.Thinking != ""
	case eventBlockDelta, eventBlockStop, eventMessageDelta:
		return true
	default:
		return false
	}
}
