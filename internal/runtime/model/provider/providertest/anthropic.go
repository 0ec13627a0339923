package providertest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Anthropic plays the Messages API. What it refuses, and in which words, is from
//
//   - platform.claude.com/docs/en/build-with-claude/thinking-tool-workflows (read 2026-11): thoughts come back complete
//     and unchanged within a tool loop;
//   - github.com/lbjlaq/Antigravity-Manager/issues/139 (2025-12): with thinking.type "enabled" the last message of the
//     model in a tool loop begins with a thought;
//   - github.com/anthropics/claude-code/issues/63404 (2026-05): thoughts of the last message cannot be changed;
//   - github.com/anthropics/anthropic-sdk-python/issues/1598 (2026-08): a signature that does not belong to the text,
//     the model or the account;
//   - github.com/modelflow-ai/.github/pull/158: a thought without a signature cannot be given back;
//   - github.com/vercel/ai/pull/12419 (2026-02), which cites the API reference: metadata has user_id alone, of at most
//     256 characters; github.com/BerriAI/litellm/pull/11432 (2025-06): it is no address of a person;
//   - the words of public clients of the API (read 2026-11): an image at an address that cannot be fetched;
//   - github.com/anthropics/claude-code/issues/3073 (2025-07), 12750 (2025-11) and 13131 (2025-12): the formats of
//     images, also within a result, that they are not empty, and that they are of the format that is given; 19631
//     (2026-01) and github.com/daya0576/pi-imessage/issues/5 (2026-03): the size of an image in base64;
//   - github.com/vellum-ai/vellum-assistant/pull/18387 (2026-03), github.com/caozhiyuan/copilot-api/pull/196 (2026-04):
//     the result of a failed call has texts alone;
//   - platform.claude.com/docs/en/build-with-claude/vision (read 2026-11): 100 images in a request for a model with a
//     context window of 200,000 tokens, 600 for others. The double has the lower limit, and the words of
//     github.com/anthropics/claude-code/issues/3397 (2025-07), 19822 (2026-01) and 24541 (2026-02);
//   - the SDK's description of max_tokens, budget_tokens, tool_use.id and roles (anthropic-sdk-go v1.84.0).
type Anthropic struct{}

// maxAnthropicImage is the size of an image in base64.
const maxAnthropicImage = 5 << 20

var (
	anthropicID     = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	anthropicFields = []string{
		"model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "top_p", "stop_sequences",
		"stream", "thinking", "output_config", "metadata", "cache_control",
	}
)

// Conversation implements Dialect.
func (Anthropic) Conversation() string { return "messages" }

func refusedByAnthropic(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Body: encoded(map[string]any{
		"type": "error",
		"error": map[string]any{
			"type": "invalid_request_error", "message": fmt.Sprintf(format, args...),
		},
	})}
}

// RefusesReasoning implements Dialect.
func (Anthropic) RefusesReasoning() *Refusal {
	return refusedByAnthropic("messages.1.content.0: Invalid `signature` in `thinking` block")
}

// RefusesImage implements Dialect.
func (Anthropic) RefusesImage(string) *Refusal {
	return refusedByAnthropic("Unable to download the file. Please verify the URL and try again.")
}

// Stream implements Dialect.
func (Anthropic) Stream(d *Double, s Step) string {
	all := []map[string]any{{"type": "message_start", "message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": []any{},
		"stop_reason": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
	}}}
	reason := "end_turn"
	for i, p := range s {
		var block map[string]any
		var deltas []map[string]any
		switch {
		case p.Redacted:
			block = map[string]any{"type": "redacted_thinking", "data": d.mint("redacted")}
		case p.Thought != "":
			block = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
			half := len(p.Thought) / 2
			deltas = []map[string]any{
				{"type": "thinking_delta", "thinking": p.Thought[:half]},
				{"type": "thinking_delta", "thinking": p.Thought[half:]},
				{"type": "signature_delta", "signature": d.mint(p.Thought)},
			}
		case p.Call != nil:
			reason = "tool_use"
			block = map[string]any{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Name, "input": map[string]any{}}
			deltas = []map[string]any{{"type": "input_json_delta", "partial_json": p.Call.Arguments}}
		default:
			block = map[string]any{"type": "text", "text": ""}
			deltas = []map[string]any{{"type": "text_delta", "text": p.Text}}
		}
		all = append(all, map[string]any{"type": "content_block_start", "index": i, "content_block": block})
		for _, delta := range deltas {
			all = append(all, map[string]any{"type": "content_block_delta", "index": i, "delta": delta})
		}
		all = append(all, map[string]any{"type": "content_block_stop", "index": i})
	}
	return named(append(all,
		map[string]any{
			"type": "message_delta", "delta": map[string]any{"stop_reason": reason}, "usage": map[string]any{"output_tokens": 9},
		},
		map[string]any{"type": "message_stop"})...)
}

