package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// maxCallID is the maximum length of a call id that is sent, in bytes.
const maxCallID = 64

// maxImages is the number of images that the API accepts in one request for every model: those with a context window of
// more than 200,000 tokens may have 600 (platform.claude.com/docs/en/build-with-claude/vision, read 2026-11).
const maxImages = 100

// request is the body of a model call.
func (d *driver) request(r model.Request) (sdk.MessageNewParams, error) {
	tools, err := provider.Tools(r.Tools, d.check, schemaOf, toolOf)
	if err != nil {
		return sdk.MessageNewParams{}, err
	}
	entries := provider.Conversation(provider.LatestImages(r.Messages, maxImages), callID)
	body := sdk.MessageNewParams{
		Model:         r.Model,
		Tools:         tools,
		StopSequences: d.parameters.StopSequences,
	}
	if d.own && r.User != "" {
		body.Metadata.UserID = param.NewOpt(r.User)
	}
	if strings.TrimSpace(r.SystemPrompt) != "" {
		body.System = []sdk.TextBlockParam{{Text: r.SystemPrompt}}
	}
	thinks := d.reason(&body, beganElsewhere(entries))
	body.Messages = messagesOf(entries, thinks)
	keep(body.Messages)
	return body, nil
}

// sample sets the sampling parameters.
func (d *driver) sample(body *sdk.MessageNewParams) {
	if d.sampling.Temperature != nil {
		body.Temperature = param.NewOpt(*d.sampling.Temperature)
	}
	if d.sampling.TopP != nil {
		body.TopP = param.NewOpt(*d.sampling.TopP)
	}
}

// keep asks the provider to cache the prompt up to the end of the conversation, which the next model call sends again,
// and up to the end of the user's message before it: the API caches nothing without a mark, and looks back from a mark
// over 20 blocks only, fewer than a step of many calls has.
func keep(messages []sdk.MessageParam) {
	marks := 0
	for i := len(messages) - 1; i >= 0 && marks < 2; i-- {
		if messages[i].Role != sdk.MessageParamRoleUser {
			continue
		}
		content := messages[i].Content
		if control := content[len(content)-1].GetCacheControl(); control != nil {
			*control = sdk.NewCacheControlEphemeralParam()
		}
		marks++
	}
}

// refusedAtTheTop are the keywords that the API refuses at the top of a schema ("input_schema does not support oneOf,
// allOf, or anyOf at the top level", github.com/marianfoo/mcp-sap-docs/pull/51).
var refusedAtTheTop = []string{"allOf", "anyOf", "oneOf"}

// check returns an error for a tool that the API would refuse. Other servers differ.
func (d *driver) check(definition model.ToolDefinition) error {
	if !d.own {
		return nil
	}
	return provider.CheckSchema(name, definition, refusedAtTheTop...)
}

