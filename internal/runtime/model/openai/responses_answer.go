package openai

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// The event names and values of the stream.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemReasoning = "reasoning"
	// statusIncomplete ends a response that a limit or a filter has cut.
	statusIncomplete = "incomplete"
	reasonFilter     = "content_filter"
)

// items collects the events of a stream of the Responses API.
type items struct {
	id, model, status, reason string
	// all are the items in the order of the response, by the index of each.
	all   []*item
	index map[int64]*item
	usage model.Usage
	// failed is the provider's reason for the failure of the response.
	failed *problem
	// events counts the received events, and calls the calls. size is that of the texts and arguments in bytes,
	// arguments that of the largest arguments, and reasoning that of the reasoning.
	events, calls, size, arguments, reasoning int
	// content reports whether the last event had content of the response.
	content bool
}

// item is one item of a response.
type item struct {
	kind, id, call, name string
	// phase is the provider's mark of a message; empty for none.
	phase event.Phase
	// text of a message, or arguments of a call; refusal of a message.
	text, refusal strings.Builder
	thought       *event.Reasoning
}

// add processes one event. It is an error if the response has become too long.
func (a *items) add(e responses.ResponseStreamEventUnion) error {
	a.events++
	switch e.Type {
	case "response.created", "response.in_progress", "response.queued":
		a.about(e.Response)
	case "response.completed", "response.incomplete", "response.failed":
		a.about(e.Response)
		a.end(e)
	case "error":
		a.failed = &problem{Code: e.Code, Message: e.Message, Param: e.Param}
	case "response.output_item.added":
		a.begin(e)
	case "response.output_item.done":
		a.done(e)
	case "response.output_text.delta":
		a.grow(e.OutputIndex, itemMessage, e.Delta)
	case "response.function_call_arguments.delta":
		a.grow(e.OutputIndex, itemCall, e.Delta)
	case "response.refusal.delta":
		if i := a.index[e.OutputIndex]; i != nil {
			i.refusal.WriteString(e.Delta)
			a.size += len(e.Delta)
			a.content = true
		}
	default:
		// The reasoning arrives in events of many kinds, if at all.
		a.content = strings.HasPrefix(e.Type, "response.reasoning")
	}
	return provider.TooLong(name, a.size, a.calls, a.arguments)
}

// about records the id and the model of a response.
func (a *items) about(r responses.Response) {
	if a.id == "" && len(r.ID) <= maxResponseID {
		a.id = r.ID
	}
	if a.model == "" {
		a.model = r.Model
	}
}

// begin processes the start of an item.
func (a *items) begin(e responses.ResponseStreamEventUnion) {
	i := &item{
		kind: e.Item.Type, id: e.Item.ID, call: e.Item.CallID, name: e.Item.Name,
		phase: event.PhaseOf(string(e.Item.Phase)),
	}
	if a.index == nil {
		a.index = map[int64]*item{}
	}
	a.index[e.OutputIndex] = i
	a.all = append(a.all, i)
	a.size += len(i.call) + len(i.name)
	if i.kind == itemCall {
		a.calls++
		a.content = true
	}
}

// grow processes a piece of an item.
func (a *items) grow(index int64, kind, piece string) {
	i := a.index[index]
	if i == nil || i.kind != kind {
		return
	}
	i.text.WriteString(piece)
	a.size += len(piece)
	if kind == itemCall {
		a.arguments = max(a.arguments, i.text.Len())
	}
	a.content = true
}

