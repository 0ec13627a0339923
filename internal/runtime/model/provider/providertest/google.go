package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Google plays the Gemini API for a model since Gemini 3. What it refuses is from
// ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11): the first call of each step of the current turn has
// its signature, at the part that it came with, or the documented placeholder; the current turn begins with the newest
// message of the user other than a result. The words are those of github.com/lbjlaq/Antigravity-Manager/issues/139
// (2025-12) and github.com/NoeFabris/opencode-antigravity-auth/issues/368 (2026-02). That a part has one kind of data,
// and that there are as many results as calls, is from ai.google.dev/api/caching#Part and
// ai.google.dev/gemini-api/docs/function-calling (read 2026-11). It has no field for the user: labels are for another
// backend (github.com/googleapis/python-genai/issues/2296, read 2026-11). Images of a result are nested within it, not
// beside it (github.com/google-gemini/gemini-cli/issues/17068, 2026-01; github.com/BerriAI/litellm/pull/29324,
// 2026-05), without names, to which it has no reference (github.com/googleapis/python-genai/issues/2792, 2026-07); the
// formats are those of ai.google.dev/gemini-api/docs/image-understanding (as quoted in
// github.com/microsoft/vscode/issues/286628, 2026-01), as is the number of images in a request (read 2026-11), in the
// words about other files in github.com/google-gemini/gemini-cli/issues/27724 (2026-06).
type Google struct{}

// placeholder stands for the signature of a call that another model made.
const placeholder = "skip_thought_signature_validator"

var googleFields = []string{
	"contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent",
}

// Conversation implements Dialect.
func (Google) Conversation() string { return "contents" }

func refusedByGoogle(format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Body: encoded(map[string]any{"error": map[string]any{
		"code": 400, "status": "INVALID_ARGUMENT", "message": fmt.Sprintf(format, args...),
	}})}
}

// RefusesReasoning implements Dialect.
func (Google) RefusesReasoning() *Refusal {
	return refusedByGoogle("Unable to submit request because Thought signature is not valid.")
}

// RefusesImage implements Dialect (github.com/googleapis/js-genai/issues/1385, 2026-03).
func (Google) RefusesImage(string) *Refusal {
	return refusedByGoogle("Cannot fetch content from the provided URL.")
}

// Stream implements Dialect. A thought has no part of its own: its signature is with the first call behind it, or with
// an empty text at the end, as streams have it.
func (Google) Stream(d *Double, s Step) string {
	var all []any
	chunk := func(part map[string]any) {
		all = append(all, map[string]any{
			"candidates":   []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}}},
			"modelVersion": "gemini-test", "responseId": "r1",
		})
	}
	called := false
	for _, p := range s {
		switch {
		case p.Call != nil:
			part := map[string]any{"functionCall": map[string]any{
				"id": p.Call.ID, "name": p.Call.Name, "args": json.RawMessage(p.Call.Arguments),
			}}
			if !called {
				part["thoughtSignature"] = d.mint("call " + p.Call.Name)
			}
			called = true
			chunk(part)
		case p.Text != "":
			half := len(p.Text) / 2
			chunk(map[string]any{"text": p.Text[:half]})
			chunk(map[string]any{"text": p.Text[half:]})
		}
	}
	if !called {
		chunk(map[string]any{"text": "", "thoughtSignature": d.mint("text ")})
	}
	return events(append(all, map[string]any{
		"candidates":    []any{map[string]any{"finishReason": "STOP"}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 9},
	})...)
}

// Check implements Dialect.
func (g Google) Check(d *Double, body map[string]any) *Refusal {
	if field := only(body, googleFields...); field != "" {
		return refusedByGoogle("Invalid JSON payload received. Unknown name %q: Cannot find field.", field)
	}
	contents := list(body["contents"])
	if len(contents) == 0 {
		return refusedByGoogle("* GenerateContentRequest.contents: contents is not specified")
	}
	current := 0
	for i, c := range contents {
		for _, p := range list(object(c)["parts"]) {
			if text(object(c)["role"]) == "user" && object(p)["functionResponse"] == nil {
				current = i
			}
		}
	}
	for i, c := range contents {
		if refusal := g.content(d, contents, i, object(c), i > current); refusal != nil {
			return refusal
		}
	}
	isImage := func(o map[string]any) bool { return o["inlineData"] != nil || o["fileData"] != nil }
	if n := imagesIn(contents, isImage); n > 3600 {
		return refusedByGoogle("Unable to submit request because it has %d image files but the model only supports up to "+
			"3600.", n)
	}
	return nil
}

