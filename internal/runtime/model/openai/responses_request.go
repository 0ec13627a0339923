package openai

import (
	"cmp"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// kindEncrypted is a reasoning item with its encrypted content, which the API sends on request and accepts unchanged,
// followed by the item that it belongs to.
const kindEncrypted = "encrypted_content"

// request is the body of a model call. The system prompt is a message: as instructions it would come back with several
// events of the stream.
func (d *responsesDriver) request(r model.Request) (responses.ResponseNewParams, error) {
	tools, err := provider.Tools(r.Tools, d.check, schemaOf, responsesTool)
	if err != nil {
		return responses.ResponseNewParams{}, err
	}
	body := responses.ResponseNewParams{
		Model: r.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: d.input(r)},
		Store: param.NewOpt(false),
		Tools: tools,
	}
	if d.parameters.MaxOutputTokens != nil {
		body.MaxOutputTokens = param.NewOpt(int64(*d.parameters.MaxOutputTokens))
	}
	if d.identifies && r.User != "" {
		body.SafetyIdentifier = param.NewOpt(r.User)
	}
	d.effort(&body)
	return body, nil
}

// effort sets the reasoning effort, and the sampling parameters if they are accepted in combination. A model that does
// not reason refuses a request for encrypted reasoning.
func (d *responsesDriver) effort(body *responses.ResponseNewParams) {
	r, known := reasoningOf(body.Model)
	sampled := !known
	if known {
		effort, reasons := r.effortFor(d.parameters.ReasoningEffort, false)
		body.Reasoning.Effort = effort
		sampled = r.sampled == sampledAlways || r.sampled == sampledWithoutReasoning && !reasons
	}
	if known || mayReason(body.Model) {
		body.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if sampled && d.sampling.Temperature != nil {
		body.Temperature = param.NewOpt(*d.sampling.Temperature)
	}
	if sampled && d.sampling.TopP != nil {
		body.TopP = param.NewOpt(*d.sampling.TopP)
	}
}

// responsesTool is the definition of a tool. Without strict being false the API would rewrite its schema.
func responsesTool(definition model.ToolDefinition, schema shared.FunctionParameters) responses.ToolUnionParam {
	tool := responses.ToolParamOfFunction(definition.Name, schema, false)
	if definition.Description != "" {
		tool.OfFunction.Description = param.NewOpt(definition.Description)
	}
	return tool
}

// input is the conversation, the system prompt first.
func (d *responsesDriver) input(r model.Request) responses.ResponseInputParam {
	var input responses.ResponseInputParam
	if r.SystemPrompt != "" {
		input = append(input, responses.ResponseInputItemParamOfMessage(r.SystemPrompt, responses.EasyInputMessageRoleSystem))
	}
	for _, entry := range provider.Conversation(provider.LatestImages(r.Messages, maxImages), d.callID) {
		if entry.Message.Role == event.RoleUser {
			if content := userContent(entry.Message.Content); len(content) > 0 {
				input = append(input, responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser))
			}
			continue
		}
		input = append(input, modelItems(entry)...)
		for _, call := range entry.Calls {
			input = append(input, outputOf(call))
		}
	}
	return input
}

// userContent are the parts of a message of the user.
func userContent(content []event.Part) responses.ResponseInputMessageContentListParam {
	var parts responses.ResponseInputMessageContentListParam
	for _, p := range content {
		switch {
		case p.Type == event.PartText && p.Text != "":
			parts = append(parts, responses.ResponseInputContentParamOfInputText(p.Text))
		case p.Type == event.PartImage:
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
				ImageURL: param.NewOpt(address(p)), Detail: responses.ResponseInputImageDetailAuto,
			}})
		}
	}
	return parts
}

// modelItems are the items of a message of the model. Reasoning without a following item is refused, so that reasoning
// at the end of the message is left out.
func modelItems(entry provider.Entry) []responses.ResponseInputItemUnionParam {
	var items []responses.ResponseInputItemUnionParam
	for _, p := range entry.Pieces() {
		switch {
		case p.Call != nil:
			// The provider's id of the item is not sent: with it the API would require the reasoning before it.
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(
				string(p.Call.Arguments), p.Call.ID, p.Call.Name))
		case p.Type == event.PartText && p.Text != "":
			message := responses.ResponseInputItemParamOfMessage(p.Text, responses.EasyInputMessageRoleAssistant)
			message.OfMessage.Phase = responses.EasyInputMessagePhase(cmp.Or(p.Phase, entry.Message.Phase))
			items = append(items, message)
		case p.Reasoning != nil && p.Reasoning.Kind == kindEncrypted:
			items = append(items, reasoningItem(p.Reasoning))
		}
	}
	for len(items) > 0 && items[len(items)-1].OfReasoning != nil {
		items = items[:len(items)-1]
	}
	return items
}

// reasoningItem is reasoning in the form that the API accepts: with its id, its summary, which may be empty, and no
// text (github.com/microsoft/agent-framework-go/pull/784, 2026-08).
func reasoningItem(r *event.Reasoning) responses.ResponseInputItemUnionParam {
	summary := []responses.ResponseReasoningItemSummaryParam{}
	if r.Summary != "" {
		summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: r.Summary})
	}
	item := responses.ResponseInputItemParamOfReasoning(r.ID, summary)
	item.OfReasoning.EncryptedContent = param.NewOpt(r.Data)
	return item
}

// outputOf returns the text for the model about a call, with its images.
func outputOf(call provider.Call) responses.ResponseInputItemUnionParam {
	text, images := resultText(call.Result), call.Result.Images()
	var output responses.ResponseInputItemUnionParam
	if len(images) == 0 {
		output = responses.ResponseInputItemParamOfFunctionCallOutput(text)
	} else {
		var list responses.ResponseFunctionCallOutputItemListParam
		if text != "" {
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputText: &responses.ResponseInputTextContentParam{Text: text},
			})
		}
		for _, image := range images {
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: param.NewOpt(address(image))},
			})
		}
		output = responses.ResponseInputItemParamOfFunctionCallOutput(list)
	}
	output.OfFunctionCallOutput.CallID = param.NewOpt(call.ID)
	return output
}
