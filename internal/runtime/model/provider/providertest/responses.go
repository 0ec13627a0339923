package providertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
)

// Responses plays OpenAI's Responses API without storage, for a model that reasons. What it refuses is from
//
//   - github.com/microsoft/agent-framework-go/pull/784 (2026-08): a reasoning item has its id and a summary, which may
//     be empty, and no text;
//   - github.com/vercel/ai/issues/7543 (2025-07): an item that is only named by its id is not found, as nothing is
//     stored;
//   - github.com/coder/mux/pull/59 (2025-10): reasoning has the item behind it that it was given with;
//   - github.com/openai/codex/issues/8145 (2025-12): encrypted content that cannot be verified;
//   - openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/gpt-5-4 (read 2026-11) and the SDK's
//     description of phase: every message of the model comes back with the phase that it was given with, and no other
//     message has one. The API answers worse without it; the double refuses;
//   - help.openai.com/en/articles/5428082 (read 2026-11): safety_identifier is a hash, or the id of a session; with at
//     most 64 characters (hexdocs.pm/ex_openai, CreateModelResponseProperties, read 2026-11);
//   - github.com/openai/openai-dotnet/issues/759 (2025-10), which cites the API reference: the output of a call is a
//     text, or a list of texts, images and files;
//   - developers.openai.com/api/docs/guides/images-vision (read 2026-11): 1,500 images in a request, and 500 in earlier
//     versions of the page. The double has the lower limit, and the words of
//     github.com/the-open-agent/openagent/issues/874 (2024-06);
//   - the SDK's description of input items, tools, store and include (openai-go v3.96.0).
type Responses struct{}

// maxOpenAIImages is the number of images in a request.
const maxOpenAIImages = 500

var (
	responsesFields = []string{
		"model", "input", "instructions", "store", "include", "tools", "tool_choice", "max_output_tokens", "reasoning",
		"stream", "temperature", "top_p", "text", "truncation", "parallel_tool_calls", "safety_identifier",
	}
	functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// Conversation implements Dialect.
func (Responses) Conversation() string { return "input" }

func refusedByResponses(code, param, format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Body: encoded(map[string]any{"error": map[string]any{
		"message": fmt.Sprintf(format, args...), "type": "invalid_request_error", "param": param, "code": code,
	}})}
}

// RefusesReasoning implements Dialect.
func (Responses) RefusesReasoning() *Refusal {
	return refusedByResponses(
		"invalid_encrypted_content",
		"",
		"The encrypted content gAAA...DQ== could not be verified. Reason: Encrypted content could not be decrypted or "+
			"parsed.",
	)
}

// RefusesImage implements Dialect (github.com/vercel/ai/issues/8857, 2025-09).
func (Responses) RefusesImage(url string) *Refusal {
	return refusedByResponses("invalid_value", "url", "Timeout while downloading %s", url)
}

