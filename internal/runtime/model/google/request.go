package google

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// maxCallID is the maximum length of a call id that is sent, in bytes.
	maxCallID = 64
	// maxImages is the number of images that the API accepts in one request.
	maxImages = 3600
	// maxFunctionName is the longest name of a function, in bytes.
	maxFunctionName = 64
	// noSignature is the value that Google documents for calls without a signature.
	noSignature = "skip_thought_signature_validator"
)

// request is the conversation, and the settings of a model call.
func (d *driver) request(r model.Request) ([]*genai.Content, *genai.GenerateContentConfig, error) {
	entries := provider.Conversation(provider.LatestImages(r.Messages, maxImages), callID)
	contents, calls, err := contentsOf(entries, nestsImages(r.Model))
	if err != nil {
		return nil, nil, err
	}
	tools, err := toolsOf(r.Tools)
	if err != nil {
		return nil, nil, err
	}
	again := false
	config := &genai.GenerateContentConfig{
		StopSequences:         d.parameters.StopSequences,
		Temperature:           single(d.sampling.Temperature),
		TopP:                  single(d.sampling.TopP),
		Tools:                 tools,
		ThinkingConfig:        thinking(d.parameters.ReasoningEffort, r.Model),
		AutomaticContinuation: &again, // The runtime decides what is tried again.
		HTTPOptions: &genai.HTTPOptions{ExtrasRequestProvider: func(body map[string]any) map[string]any {
			exact(body, calls, wantsSignatures(r.Model))
			return body
		}},
	}
	if d.parameters.MaxOutputTokens != nil {
		config.MaxOutputTokens = *d.parameters.MaxOutputTokens
	}
	if r.SystemPrompt != "" {
		config.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: r.SystemPrompt}}}
	}
	return contents, config, nil
}

// single is a number in the type of the SDK.
func single(number *float64) *float32 {
	if number == nil {
		return nil
	}
	short := float32(*number)
	return &short
}

// toolsOf are the definitions of tools.
func toolsOf(definitions []model.ToolDefinition) ([]*genai.Tool, error) {
	functions, err := provider.Tools(definitions, check, schemaOf, functionOf)
	if err != nil || len(functions) == 0 {
		return nil, err
	}
	return []*genai.Tool{{FunctionDeclarations: functions}}, nil
}

// check returns an error for a tool that Google would refuse. The schema must be that of an object, whose properties
// are the parameters of the function (googleapis.github.io/java-genai, FunctionDeclaration.parametersJsonSchema).
func check(definition model.ToolDefinition) error { return provider.CheckSchema(name, definition) }

// schemaOf is a JSON Schema. The SDK would send an empty request in place of one that is not valid JSON.
func schemaOf(raw json.RawMessage) (map[string]any, error) {
	schema := map[string]any{"type": "object"}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &schema); err != nil {
			return nil, err
		}
	}
	if schema == nil {
		schema = map[string]any{"type": "object"}
	}
	return schema, nil
}

// functionOf is the definition of a tool.
func functionOf(definition model.ToolDefinition, schema map[string]any) *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{
		Name:                 functionName(definition.Name),
		Description:          definition.Description,
		ParametersJsonSchema: schema,
	}
}

// functionName is the name of a tool in the form that Google accepts: it does not begin with a digit.
func functionName(tool string) string {
	if begins(tool, "0123456789-") {
		tool = "_" + tool
	}
	return tool[:min(len(tool), maxFunctionName)]
}

// toolName is the tool of a function. No Tool's own name begins with an underscore.
func toolName(function string) string {
	if rest, found := strings.CutPrefix(function, "_"); found && begins(rest, "0123456789") {
		return rest
	}
	return function
}

func begins(text, with string) bool {
	return text != "" && strings.Contains(with, text[:1])
}

// callID makes an id of a call valid for Google.
func callID(id string) string {
	return provider.CallID(id, maxCallID, provider.Plain)
}

// contentsOf is the conversation, and its calls in order. nested reports whether the model reads images within results:
// for any other a message of the user behind the results has them, because a message that has both is refused
// (github.com/vellum-ai/vellum-assistant/pull/1901, 2026-02).
func contentsOf(entries []provider.Entry, nested bool) ([]*genai.Content, []provider.Call, error) {
	var contents []*genai.Content
	var calls []provider.Call
	for _, entry := range entries {
		if entry.Message.Role == event.RoleUser {
			content, err := partsOf(readable(entry.Message.Content))
			if err != nil {
				return nil, nil, err
			}
			contents = appendContent(contents, genai.RoleUser, content)
			continue
		}
		var content, results, apart []*genai.Part
		for _, p := range entry.Pieces() {
			if part := modelPart(p); part != nil {
				content = append(content, part)
			}
			if p.Call == nil {
				continue
			}
			calls = append(calls, *p.Call)
			response, images, err := resultOf(*p.Call, nested)
			if err != nil {
				return nil, nil, err
			}
			results, apart = append(results, &genai.Part{FunctionResponse: response}), append(apart, images...)
		}
		contents = appendContent(contents, genai.RoleModel, content)
		contents = appendContent(contents, genai.RoleUser, results)
		contents = appendContent(contents, genai.RoleUser, apart)
	}
	return contents, calls, nil
}

