package openai

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// kindContent is the field in which most servers, such as DeepSeek's, send the reasoning of the model. It is also the
// kind of that reasoning, and so is the other field.
const (
	kindContent   = "reasoning_content"
	kindReasoning = "reasoning"
)

// thoughts are the fields in which servers send the reasoning of the model, which the SDK does not support. Some
// servers send it in both: the first one counts.
var thoughts = []string{kindContent, kindReasoning}

// think collects the reasoning of the model. Reasoning that exceeds the bound of a response is dropped as a whole: it
// can only be sent back whole.
func (a *answer) think(delta sdk.ChatCompletionChunkChoiceDelta) {
	for _, kind := range thoughts {
		var text string
		if json.Unmarshal([]byte(delta.JSON.ExtraFields[kind].Raw()), &text) != nil || text == "" {
			continue
		}
		if a.kind == "" {
			a.kind = kind
		}
		if kind != a.kind || a.excess {
			continue
		}
		if a.thought.Len()+len(text) > event.MaxReasoningBytes-len(kind) {
			a.thought.Reset()
			a.excess = true
			continue
		}
		a.thought.WriteString(text)
	}
}

// content is the response so far with its reasoning, which comes first; nil without.
func (a *answer) content(text string) []model.Content {
	if a.thought.Len() == 0 {
		return nil
	}
	content := []model.Content{
		model.ReasoningPart(event.Reasoning{Kind: a.kind, Summary: a.thought.String()}),
		model.TextPart(text),
	}
	for i := range a.calls {
		content = append(content, model.CallPart(i+1))
	}
	return content
}

// thoughtOf is the reasoning of a message for a server: the field and its text. DeepSeek demands the field with every
// message that calls tools, also when it is empty (api-docs.deepseek.com/guides/thinking_mode, as quoted in
// github.com/anomalyco/opencode/issues/24722, 2026-04; github.com/deepseek-ai/deepseek-harness/discussions/739,
// 2026-07), so that a message of another model has an empty one. demanded reports whether the server is one that does.
func thoughtOf(entry provider.Entry, demanded bool) (field, text string, found bool) {
	for _, p := range entry.Message.Content {
		if r := p.Reasoning; r != nil && (r.Kind == kindContent || r.Kind == kindReasoning) {
			return r.Kind, r.Summary, true
		}
	}
	return kindContent, "", demanded && len(entry.Calls) > 0
}

// demands reports whether the server demands the field with every message that calls tools: it is DeepSeek's, or has
// sent it in this conversation.
func (d *driver) demands(entries []provider.Entry) bool {
	if d.own {
		return false
	}
	if d.deepSeek {
		return true
	}
	for _, entry := range entries {
		if field, _, found := thoughtOf(entry, false); found && field == kindContent {
			return true
		}
	}
	return false
}

// isDeepSeek reports whether a host is DeepSeek's.
func isDeepSeek(host string) bool {
	return strings.HasSuffix("."+strings.ToLower(strings.TrimSuffix(host, ".")), ".deepseek.com")
}

// reasoningField matches the fields in the message of a server that refuses them, or misses them. DeepSeek's:
// github.com/anomalyco/opencode/issues/24083 (2026-04). It does not match reasoning_effort.
var reasoningField = regexp.MustCompile(`\breasoning(_content|_details)?\b`)

// reasoningItems matches the messages of the Responses API about a misplaced or missing reasoning item
// (github.com/coder/mux/pull/59, 2025-10; github.com/vercel/ai/issues/7543, 2025-07).
var reasoningItems = regexp.MustCompile(`(?i)of type 'reasoning'|required 'reasoning' item|item with id 'rs_`)

// refusesReasoning reports whether a server refused a request because of the reasoning in it. OpenAI's own is sent none
// on Chat Completions, and has words of its own for it on Responses
// (github.com/openai/codex/issues/8145, 2025-12).
func (d *driver) refusesReasoning(status int, p problem) bool {
	if status == http.StatusBadRequest &&
		(p.word() == "invalid_encrypted_content" || reasoningItems.MatchString(p.Message)) {
		return true
	}
	return !d.own && (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) &&
		reasoningField.MatchString(strings.ToLower(p.Message+" "+p.Param))
}
