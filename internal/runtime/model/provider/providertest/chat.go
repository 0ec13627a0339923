package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Chat plays Chat Completions of a server that thinks. Demands makes it DeepSeek's in thinking mode, which refuses a
// message with tool calls without reasoning_content, an empty one included (api-docs.deepseek.com/guides/thinking_mode,
// as quoted in github.com/anomalyco/opencode/issues/24722, 2026-04, with the words of issues/24083, 2026-04;
// github.com/deepseek-ai/deepseek-harness/discussions/739, 2026-07). Its rules for tool messages are from OpenAI's
// description of the API (openai-go v3.96.0): they have texts alone, as have all messages but those of the user
// (github.com/OpenHands/OpenHands/issues/7700, 2025-04; github.com/openai/openai-openapi/issues/523, 2026-02). Such
// servers refuse what OpenAI has in addition (github.com/skye-harris/hass_local_openai_llm/issues/59, 2026-04). The
// number of images is that of Responses.
type Chat struct {
	// Field in which the server sends the model's reasoning.
	Field string
	// Demands reports whether it refuses calls without it.
	Demands bool
}

var chatFields = map[string][]string{
	"system":    {"role", "content", "name"},
	"user":      {"role", "content", "name"},
	"assistant": {"role", "content", "name", "tool_calls", "refusal"},
	"tool":      {"role", "content", "tool_call_id"},
}

// Conversation implements Dialect.
func (Chat) Conversation() string { return "messages" }

func refusedByChat(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Body: encoded(map[string]any{"error": map[string]any{
		"message": fmt.Sprintf(
			format,
			args...),
		"type":  "invalid_request_error",
		"param": nil,
		"code":  "invalid_request_error",
	}})}
}

// RefusesReasoning implements Dialect. The text is that of servers that do not know the field
// (github.com/janhq/jan/issues/8136, 2026-05).
func (c Chat) RefusesReasoning() *Refusal {
	return refusedByChat("'messages.1' : for 'role:assistant' the following must be satisfied"+
		"[('messages.1' : property '%s' is unsupported)]", c.Field)
}

// RefusesImage implements Dialect (github.com/agentscope-ai/agentscope-java/issues/2700, 2026-08).
func (Chat) RefusesImage(string) *Refusal {
	return refusedByChat("<400> InternalError.Algo.InvalidParameter: Failed to download multimodal content")
}

// Stream implements Dialect. What the model thinks comes before all other parts.
func (c Chat) Stream(d *Double, s Step) string {
	var all []any
	chunk := func(delta map[string]any, finish any) {
		all = append(all, map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "chat-test",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	thought, finish, calls := "", "stop", 0
	for _, p := range s {
		thought += p.Thought
	}
	if thought != "" {
		d.mint(thought)
		half := len(thought) / 2
		chunk(map[string]any{"role": "assistant", "content": nil, c.Field: thought[:half]}, nil)
		chunk(map[string]any{"content": nil, c.Field: thought[half:]}, nil)
	}
	for _, p := range s {
		switch {
		case p.Text != "":
			chunk(map[string]any{"content": p.Text}, nil)
		case p.Call != nil:
			finish = "tool_calls"
			half := len(p.Call.Arguments) / 2
			chunk(map[string]any{"tool_calls": []any{map[string]any{
				"index": calls, "id": p.Call.ID, "type": "function",
				"function": map[string]any{"name": p.Call.Name, "arguments": p.Call.Arguments[:half]},
			}}}, nil)
			chunk(map[string]any{"tool_calls": []any{map[string]any{
				"index": calls, "function": map[string]any{"arguments": p.Call.Arguments[half:]},
			}}}, nil)
			calls++
		}
	}
	chunk(map[string]any{}, finish)
	all = append(all, map[string]any{
		"id": "chatcmpl-1", "choices": []any{}, "usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 9},
	})
	return events(all...) + "data: [DONE]\n\n"
}

// Check implements Dialect.
func (c Chat) Check(d *Double, body map[string]any) *Refusal {
	for _, field := range []string{"metadata", "safety_identifier", "store", "max_completion_tokens"} {
		if body[field] != nil {
			return refusedByChat("`%s` is not supported with this model", field)
		}
	}
	messages := list(body["messages"])
	if n := imagesIn(messages, isTyped("image_url")); n > maxOpenAIImages {
		return refusedByChat("Too many images in request. Max is %d.", maxOpenAIImages)
	}
	var open []string
	for i, m := range messages {
		message := object(m)
		role := text(message["role"])
		allowed, known := chatFields[role]
		if !known {
			return refusedByChat("messages[%d].role: unknown variant `%s`", i, role)
		}
		if field := only(message, append(allowed, c.Field)...); field != "" {
			return refusedByChat("'messages.%d' : property '%s' is unsupported", i, field)
		}
		if refusal := c.content(i, role, message["content"]); refusal != nil {
			return refusal
		}
		if role == "tool" {
			if len(open) == 0 || text(message["tool_call_id"]) != open[0] {
				return refusedByChat("messages[%d]: messages with role 'tool' must follow their 'tool_calls'", i)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return refusedByChat("An assistant message with 'tool_calls' must be followed by tool messages responding to "+
				"each 'tool_call_id': %s", open[0])
		}
		if role == "assistant" {
			if refusal := c.assistant(d, message); refusal != nil {
				return refusal
			}
			for _, call := range list(message["tool_calls"]) {
				open = append(open, text(object(call)["id"]))
			}
		}
	}
	if len(open) > 0 {
		return refusedByChat("An assistant message with 'tool_calls' must be followed by tool messages")
	}
	return nil
}

// content checks the parts of a message; its content may be a text as well.
func (Chat) content(i int, role string, content any) *Refusal {
	for _, p := range list(content) {
		part := object(p)
		switch kind := text(part["type"]); {
		case kind == "text":
		case kind != "image_url":
			return refusedByChat("Invalid value: '%s'. Supported values are: 'text', 'image_url'.", kind)
		case role != "user":
			return refusedByChat("Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this "+
				"message with role '%s' contains an image URL.", i, role)
		case !isImageURL(text(object(part["image_url"])["url"])):
			return refusedByChat("Invalid 'messages[%d]'. Expected a base64-encoded data URL with an image MIME type.", i)
		}
	}
	return nil
}

// assistant checks a message of the model.
func (c Chat) assistant(d *Double, message map[string]any) *Refusal {
	calls := list(message["tool_calls"])
	thought, given := message[c.Field]
	if c.Demands && len(calls) > 0 && !given {
		return refusedByChat("The `%s` in the thinking mode must be passed back to the API.", c.Field)
	}
	for data, m := range d.minted {
		if given && m.content == text(thought) && m.account == d.account {
			d.returned[data] = true
		}
	}
	for _, call := range calls {
		if !json.Valid([]byte(text(object(object(call)["function"])["arguments"]))) {
			return refusedByChat("tool_calls.function.arguments: invalid JSON")
		}
	}
	return nil
}