// resultOf is the result of a call, and the parts of a message of the user with its images, unless they are nested
// within the result.
func resultOf(call provider.Call, nested bool) (*genai.FunctionResponse, []*genai.Part, error) {
	call.Result.Content = readable(call.Result.Content)
	response := &genai.FunctionResponse{
		ID: call.ID, Name: functionName(call.Name), Response: outcome(call.Result),
	}
	if !nested {
		apart, err := partsOf(call.ImagesApart())
		return response, apart, err
	}
	images, err := partsOf(call.Result.Images())
	if err != nil {
		return nil, nil, err
	}
	for _, image := range images {
		if data := image.InlineData; data != nil {
			response.Parts = append(response.Parts, &genai.FunctionResponsePart{
				InlineData: &genai.FunctionResponseBlob{MIMEType: data.MIMEType, Data: data.Data},
			})
		}
	}
	return response, nil, nil
}

// noGIF stands for an image of a type that no Gemini model reads (ai.google.dev/gemini-api/docs/image-understanding,
// as quoted in github.com/microsoft/vscode/issues/286628, 2026-01).
const noGIF = "(Left out: an image of type image/gif, which this model cannot read.)"

// readable is content with a note in place of each image that no Gemini model reads.
func readable(content []event.Part) []event.Part {
	content = slices.Clone(content)
	for i, p := range content {
		if p.Type == event.PartImage && p.MediaType == string(v1alpha1.ImageMediaTypeGIF) {
			content[i] = event.Text(noGIF)
		}
	}
	return content
}

// modelPart is a part of a message of the model, with its signature if it has one; nil for an empty part.
func modelPart(p provider.Piece) *genai.Part {
	signature := signatureOf(p.Reasoning)
	switch {
	case p.Call != nil:
		// The arguments are inserted when the body is created (exact).
		return &genai.Part{
			FunctionCall:     &genai.FunctionCall{ID: p.Call.ID, Name: functionName(p.Call.Name)},
			ThoughtSignature: signature,
		}
	case p.Type == event.PartText && p.Text != "":
		return &genai.Part{Text: p.Text, ThoughtSignature: signature}
	case p.Type == event.PartReasoning && signature != nil:
		return &genai.Part{Text: p.Reasoning.Summary, Thought: p.Reasoning.Kind == kindThought, ThoughtSignature: signature}
	default:
		return nil
	}
}

// appendContent adds a message, unless it is empty.
func appendContent(contents []*genai.Content, role string, parts []*genai.Part) []*genai.Content {
	if len(parts) == 0 {
		return contents
	}
	return append(contents, &genai.Content{Role: role, Parts: parts})
}

// partsOf are the parts of a message. Empty texts are left out.
func partsOf(content []event.Part) ([]*genai.Part, error) {
	var parts []*genai.Part
	for _, p := range content {
		switch {
		case p.Type == event.PartText && p.Text != "":
			parts = append(parts, &genai.Part{Text: p.Text})
		case p.Type == event.PartImage && p.URL != "":
			parts = append(parts, &genai.Part{FileData: &genai.FileData{FileURI: p.URL, MIMEType: p.MediaType}})
		case p.Type == event.PartImage:
			image, err := base64.StdEncoding.DecodeString(p.Base64)
			if err != nil {
				return nil, fmt.Errorf("reading an image of type %s: it is not valid base64", p.MediaType)
			}
			parts = append(parts, &genai.Part{InlineData: &genai.Blob{Data: image, MIMEType: p.MediaType}})
		}
	}
	return parts, nil
}

// outcome is the result of a call, or its error, under the names that Google documents.
func outcome(result event.Message) map[string]any {
	fields := map[string]any{}
	text := result.PlainText()
	if result.Error != "" {
		fields["error"] = result.Error
	}
	if text != "" || result.Error == "" {
		fields["output"] = text
	}
	return fields
}

// exact inserts into the body the values that the SDK cannot represent: the original arguments of calls, the empty text
// that a signature belongs to, and the placeholder for a missing signature, which the first call of a message must
// have.
func exact(body map[string]any, calls []provider.Call, signed bool) {
	for _, content := range objects(body["contents"]) {
		first := true
		for _, part := range objects(content["parts"]) {
			call, ok := part["functionCall"].(map[string]any)
			if !ok || len(calls) == 0 {
				if part["thoughtSignature"] != nil && part["text"] == nil {
					part["text"] = ""
				}
				continue
			}
			call["args"] = calls[0].Arguments
			calls = calls[1:]
			if first && signed && part["thoughtSignature"] == nil {
				part["thoughtSignature"] = noSignature
			}
			first = false
		}
	}
}

// objects are those of a list in the body.
func objects(list any) []map[string]any {
	switch given := list.(type) {
	case []map[string]any:
		return given
	case []any:
		var found []map[string]any
		for _, value := range given {
			if object, ok := value.(map[string]any); ok {
				found = append(found, object)
			}
		}
		return found
	default:
		return nil
	}
}