// toolOf is the definition of a tool.
func toolOf(definition model.ToolDefinition, schema json.RawMessage) sdk.ToolUnionParam {
	tool := sdk.ToolParam{Name: definition.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
	if definition.Description != "" {
		tool.Description = param.NewOpt(definition.Description)
	}
	return sdk.ToolUnionParam{OfTool: &tool}
}

// schemaOf is a JSON Schema with the type object, which Anthropic requires. Otherwise it is unchanged.
func schemaOf(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	if schema == nil {
		return nil, errors.New("it is null")
	}
	if schema["type"] != nil {
		return raw, nil
	}
	schema["type"] = json.RawMessage(`"object"`)
	return json.Marshal(schema)
}

// callID makes an id of a call valid for Anthropic.
func callID(id string) string {
	return provider.CallID(id, maxCallID, provider.Plain)
}

// messagesOf is the conversation, in which user and model alternate: successive messages of one role are joined into
// one with several blocks. thinks reports whether the model may think: otherwise the API refuses thinking blocks.
func messagesOf(entries []provider.Entry, thinks bool) []sdk.MessageParam {
	var messages []sdk.MessageParam
	add := func(role sdk.MessageParamRole, blocks []sdk.ContentBlockParamUnion) {
		switch last := len(messages) - 1; {
		case len(blocks) == 0:
		case last >= 0 && messages[last].Role == role:
			messages[last].Content = append(messages[last].Content, blocks...)
		default:
			messages = append(messages, sdk.MessageParam{Role: role, Content: blocks})
		}
	}
	for _, entry := range entries {
		if entry.Message.Role == event.RoleUser {
			add(sdk.MessageParamRoleUser, userBlocks(entry.Message.Content))
			continue
		}
		blocks, results := modelBlocks(entry, thinks)
		add(sdk.MessageParamRoleAssistant, blocks)
		add(sdk.MessageParamRoleUser, results)
	}
	return messages
}

// userBlocks are the parts of a message of the user.
func userBlocks(content []event.Part) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, p := range content {
		switch {
		case p.Type == event.PartImage:
			blocks = append(blocks, sdk.ContentBlockParamUnion{OfImage: imageOf(p)})
		case isText(p):
			blocks = append(blocks, sdk.NewTextBlock(p.Text))
		}
	}
	return blocks
}

// isText reports whether a part is a text that the API accepts: a blank one is refused.
func isText(p event.Part) bool {
	return p.Type == event.PartText && strings.TrimSpace(p.Text) != ""
}

// imageOf is an image, by value or by address.
func imageOf(p event.Part) *sdk.ImageBlockParam {
	if p.URL != "" {
		return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{OfURL: &sdk.URLImageSourceParam{URL: p.URL}}}
	}
	return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{
		OfBase64: &sdk.Base64ImageSourceParam{Data: p.Base64, MediaType: sdk.Base64ImageSourceMediaType(p.MediaType)},
	}}
}

// modelBlocks are a message of the model with its calls, and the results of these, which are in a user message, with
// the images of failed calls behind all results. A message that ends with a thinking block is refused, so that such
// blocks after its last text or call are left out.
func modelBlocks(entry provider.Entry, thinks bool) (blocks, results []sdk.ContentBlockParamUnion) {
	for _, p := range entry.Pieces() {
		switch {
		case p.Call != nil:
			blocks = append(blocks, sdk.NewToolUseBlock(p.Call.ID, p.Call.Arguments, p.Call.Name))
		case isText(p.Part):
			blocks = append(blocks, sdk.NewTextBlock(p.Text))
		case thinks && p.Type == event.PartReasoning:
			if block := thoughtBlock(p.Reasoning); block != nil {
				blocks = append(blocks, *block)
			}
		}
	}
	for len(blocks) > 0 && isThought(blocks[len(blocks)-1]) {
		blocks = blocks[:len(blocks)-1]
	}
	var apart []event.Part
	for _, call := range entry.Calls {
		results = append(results, sdk.ContentBlockParamUnion{OfToolResult: resultOf(call)})
		if call.Result.Error != "" {
			apart = append(apart, call.ImagesApart()...)
		}
	}
	return blocks, append(results, userBlocks(apart)...)
}

// resultOf returns the content for the model about a call. That of a failed call is without its images, which the API
// refuses there (github.com/vellum-ai/vellum-assistant/pull/18387, 2026-03).
func resultOf(call provider.Call) *sdk.ToolResultBlockParam {
	result := &sdk.ToolResultBlockParam{ToolUseID: call.ID}
	content, failed := call.Result.Content, call.Result.Error != ""
	if failed {
		result.IsError = param.NewOpt(true)
		content = append([]event.Part{event.Text(call.Result.Error)}, content...)
	}
	for _, p := range content {
		switch {
		case p.Type == event.PartImage && !failed:
			result.Content = append(result.Content, sdk.ToolResultBlockParamContentUnion{OfImage: imageOf(p)})
		case isText(p):
			result.Content = append(
				result.Content,
				sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: p.Text}},
			)
		}
	}
	return result
}