// content checks one message.
func (g Google) content(d *Double, contents []any, i int, c map[string]any, current bool) *Refusal {
	parts, calls := list(c["parts"]), 0
	if role := text(c["role"]); role != "user" && role != "model" || len(parts) == 0 {
		return refusedByGoogle("Please use a valid role: user, model.")
	}
	for j, p := range parts {
		part := object(p)
		kinds := 0
		for _, kind := range []string{"text", "functionCall", "functionResponse", "inlineData", "fileData"} {
			if _, has := part[kind]; has {
				kinds++
			}
		}
		if kinds != 1 {
			return refusedByGoogle("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' "+
				"must have one initialized field", i, j)
		}
		if refusal := g.images(part); refusal != nil {
			return refusal
		}
		call := object(part["functionCall"])
		if refusal := g.signature(d, part, call, current && call != nil && calls == 0, j); refusal != nil {
			return refusal
		}
		if call != nil {
			calls++
		}
	}
	if refusal := g.apart(parts); refusal != nil {
		return refusal
	}
	return g.results(contents, i, calls)
}

// apart checks that results share a message with nothing else.
func (Google) apart(parts []any) *Refusal {
	results := 0
	for _, p := range parts {
		if object(p)["functionResponse"] != nil {
			results++
		}
	}
	if results > 0 && results < len(parts) {
		return refusedByGoogle("Please ensure that the number of function response parts is equal to the number of " +
			"function call parts of the function call turn.")
	}
	return nil
}

// googleFormats are the formats of images that the models read.
var googleFormats = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}

// images checks the images of a part, and of the result that it is.
func (Google) images(part map[string]any) *Refusal {
	images := []any{part}
	if response := object(part["functionResponse"]); response != nil {
		if field := only(response, "id", "name", "response", "parts"); field != "" {
			return refusedByGoogle("Invalid JSON payload received. Unknown name %q: Cannot find field.", field)
		}
		images = list(response["parts"])
		for _, image := range images {
			if field := only(object(image), "inlineData"); field != "" {
				return refusedByGoogle("Invalid JSON payload received. Unknown name %q: Cannot find field.", field)
			}
		}
	}
	for _, image := range images {
		data := object(object(image)["inlineData"])
		if data == nil {
			continue
		}
		if field := only(data, "mimeType", "data"); field != "" {
			return refusedByGoogle("Invalid JSON payload received. Unknown name %q: Cannot find field.", field)
		}
		if !slices.Contains(googleFormats, text(data["mimeType"])) {
			return refusedByGoogle("Unsupported MIME type: %s", text(data["mimeType"]))
		}
		if !isBase64(text(data["data"])) {
			return refusedByGoogle("Invalid value at 'contents' (TYPE_BYTES), Base64 decoding failed")
		}
	}
	return nil
}

// signature checks the signature of a part.
func (Google) signature(d *Double, part, call map[string]any, demanded bool, at int) *Refusal {
	signature := text(part["thoughtSignature"])
	name := strings.TrimSpace("call " + text(call["name"]))
	content := "text " + text(part["text"])
	if call != nil {
		content = name
	}
	switch {
	case signature == "" && demanded:
		return refusedByGoogle("Function call is missing a thought_signature in functionCall parts. This is required for "+
			"tools to work correctly. Additional data, function call `%s` , position %d.", text(call["name"]), at)
	case signature == "", signature == placeholder && call != nil, d.verify(signature, content):
		return nil
	default:
		return refusedByGoogle("Unable to submit request because Thought signature is not valid.")
	}
}

// results checks that there are as many results as calls.
func (Google) results(contents []any, i, calls int) *Refusal {
	if calls == 0 {
		return nil
	}
	found := 0
	if i+1 < len(contents) {
		for _, p := range list(object(contents[i+1])["parts"]) {
			if object(object(p)["functionResponse"]) != nil {
				found++
			}
		}
	}
	if found != calls {
		return refusedByGoogle("Please ensure that the number of function response parts is equal to the number of " +
			"function call parts of the function call turn.")
	}
	return nil
}