// Stream implements Dialect.
func (Responses) Stream(d *Double, s Step) string {
	about := map[string]any{
		"id":     "resp_1",
		"object": "response",
		"model":  "gpt-test",
		"status": "in_progress",
		"output": []any{},
	}
	all := []map[string]any{{"type": "response.created", "response": about}}
	add := func(index int, kind string, fields map[string]any) {
		fields["type"], fields["output_index"], fields["sequence_number"] = "response."+kind, index, len(all)
		all = append(all, fields)
	}
	for i, p := range s {
		var item map[string]any
		switch {
		case p.Thought != "" || p.Redacted:
			id := fmt.Sprintf("rs_%d", i)
			item = map[string]any{"type": "reasoning", "id": id, "summary": []any{}}
			add(i, "output_item.added", map[string]any{"item": item})
			item = map[string]any{"type": "reasoning", "id": id, "summary": []any{}, "encrypted_content": d.mint(id)}
			if len(p.Thought) > 1<<16 {
				item["summary"] = []any{map[string]any{"type": "summary_text", "text": p.Thought}}
			}
		case p.Call != nil:
			item = map[string]any{
				"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": p.Call.ID, "name": p.Call.Name, "arguments": "",
			}
			add(i, "output_item.added", map[string]any{"item": item})
			half := len(p.Call.Arguments) / 2
			add(i, "function_call_arguments.delta", map[string]any{"delta": p.Call.Arguments[:half]})
			add(i, "function_call_arguments.delta", map[string]any{"delta": p.Call.Arguments[half:]})
			item = map[string]any{
				"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": p.Call.ID, "name": p.Call.Name,
				"arguments": p.Call.Arguments, "status": "completed",
			}
		default:
			id := fmt.Sprintf("msg_%d", i)
			item = map[string]any{"type": "message", "id": id, "role": "assistant", "content": []any{}}
			if p.Phase != "" {
				item["phase"] = p.Phase
				d.mark(p.Text, p.Phase)
			}
			add(i, "output_item.added", map[string]any{"item": maps.Clone(item)})
			add(i, "output_text.delta", map[string]any{"item_id": id, "content_index": 0, "delta": p.Text})
			item["status"], item["content"] = "completed", []any{
				map[string]any{"type": "output_text", "text": p.Text, "annotations": []any{}},
			}
		}
		add(i, "output_item.done", map[string]any{"item": item})
	}
	return named(append(all, map[string]any{"type": "response.completed", "response": map[string]any{
		"id": "resp_1", "object": "response", "model": "gpt-test", "status": "completed", "output": []any{},
		"usage": map[string]any{"input_tokens": 10, "output_tokens": 9, "total_tokens": 19},
	}})...)
}

// Check implements Dialect.
func (r Responses) Check(d *Double, body map[string]any) *Refusal {
	if field := only(body, responsesFields...); field != "" {
		return refusedByResponses("unknown_parameter", field, "Unknown parameter: '%s'.", field)
	}
	if stored, given := body["store"].(bool); !given || stored {
		return refusedByResponses("zero_data_retention", "store", "The runtime keeps nothing at a provider.")
	}
	d.user = text(body["safety_identifier"])
	if len(d.user) > 64 || strings.Contains(d.user, "@") {
		return refusedByResponses("string_above_max_length", "safety_identifier", "Invalid 'safety_identifier'.")
	}
	included := false
	for _, name := range list(body["include"]) {
		included = included || text(name) == "reasoning.encrypted_content"
	}
	if !included {
		return refusedByResponses("missing", "include", "Without it the reasoning of this response could not be given back.")
	}
	if n := imagesIn(body["input"], isTyped("input_image")); n > maxOpenAIImages {
		return refusedByResponses("invalid_value", "input", "Too many images in request. Max is %d.", maxOpenAIImages)
	}
	for i, t := range list(body["tools"]) {
		tool := object(t)
		if text(tool["type"]) != "function" || !functionName.MatchString(text(tool["name"])) ||
			object(tool["parameters"]) == nil {
			return refusedByResponses("missing_required_parameter", "tools", "Missing required parameter: 'tools[%d].name'.", i)
		}
		if _, given := tool["strict"].(bool); !given {
			return refusedByResponses(
				"missing_required_parameter",
				"tools",
				"Missing required parameter: 'tools[%d].strict'.",
				i,
			)
		}
	}
	return r.input(d, list(body["input"]))
}

