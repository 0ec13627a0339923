package drivers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
)

// TestWhichErrorsOfProvidersAreAboutImages: the sources of the texts are at the phrases in the drivers.
func TestWhichErrorsOfProvidersAreAboutImages(t *testing.T) {
	claude := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic}
	gpt := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI}
	chat := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIChatCompletions}
	gemini := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderGoogle}
	const unfetched, unreadable, other = "unfetched", "unreadable", "other"
	for message, test := range map[string]struct {
		spec v1alpha1.ModelSpec
		body string
		want string
	}{
		"robots": {claude, anthropicError("This URL is disallowed by the website's robots.txt file."), unfetched},
		"data":   {claude, anthropicError("Could not process image"), unreadable},
		"size": {
			claude,
			anthropicError("messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 8259148 bytes > " +
				"5242880 bytes"),
			unreadable,
		},
		"media type": {
			claude,
			anthropicError("messages.18.content.1.image.source.base64.data: Image does not match the provided media type"),
			unreadable,
		},
		"too many": {
			claude, anthropicError("Too much media: 0 document pages + 107 images > 100"), unreadable,
		},
		"too many with documents": {
			claude, anthropicError("too many images and documents: 120 + 0 > 100"), unreadable,
		},
		"no image of Claude's": {claude, anthropicError("max_tokens: Field required"), other},
		"upstream": {
			gpt, openAIError("invalid_value", "Error while downloading file. Upstream status code: 404."), unfetched,
		},
		"upstream of chat": {
			chat, openAIError("invalid_value", "Error while downloading file. Upstream status code: 403."), unfetched,
		},
		"code": {chat, openAIError("invalid_image_url", "Invalid image."), unfetched},
		"format": {
			gpt, openAIError(
				"invalid_image_format", "You uploaded an unsupported image. Please make sure it is valid.",
			), unreadable,
		},
		"DeepSeek": {
			chat, openAIError("invalid_request_error", "Failed to deserialize the JSON body into the target type: "+
				"messages[7]: unknown variant `image_url`, expected `text` at line 1 column 114708"), unreadable,
		},
		"Ollama": {
			chat, openAIError("", "this model does not support image input (ref: b8bd630e)"), unreadable,
		},
		"a compatible": {
			chat, openAIError("BadRequest", "Model do not support image input. Request id: 0217"), unreadable,
		},
		"an older model": {
			gpt, openAIError("", "Invalid content type. image_url is only supported by certain models."), unreadable,
		},
		"too many of GPT's": {gpt, openAIError("", "Too many images in request. Max is 10."), unreadable},
		"too many of vLLM's": {
			chat, openAIError("400", "At most 5 image(s) may be provided in one request."), unreadable,
		},
		"too many of another server's": {
			chat, openAIError("400", "Image count 6 exceeds limit 4 per request."), unreadable,
		},
		"too many of a gateway's": {
			chat, openAIError("", "request contains 52 images, exceeding the maximum of 50 allowed per request"), unreadable,
		},
		"too many of Gemini's": {
			gemini, googleError("Unable to submit request because it has 20 image files but the model only supports up to 10."),
			unreadable,
		},
		"no image of GPT's": {gpt, openAIError("invalid_value", "Invalid 'tools'."), other},
		"address": {
			gemini, googleError("Invalid or unsupported file uri: https://example.org/a.png"), unfetched,
		},
		"image":                {gemini, googleError("Unable to process input image. Please retry."), unreadable},
		"no image of Gemini's": {gemini, googleError("Request contains an invalid argument."), other},
	} {
		t.Run(message, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Status: 400, Body: test.body})
			driver, err := of(test.spec)(server.Client(), "sk-test-12345678")
			if err != nil {
				t.Fatal(err)
			}
			r := model.Request{Model: "some-model", Messages: []event.Message{event.NewUserMessage("Look.")}}
			_, err = driver.Generate(t.Context(), r)
			var refused *provider.ImageRefused
			got := other
			if errors.As(err, &refused) {
				if got = unfetched; refused.Unreadable {
					got = unreadable
				}
			}
			if got != test.want {
				t.Errorf("it counts as %s, want %s: %v", got, test.want, err)
			}
			if code := model.CodeOf(err); code != v1alpha1.ErrorCodeProcessingError {
				t.Errorf("the code is %s", code)
			}
		})
	}
}

// pngOf is data in base64 that begins as a PNG does.
func pngOf(size int) string {
	return base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, size-8)...))
}