// Check implements Dialect.
func (a Anthropic) Check(d *Double, body map[string]any) *Refusal {
	if field := only(body, anthropicFields...); field != "" {
		return refusedByAnthropic("%s: Extra inputs are not permitted", field)
	}
	if text(body["model"]) == "" || number(body["max_tokens"]) < 1 {
		return refusedByAnthropic("max_tokens: Field required")
	}
	if refusal := a.metadata(d, body["metadata"]); refusal != nil {
		return refusal
	}
	thinking := object(body["thinking"])
	if text(thinking["type"]) == "enabled" {
		budget := number(thinking["budget_tokens"])
		switch {
		case budget < 1024:
			return refusedByAnthropic("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		case budget >= number(body["max_tokens"]):
			return refusedByAnthropic("`max_tokens` must be greater than `thinking.budget_tokens`")
		case body["temperature"] != nil:
			return refusedByAnthropic("`temperature` may only be set to 1 when thinking is enabled")
		}
	}
	messages := list(body["messages"])
	if len(messages) == 0 || text(object(messages[0])["role"]) != "user" {
		return refusedByAnthropic("messages: first message must use the \"user\" role")
	}
	for i, m := range messages {
		if refusal := a.message(d, messages, i, object(m)); refusal != nil {
			return refusal
		}
	}
	if n := imagesIn(messages, isTyped("image")); n > 100 {
		return refusedByAnthropic("Too much media: 0 document pages + %d images > 100", n)
	}
	return a.loop(messages, text(thinking["type"]) == "enabled")
}

// metadata checks the user in the metadata of a request.
func (Anthropic) metadata(d *Double, given any) *Refusal {
	if given == nil {
		return nil
	}
	user := text(object(given)["user_id"])
	switch field := only(object(given), "user_id"); {
	case field != "":
		return refusedByAnthropic("metadata.%s: Extra inputs are not permitted", field)
	case user == "":
		return refusedByAnthropic("metadata.user_id: Input should be a valid string")
	case len(user) > 256:
		return refusedByAnthropic("metadata.user_id: String should have at most 256 characters")
	case strings.Contains(user, "@"):
		return refusedByAnthropic("metadata.user_id: it is not an opaque identifier")
	}
	d.user = user
	return nil
}

// message checks one message, and the results of its calls in the next one.
func (a Anthropic) message(d *Double, messages []any, i int, m map[string]any) *Refusal {
	blocks := list(m["content"])
	if len(blocks) == 0 {
		return refusedByAnthropic("messages.%d: content must not be empty", i)
	}
	var calls []string
	for j, b := range blocks {
		block := object(b)
		at := fmt.Sprintf("messages.%d.content.%d", i, j)
		switch kind := text(block["type"]); kind {
		case "text":
			if strings.TrimSpace(text(block["text"])) == "" {
				return refusedByAnthropic("%s: text content blocks must contain non-whitespace text", at)
			}
		case "tool_use":
			if !anthropicID.MatchString(text(block["id"])) || object(block["input"]) == nil {
				return refusedByAnthropic("%s.tool_use.id: String should match pattern", at)
			}
			calls = append(calls, text(block["id"]))
		case "thinking", "redacted_thinking":
			if refusal := a.thought(d, text(m["role"]), at, block, j == len(blocks)-1); refusal != nil {
				return refusal
			}
		case "tool_result":
			if refusal := a.result(at, block); refusal != nil {
				return refusal
			}
		case "image":
			if refusal := a.image(at, block); refusal != nil {
				return refusal
			}
		default:
			return refusedByAnthropic("%s: Input tag '%s' found does not match any of the expected tags", at, kind)
		}
	}
	return results(messages, i, calls)
}

// result checks the content of a result.
func (a Anthropic) result(at string, block map[string]any) *Refusal {
	for i, b := range list(block["content"]) {
		at, inner := fmt.Sprintf("%s.tool_result.content.%d", at, i), object(b)
		switch kind := text(inner["type"]); kind {
		case "text":
			if text(inner["text"]) == "" {
				return refusedByAnthropic("messages: text content blocks must be non-empty")
			}
		case "image":
			if block["is_error"] == true {
				return refusedByAnthropic("%s: all content must be type \"text\" if \"is_error\" is true", at)
			}
			if refusal := a.image(at, inner); refusal != nil {
				return refusal
			}
		default:
			return refusedByAnthropic("%s: Input tag '%s' found does not match any of the expected tags", at, kind)
		}
	}
	return nil
}

// image checks an image.
func (Anthropic) image(at string, block map[string]any) *Refusal {
	source := object(block["source"])
	if text(source["type"]) != "base64" {
		return nil
	}
	kind, data := text(source["media_type"]), text(source["data"])
	switch {
	case !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, kind):
		return refusedByAnthropic(
			"%s.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' "+
				"or 'image/webp'",
			at,
		)
	case data == "":
		return refusedByAnthropic("%s.image.source.base64: image cannot be empty", at)
	case len(data) > maxAnthropicImage:
		return refusedByAnthropic("%s.image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", at,
			len(data), maxAnthropicImage)
	case !isBase64(data) || !isOfType(data, kind):
		return refusedByAnthropic("%s.image.source.base64.data: Image does not match the provided media type %s", at, kind)
	}
	return nil
}