// input checks the items of the conversation.
func (r Responses) input(d *Double, items []any) *Refusal {
	open := map[string]bool{}
	for i, it := range items {
		item := object(it)
		at := fmt.Sprintf("input[%d]", i)
		switch kind := text(item["type"]); kind {
		case "reasoning":
			if refusal := r.reasoning(d, items, i, item); refusal != nil {
				return refusal
			}
		case "function_call":
			if item["id"] != nil && (i == 0 || text(object(items[i-1])["type"]) != "reasoning") {
				return refusedByResponses("", "input", "Item '%s' of type 'function_call' was provided without its required "+
					"'reasoning' item.", text(item["id"]))
			}
			if id := text(item["call_id"]); id == "" || len(id) > 64 || !json.Valid([]byte(text(item["arguments"]))) {
				return refusedByResponses("string_above_max_length", at, "Invalid '%s.call_id'.", at)
			}
			open[text(item["call_id"])] = true
		case "function_call_output":
			if !open[text(item["call_id"])] {
				return refusedByResponses(
					"",
					"input",
					"No tool call found for function call output with call_id %s.",
					text(item["call_id"]),
				)
			}
			delete(open, text(item["call_id"]))
			if refusal := r.output(at, item["output"]); refusal != nil {
				return refusal
			}
		case "message", "":
			if item["id"] != nil || text(item["role"]) == "" || item["content"] == nil {
				return refusedByResponses("", "input", "Item with id '%s' not found. Items are not persisted when `store` is set "+
					"to false.", text(item["id"]))
			}
			if refusal := r.phase(d, at, item); refusal != nil {
				return refusal
			}
		default:
			return refusedByResponses("invalid_value", at, "Invalid value: '%s'.", kind)
		}
	}
	for id := range open {
		return refusedByResponses("", "input", "No tool output found for function call %s.", id)
	}
	return nil
}

// output checks the output of a call.
func (Responses) output(at string, output any) *Refusal {
	if _, isText := output.(string); isText {
		return nil
	}
	parts := list(output)
	if len(parts) == 0 {
		return refusedByResponses("missing_required_parameter", at, "Missing required parameter: '%s.output'.", at)
	}
	for _, p := range parts {
		part := object(p)
		switch kind := text(part["type"]); {
		case kind == "input_text":
		case kind != "input_image":
			return refusedByResponses("invalid_value", at, "Invalid value: '%s'. Supported values are: 'input_text', "+
				"'input_image', and 'input_file'.", kind)
		case !isImageURL(text(part["image_url"])):
			return refusedByResponses("invalid_value", at, "Invalid '%s.output'. Expected a base64-encoded data URL with an "+
				"image MIME type.", at)
		}
	}
	return nil
}

// phase checks the phase of a message.
func (Responses) phase(d *Double, at string, item map[string]any) *Refusal {
	phase := text(item["phase"])
	switch {
	case text(item["role"]) != "assistant" && item["phase"] != nil:
		return refusedByResponses("invalid_value", at, "Only messages of the model have a phase.")
	case phase != "" && phase != "commentary" && phase != "final_answer":
		return refusedByResponses("invalid_value", at, "Invalid value: '%s'.", phase)
	case d.phases[text(item["content"])] != "" && phase != d.phases[text(item["content"])]:
		return refusedByResponses("missing", at, "The message came with another phase than '%s'.", phase)
	}
	return nil
}

// reasoning checks a reasoning item.
func (r Responses) reasoning(d *Double, items []any, i int, item map[string]any) *Refusal {
	id := text(item["id"])
	next := ""
	if i+1 < len(items) {
		next = text(object(items[i+1])["type"])
		if next == "" && text(object(items[i+1])["role"]) == "assistant" {
			next = "message"
		}
	}
	_, summarized := item["summary"].([]any)
	switch {
	case !summarized:
		return refusedByResponses(
			"missing_required_parameter",
			"input",
			"Missing required parameter: 'input[%d].summary'.",
			i,
		)
	case id == "":
		return refusedByResponses("invalid_value", "input", "Invalid 'input[%d].id': ''.", i)
	case len(list(item["content"])) > 0:
		return refusedByResponses("array_above_max_length", "input", "Invalid 'input[%d].content': array too long.", i)
	case text(item["encrypted_content"]) == "":
		return refusedByResponses("", "input", "Item with id '%s' not found. Items are not persisted when `store` is set to "+
			"false. Try again with `store` set to true, or remove this item from your input.", id)
	case !d.verify(text(item["encrypted_content"]), id):
		return r.RefusesReasoning()
	case next != "function_call" && next != "message" && next != "reasoning":
		return refusedByResponses(
			"",
			"input",
			"Item '%s' of type 'reasoning' was provided without its required following item.",
			id,
		)
	}
	return nil
}