// done processes a complete item. Reasoning is sent back only in this form (the SDK's description of encrypted_content,
// openai-go v3.96.0).
func (a *items) done(e responses.ResponseStreamEventUnion) {
	i := a.index[e.OutputIndex]
	if i == nil {
		a.begin(e)
		i = a.index[e.OutputIndex]
	}
	a.content = true
	switch i.kind {
	case itemReasoning:
		a.think(i, e.Item)
	case itemCall:
		// Servers may send the arguments only here.
		if i.text.Len() == 0 {
			a.grow(e.OutputIndex, itemCall, e.Item.Arguments.OfString)
		}
	case itemMessage:
		i.phase = cmp.Or(i.phase, event.PhaseOf(string(e.Item.Phase)))
		if i.text.Len() > 0 || i.refusal.Len() > 0 {
			return
		}
		for _, c := range e.Item.Content {
			a.grow(e.OutputIndex, itemMessage, c.Text)
			i.refusal.WriteString(c.Refusal)
			a.size += len(c.Refusal)
		}
	}
}

// think records a reasoning item, if it can be sent back: with its id and its encrypted content.
func (a *items) think(i *item, given responses.ResponseOutputItemUnion) {
	if given.ID == "" || given.EncryptedContent == "" {
		return
	}
	var summaries []string
	for _, s := range given.Summary {
		summaries = append(summaries, s.Text)
	}
	r := event.Reasoning{
		Kind: kindEncrypted, ID: given.ID, Data: given.EncryptedContent, Summary: strings.Join(summaries, "\n\n"),
	}
	if a.reasoning+r.Bytes() > event.MaxReasoningBytes {
		return
	}
	a.reasoning += r.Bytes()
	i.thought = &r
}

// end records the end of the response, and its usage.
func (a *items) end(e responses.ResponseStreamEventUnion) {
	a.status, a.reason = strings.TrimPrefix(e.Type, "response."), e.Response.IncompleteDetails.Reason
	u := e.Response.Usage
	a.usage = model.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.InputTokensDetails.CachedTokens, CacheWriteTokens: u.InputTokensDetails.CacheWriteTokens,
	}
	if a.status == "failed" {
		a.failed = &problem{Code: string(e.Response.Error.Code), Message: e.Response.Error.Message}
	}
}

// text is that of the response so far.
func (a *items) text() string {
	var text, refusal strings.Builder
	for _, i := range a.all {
		if i.kind == itemMessage {
			text.WriteString(i.text.String())
			refusal.WriteString(i.refusal.String())
		}
	}
	if text.Len() == 0 {
		return refusal.String()
	}
	return text.String()
}

// response returns the response so far.
func (a *items) response(asked string) model.Response {
	r := model.Response{Text: a.text(), Usage: a.usage, ResponseID: a.id, Model: a.model}
	if r.Model == "" {
		r.Model = asked
	}
	for _, i := range a.all {
		switch {
		case i.kind == itemCall:
			r.ToolCalls = append(r.ToolCalls, model.ToolCall{ProviderID: i.call, Name: i.name, Arguments: i.text.String()})
			r.Content = append(r.Content, model.CallPart(len(r.ToolCalls)))
		case i.kind == itemMessage:
			r.Content = append(r.Content, model.Content{Text: i.text.String(), Phase: i.phase})
			r.Phase = i.phase
		case i.thought != nil:
			r.Content = append(r.Content, model.ReasoningPart(*i.thought))
		}
	}
	return r
}

// complete is a response that the model has ended.
func (a *items) complete(asked string) (*model.Response, error) {
	r := a.response(asked)
	refused := slices.ContainsFunc(a.all, func(i *item) bool { return i.refusal.Len() > 0 })
	switch {
	case a.status == statusIncomplete && a.reason == reasonFilter:
		r.FinishReason = reasonFilter
		return provider.Filtered(r), nil
	case a.status == statusIncomplete:
		r.FinishReason = provider.SafeCode(a.reason, "")
		return provider.CutShort(name, r)
	case refused:
		r.FinishReason = finishRefusal
		return provider.Filtered(r), nil
	case len(r.ToolCalls) > 0:
		r.FinishReason = model.FinishToolCalls
	default:
		r.FinishReason = model.FinishStop
	}
	return &r, nil
}

// filtered is a response that a filter has prevented or cut off, with the server's word for it.
func (a *items) filtered(asked, word string) *model.Response {
	r := a.response(asked)
	r.FinishReason = word
	return provider.Filtered(r)
}
