package openai

import (
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// maxOwnCallID is the longest id of a call that OpenAI takes, in bytes, and maxCallID that of other servers, which
// insist on their own ids.
const (
	maxOwnCallID = 40
	maxCallID    = 256
)

// maxImages is the number of images that the API accepts in one request: 1,500 today, and 500 in earlier versions of
// its documentation, which compatible servers may follow. The refusal of a server with a lower limit counts as one of
// images.
const maxImages = 500

// request is the body of a model call.
func (d *driver) request(r model.Request) (sdk.ChatCompletionNewParams, error) {
	tools, err := provider.Tools(r.Tools, d.check, schemaOf, toolOf)
	if err != nil {
		return sdk.ChatCompletionNewParams{}, err
	}
	body := sdk.ChatCompletionNewParams{
		Model:         r.Model,
		Messages:      d.messagesOf(r),
		Tools:         tools,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	d.limit(&body)
	if d.own && !d.dated {
		// It is the default, also of dated APIs, of which the older ones do not know the parameter.
		body.Store = param.NewOpt(false)
	}
	if d.identifies && r.User != "" {
		// Metadata, which has room for more, is refused where nothing is stored (github.com/tmc/langchaingo/issues/1484,
		// 2026-03).
		body.SafetyIdentifier = param.NewOpt(r.User)
	}
	d.reason(&body)
	if len(d.parameters.StopSequences) > 0 {
		body.Stop.OfStringArray = d.parameters.StopSequences
	}
	return body, nil
}

// limit sets the maximum length of the response. OpenAI's newer models refuse max_tokens, and many other servers
// support nothing else.
func (d *driver) limit(body *sdk.ChatCompletionNewParams) {
	if d.parameters.MaxOutputTokens == nil {
		return
	}
	limit := param.NewOpt(int64(*d.parameters.MaxOutputTokens))
	if d.own {
		body.MaxCompletionTokens = limit
		return
	}
	body.MaxTokens = limit
}

// refusedAtTheTop are the keywords that OpenAI refuses at the top of a schema ("schema must have type 'object' and not
// have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", github.com/langchain-ai/langchainjs/issues/9804). Other
// servers differ.
var refusedAtTheTop = []string{"allOf", "anyOf", "enum", "not", "oneOf"}

// check returns an error for a tool that OpenAI would refuse.
func (d *driver) check(definition model.ToolDefinition) error {
	if !d.own {
		return nil
	}
	return provider.CheckSchema(name, definition, refusedAtTheTop...)
}

// toolOf is the definition of a tool.
func toolOf(definition model.ToolDefinition, schema shared.FunctionParameters) sdk.ChatCompletionToolUnionParam {
	function := shared.FunctionDefinitionParam{Name: definition.Name, Parameters: schema}
	if definition.Description != "" {
		function.Description = param.NewOpt(definition.Description)
	}
	return sdk.ChatCompletionFunctionTool(function)
}

// schemaOf is a JSON Schema with the type object and its properties, which OpenAI requires.
func schemaOf(raw json.RawMessage) (shared.FunctionParameters, error) {
	var given map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, err
		}
	}
	// The values stay unchanged, so that no number loses digits.
	schema := shared.FunctionParameters{}
	for name, value := range given {
		schema[name] = value
	}
	if schema["type"] == nil {
		schema["type"] = "object"
	}
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{}
	}
	return schema, nil
}

// callID makes an id of a call valid for the server.
func (d *driver) callID(id string) string {
	longest := maxCallID
	if d.own {
		longest = maxOwnCallID
	}
	return provider.CallID(id, longest, func(r rune) bool { return '!' <= r && r <= '~' })
}

// messagesOf is the conversation, the system prompt first.
func (d *driver) messagesOf(r model.Request) []sdk.ChatCompletionMessageParamUnion {
	var messages []sdk.ChatCompletionMessageParamUnion
	if r.SystemPrompt != "" {
		messages = append(messages, sdk.SystemMessage(r.SystemPrompt))
	}
	entries := provider.Conversation(provider.LatestImages(r.Messages, maxImages), d.callID)
	demanded := d.demands(entries)
	for _, entry := range entries {
		if entry.Message.Role == event.RoleUser {
			messages = append(messages, userMessage(entry.Message.Content)...)
			continue
		}
		messages = append(messages, d.modelMessages(entry, demanded)...)
	}
	return messages
}

// userMessage is a message of the user: a text, or parts if there is an image among them. An empty message becomes
// none.
func userMessage(content []event.Part) []sdk.ChatCompletionMessageParamUnion {
	var parts []sdk.ChatCompletionContentPartUnionParam
	var texts []string
	images := false
	for _, p := range content {
		switch {
		case p.Type == event.PartText && p.Text != "":
			parts = append(parts, sdk.TextContentPart(p.Text))
			texts = append(texts, p.Text)
		case p.Type == event.PartImage:
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: address(p)}))
			images = true
		}
	}
	switch {
	case images:
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts)}
	case len(texts) > 0:
		// Servers without support for images often do not support parts either.
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(strings.Join(texts, "\n"))}
	default:
		return nil
	}
}

// address is that of an image, which may hold the image itself.
func address(image event.Part) string {
	if image.URL != "" {
		return image.URL
	}
	return "data:" + image.MediaType + ";base64," + image.Base64
}

// modelMessages are a message of the model, the results of its calls, and their images. An empty message is left out.
// demanded reports whether the server demands reasoning with every message that calls tools.
func (d *driver) modelMessages(entry provider.Entry, demanded bool) []sdk.ChatCompletionMessageParamUnion {
	text := entry.Message.PlainText()
	if text == "" && len(entry.Calls) == 0 {
		return nil
	}
	var message sdk.ChatCompletionAssistantMessageParam
	if text != "" {
		message.Content.OfString = param.NewOpt(text)
	}
	if field, thought, found := thoughtOf(entry, demanded); found && !d.own {
		message.SetExtraFields(map[string]any{field: thought})
	}
	messages := []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &message}}
	var shown []event.Part
	for _, call := range entry.Calls {
		message.ToolCalls = append(message.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name:      call.Name,
					Arguments: string(call.Arguments),
				},
			},
		})
		messages = append(messages, sdk.ToolMessage(resultText(call.Result), call.ID))
		shown = append(shown, call.ImagesApart()...)
	}
	return append(messages, userMessage(shown)...)
}

// resultText returns the text for the model about a call. The API has no other way to report a failed call.
func resultText(result event.Message) string {
	text := result.PlainText()
	if result.Error == "" {
		return text
	}
	failed := "The tool call failed.\n" + result.Error
	if text == "" {
		return failed
	}
	return failed + "\n" + text
}