// thought checks a block of thinking.
func (Anthropic) thought(d *Double, role, at string, block map[string]any, last bool) *Refusal {
	kind, data, content := text(block["type"]), text(block["signature"]), text(block["thinking"])
	if kind == "redacted_thinking" {
		data, content = text(block["data"]), "redacted"
	}
	switch {
	case role != "assistant":
		return refusedByAnthropic("%s: `%s` blocks are not permitted within `user` turns", at, kind)
	case data == "":
		return refusedByAnthropic("%s.thinking.signature: Field required", at)
	case !d.verify(data, content):
		return refusedByAnthropic("%s: Invalid `signature` in `thinking` block", at)
	case last:
		return refusedByAnthropic("%s: The final block in an assistant message cannot be `thinking`.", at)
	}
	return nil
}

// results checks that the calls of a message have their results at the beginning of the next one.
func results(messages []any, i int, calls []string) *Refusal {
	if len(calls) == 0 {
		return nil
	}
	var next []any
	if i+1 < len(messages) {
		next = list(object(messages[i+1])["content"])
	}
	for j, id := range calls {
		if j >= len(next) || text(object(next[j])["tool_use_id"]) != id {
			return refusedByAnthropic(
				"messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i, id)
		}
	}
	return nil
}

// loop checks the last message of the model when the conversation ends with results.
func (Anthropic) loop(messages []any, enabled bool) *Refusal {
	if len(messages) < 2 || text(object(messages[len(messages)-1])["role"]) != "user" {
		return nil
	}
	inLoop := false
	for _, b := range list(object(messages[len(messages)-1])["content"]) {
		inLoop = inLoop || text(object(b)["type"]) == "tool_result"
	}
	first := text(object(list(object(messages[len(messages)-2])["content"])[0])["type"])
	if inLoop && enabled && first != "thinking" && first != "redacted_thinking" {
		return refusedByAnthropic("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. "+
			"When `thinking` is enabled, a final `assistant` message must start with a thinking block", len(messages)-2, first)
	}
	return nil
}