// TestWhereDoublesRefuseImages has requests that no driver may send (TOOL-05). The sources are at the doubles.
func TestWhereDoublesRefuseImages(t *testing.T) {
	const gemini = `{"contents": [{"role": "user", "parts": [{"text": "Look."}]}, {"role": "model", "parts": [
		{"functionCall": {"id": "c", "name": "look", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"}]},
		{"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "look", "response": {"output": "seen"}%s]}]}`
	const chat = `{"messages": [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": [
		{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
		{"role": "tool", "tool_call_id": "c", "content": %s}]}`
	const gpt = `{"store": false, "include": ["reasoning.encrypted_content"], "input": [
		{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "c", "output": %s}]}`
	const claude = `{"model": "m", "max_tokens": 1, "messages": [
		{"role": "user", "content": [{"type": "text", "text": "Look."}]},
		{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", %s"content": [%s]}]}]}`
	const of = `{"type": "image", "source": {"type": "base64", "media_type": "image/%s", "data": "%s"}}`
	const chatURL = `{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}`
	const gptURL = `{"type": "input_image", "image_url": "https://example.org/a.png"}`
	const geminiPNG = `{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}`
	const ofURL = `{"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}`
	for name, test := range map[string]struct {
		dialect providertest.Dialect
		body    string
		// given fills the gaps of the body; refusal is part of the refusal, empty for none.
		given   []string
		refused string
	}{
		"Gemini, nested": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}}`},
			"",
		},
		"Gemini, beside": {
			providertest.Google{},
			gemini,
			[]string{`}}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}`},
			"number of function response parts",
		},
		"Gemini, a text beside": {
			providertest.Google{},
			gemini,
			[]string{`}}, {"text": "an image"}`},
			"number of function response parts",
		},
		"Gemini, GIF": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [{"inlineData": {"mimeType": "image/gif", "data": "iVBORw0KGgo="}}]}}`},
			"Unsupported MIME type",
		},
		"Gemini, a name": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [{"inlineData": {"displayName": "a", "mimeType": "image/png", "data": "iVBORw0KGgo="}}]}}`},
			"displayName",
		},
		"Gemini, no base64": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [{"inlineData": {"mimeType": "image/png", "data": "%%"}}]}}`},
			"Base64 decoding failed",
		},
		"Chat, a text": {providertest.Chat{}, chat, []string{`[{"type": "text", "text": "seen"}]`}, ""},
		"Chat, an image": {
			providertest.Chat{},
			chat,
			[]string{`[{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]`},
			"role 'tool'",
		},
		"Responses, an image": {
			providertest.Responses{},
			gpt,
			[]string{`[{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]`},
			"",
		},
		"Responses, as in Chat": {
			providertest.Responses{},
			gpt,
			[]string{`[{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]`},
			"'image_url'",
		},
		"Responses, no address": {
			providertest.Responses{},
			gpt,
			[]string{`[{"type": "input_image", "image_url": "iVBORw0KGgo="}]`},
			"data URL",
		},
		"Responses, nothing": {providertest.Responses{}, gpt, []string{`[]`}, "Missing required parameter"},
		"Claude":             {providertest.Anthropic{}, claude, []string{"", of, "png", "iVBORw0KGgo="}, ""},
		"Claude, an error": {
			providertest.Anthropic{}, claude, []string{`"is_error": true, `, `{"type": "text", "text": "Failed."}`}, "",
		},
		"Claude, an error with an image": {
			providertest.Anthropic{}, claude, []string{`"is_error": true, `, of, "png", "iVBORw0KGgo="}, "all content must be",
		},
		"Claude, 100 images": {
			providertest.Anthropic{}, claude, []string{"", strings.Repeat(ofURL+", ", 99) + ofURL}, "",
		},
		"Claude, 101 images": {
			providertest.Anthropic{}, claude, []string{"", strings.Repeat(ofURL+", ", 100) + ofURL}, "Too much media",
		},
		"Chat, 501 images": {
			providertest.Chat{}, chat, []string{"[" + strings.Repeat(chatURL+", ", 500) + chatURL + "]"}, "Too many images",
		},
		"Responses, 500 images": {
			providertest.Responses{}, gpt, []string{"[" + strings.Repeat(gptURL+", ", 499) + gptURL + "]"}, "",
		},
		"Responses, 501 images": {
			providertest.Responses{}, gpt, []string{"[" + strings.Repeat(gptURL+", ", 500) + gptURL + "]"}, "Too many images",
		},
		"Gemini, 3,600 images": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [` + strings.Repeat(geminiPNG+", ", 3599) + geminiPNG + `]}}`},
			"",
		},
		"Gemini, 3,601 images": {
			providertest.Google{},
			gemini,
			[]string{`, "parts": [` + strings.Repeat(geminiPNG+", ", 3600) + geminiPNG + `]}}`},
			"only supports up to 3600",
		},
		"Claude, a format": {
			providertest.Anthropic{}, claude, []string{"", of, "tiff", "iVBORw0KGgo="}, "media_type: Input should be",
		},
		"Claude, another format": {
			providertest.Anthropic{}, claude, []string{"", of, "jpeg", "iVBORw0KGgo="}, "does not match the provided media type",
		},
		"Claude, 5 MiB in base64": {
			providertest.Anthropic{}, claude, []string{"", of, "png", pngOf(sessionimage.MaxImageBytes)}, "",
		},
		"Claude, more": {
			providertest.Anthropic{},
			claude,
			[]string{"", of, "png", pngOf(sessionimage.MaxImageBytes + 1)},
			"image exceeds 5 MB maximum: 5242884 bytes",
		},
		"Claude, nothing":    {providertest.Anthropic{}, claude, []string{"", of, "png", ""}, "image cannot be empty"},
		"Claude, no text":    {providertest.Anthropic{}, claude, []string{"", `{"type": "text", "text": ""}`}, "non-empty"},
		"Claude, as in Chat": {providertest.Anthropic{}, claude, []string{"", `{"type": "image_url"}`}, "image_url"},
	} {
		t.Run(name, func(t *testing.T) {
			filled := test.body
			for _, given := range test.given {
				filled = strings.Replace(filled, "%s", given, 1)
			}
			decoder := json.NewDecoder(bytes.NewReader([]byte(filled)))
			decoder.UseNumber()
			var body map[string]any
			if err := decoder.Decode(&body); err != nil {
				t.Fatal(err)
			}
			refusal := test.dialect.Check(&providertest.Double{Dialect: test.dialect}, body)
			if (refusal == nil) != (test.refused == "") || refusal != nil && !strings.Contains(refusal.Body, test.refused) {
				t.Errorf("it is refused with %+v", refusal)
			}
		})
	}
}

func anthropicError(message string) string {
	return `{"type":"error","error":{"type":"invalid_request_error","message":"` + message + `"}}`
}

func openAIError(code, message string) string {
	return `{"error":{"type":"invalid_request_error","param":"url","code":"` + code + `","message":"` + message + `"}}`
}

func googleError(message string) string {
	return `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"` + message + `"}}`
}
