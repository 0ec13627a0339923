package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// versionOfInput is the first version of the protocol in which a server asks by its response. Before it, a server asks
// by a request of its own, which this client declines by the capabilities that it offers.
const versionOfInput = "2026-07-28"

// Asked is what a tool asks before it continues.
type Asked struct {
	// State is the server's own, which it gets back with the answers.
	State string
	// Requests are the questions, by their ids. Their texts are as the server has sent them.
	Requests []v1alpha1.ToolInputRequest
	// Unsupported reports whether the server asks for something else as well, such as a response of a model.
	Unsupported bool
}

// addInput offers a server to ask, and adds the answers to what it has asked.
func (r Request) addInput(params *sdk.CallToolParams, version string) {
	if version < versionOfInput {
		return
	}
	if r.Asks {
		params.SetMeta(map[string]any{sdk.MetaKeyClientCapabilities: map[string]any{
			"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
			"extensions":  map[string]any{tasksExtension: map[string]any{}},
		}})
	}
	if r.Answers == nil || len(r.Answers.Answers) == 0 {
		return
	}
	params.RequestState, params.InputResponses = r.Answers.State, sdk.InputResponseMap{}
	for _, answer := range r.Answers.Answers {
		params.InputResponses[answer.ID] = responseOf(answer)
	}
}

// responseOf is an answer in the form of the protocol.
func responseOf(answer v1alpha1.InputAnswer) *sdk.ElicitResult {
	response := &sdk.ElicitResult{Action: strings.ToLower(string(answer.Action))}
	if answer.Content == nil {
		return response
	}
	var content map[string]json.RawMessage
	if json.Unmarshal(answer.Content.Raw, &content) != nil {
		return response // The content was checked when it was accepted.
	}
	response.Content = make(map[string]any, len(content))
	for name, value := range content {
		response.Content[name] = value // As the user wrote it: a number keeps its digits.
	}
	return response
}

// askedOf is what a server asks in a response.
func askedOf(answer *sdk.CallToolResult) *Asked {
	asked := &Asked{State: answer.RequestState}
	for id, request := range answer.InputRequests {
		elicit, ok := request.(*sdk.ElicitParams)
		if !ok || elicit == nil {
			asked.Unsupported = true
			continue
		}
		question := v1alpha1.ToolInputRequest{ID: id, Mode: v1alpha1.ToolInputModeForm, Message: elicit.Message}
		switch elicit.Mode {
		case "url":
			question.Mode, question.URL = v1alpha1.ToolInputModeURL, elicit.URL
		case "form", "":
			raw, err := json.Marshal(elicit.RequestedSchema)
			if err != nil {
				asked.Unsupported = true
				continue
			}
			if elicit.RequestedSchema != nil {
				question.RequestedSchema = &v1alpha1.JSON{Raw: raw}
			}
		default:
			asked.Unsupported = true
			continue
		}
		asked.Requests = append(asked.Requests, question)
	}
	slices.SortFunc(asked.Requests, func(a, b v1alpha1.ToolInputRequest) int { return strings.Compare(a.ID, b.ID) })
	return asked
}

// metaConnection is the key of a result's metadata with the provider that the tool needs a connection to. Unlike the
// content of a result, the metadata is never a text that the tool has read elsewhere.
const metaConnection = "capstan.dev/connection-required"

// connectionOf is the provider that a tool reports to need a connection to; empty for none.
func connectionOf(answer *sdk.CallToolResult) string {
	name, _ := answer.Meta[metaConnection].(string)
	if !answer.IsError || !tool.ValidProvider(name) {
		return ""
	}
	return name
}
