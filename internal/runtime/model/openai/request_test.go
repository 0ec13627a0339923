package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// sent is the body that a request becomes.
func sent(t *testing.T, o Options, r model.Request) []byte {
	t.Helper()
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	if _, err := driverOf(t, server, o).Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return server.One(t).Body
}

func image(url, data string) event.Part {
	return event.Part{Type: event.PartImage, MediaType: "image/png", URL: url, Base64: data}
}

func result(id, tool string, content ...event.Part) event.Message {
	return event.Message{Role: event.RoleToolResult, ToolCallID: id, ToolName: tool, Content: content}
}

func TestABareRequest(t *testing.T) {
	providertest.SameJSON(t, sent(t, Options{}, question()), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "store": false,
		"messages": [{"role": "user", "content": "the very private question"}]
	}`)
	// Fields that only OpenAI has are not sent to other servers, which may refuse them.
	providertest.SameJSON(t, sent(t, Options{BaseURL: "https://models.example.org/v1"}, question()), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true},
		"messages": [{"role": "user", "content": "the very private question"}]
	}`)
}

// TestOnlyOpenAIGetsTheSafetyIdentifier: others may refuse the field.
// Rules: LLM-10.
func TestOnlyOpenAIGetsTheSafetyIdentifier(t *testing.T) {
	r := question()
	r.User = "0123456789abcdef"
	providertest.SameJSON(t, sent(t, Options{}, r), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "store": false,
		"safety_identifier": "0123456789abcdef",
		"messages": [{"role": "user", "content": "the very private question"}]
	}`)
	for _, base := range []string{"https://models.example.org/v1", "https://mine.openai.azure.com/openai/v1"} {
		if body := sent(t, Options{BaseURL: base}, r); bytes.Contains(body, []byte(r.User)) {
			t.Errorf("%s is sent %s", base, body)
		}
	}
}

func TestParameters(t *testing.T) {
	tokens, temperature, topP := int32(512), "0.7", "0.95"
	parameters := v1alpha1.ModelParameters{
		MaxOutputTokens: &tokens, Temperature: &temperature, TopP: &topP, StopSequences: []string{"END", "\n\n"},
		ReasoningEffort: v1alpha1.ReasoningEffortHigh,
	}
	providertest.SameJSON(t, sent(t, Options{Parameters: parameters}, question()), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "store": false,
		"messages": [{"role": "user", "content": "the very private question"}],
		"max_completion_tokens": 512, "stop": ["END", "\n\n"], "reasoning_effort": "high"
	}`)
	providertest.SameJSON(
		t,
		sent(t, Options{Parameters: parameters, BaseURL: "https://models.example.org/v1"}, question()),
		`{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true},
		"messages": [{"role": "user", "content": "the very private question"}],
		"max_tokens": 512, "stop": ["END", "\n\n"], "reasoning_effort": "high"
	}`,
	)
	zero := "0"
	r := question()
	r.Model = "gpt-4.1"
	body := sent(t, Options{Parameters: v1alpha1.ModelParameters{Temperature: &zero}}, r)
	providertest.SameJSON(t, body, `{
		"model": "gpt-4.1", "stream": true, "stream_options": {"include_usage": true}, "store": false, "temperature": 0,
		"messages": [{"role": "user", "content": "the very private question"}]
	}`)
}

// TestADatedAPIOfAzureGetsItsVersionAndTheKeyInAHeader: the reference of Azure's dated APIs demands the query
// api-version, and the key in the header api-key; parameters that are newer than the version are errors.
func TestADatedAPIOfAzureGetsItsVersionAndTheKeyInAHeader(t *testing.T) {
	const base = "https://mine.openai.azure.com/openai"
	tokens := int32(512)
	for name, test := range map[string]struct {
		create    func(Options) (model.Driver, error)
		path, url string
	}{
		"a deployment": {New, "/deployments/mine", base + "/deployments/mine/chat/completions?api-version=2024-10-21"},
		"responses":    {NewResponses, "", base + "/responses?api-version=2024-10-21"},
	} {
		server := providertest.Serve(t, providertest.Answer{Status: http.StatusTeapot})
		driver, err := test.create(Options{
			HTTP: server.Client(), Key: key, BaseURL: base + test.path + "?api-version=2024-10-21",
			Parameters: v1alpha1.ModelParameters{MaxOutputTokens: &tokens},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = driver.Generate(t.Context(), question()); err == nil {
			t.Error("an error is a response")
		}
		request := server.One(t)
		if request.URL != test.url || request.Header.Get("Api-Key") != key || request.Header.Get("Authorization") != "" {
			t.Errorf("%s: %s with %v", name, request.URL, request.Header)
		}
		if name == "responses" {
			continue
		}
		providertest.SameJSON(t, request.Body, `{
			"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 512,
			"messages": [{"role": "user", "content": "the very private question"}]
		}`)
	}
}

func TestWhichServersAreOpenAIs(t *testing.T) {
	for host, want := range map[string]bool{
		"api.openai.com": true, "eu.api.openai.com": true, "OPENAI.COM": true, "mine.openai.azure.com": true,
		"mine.openai.azure.us": true, "mine.openai.azure.cn": true, "gateway.azure-api.net": true,
		"mine.services.ai.azure.com.": true,
		"notopenai.com":               false, "openai.com.example.org": false, "localhost": false,
	} {
		if got := isOwn(host); got != want {
			t.Errorf("isOwn(%q) = %t", host, got)
		}
	}
}

func TestTools(t *testing.T) {
	r := question()
	r.Tools = []model.ToolDefinition{
		{
			Name:        "word-count",
			Description: "Counts words.",
			InputSchema: json.RawMessage(
				`{"type":"object","properties":{"text":{"type":"string"},"max":{"maximum":9007199254740993}},"required":["text"]}`,
			),
		},
		{Name: "now"},
		{Name: "any", InputSchema: json.RawMessage(`{"description":"Anything."}`)},
		{Name: "none", InputSchema: json.RawMessage(`null`)},
	}
	providertest.SameJSON(t, sent(t, Options{}, r), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "store": false,
		"messages": [{"role": "user", "content": "the very private question"}],
		"tools": [
			{"type": "function", "function": {"name": "word-count", "description": "Counts words.", "parameters": {
				"type": "object", "properties": {"text": {"type": "string"}, "max": {"maximum": 9007199254740993}},
				"required": ["text"]}}},
			{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
			{"type": "function",
				"function": {"name": "any", "parameters": {"type": "object", "properties": {}, "description": "Anything."}}},
			{"type": "function", "function": {"name": "none", "parameters": {"type": "object", "properties": {}}}}
		]
	}`)
}

// TestAConversation has one of everything: a transcript that several providers have made.
func TestAConversation(t *testing.T) {
	r := model.Request{
		Model: "gpt-5", SystemPrompt: "Answer <briefly>.",
		Messages: []event.Message{
			{
				Role: event.RoleUser,
				Content: []event.Part{
					event.Text("What is this?"),
					image("https://example.org/a.png", ""),
					image("", "iVBORw0KGgo="),
				},
			},
			{Role: event.RoleAssistant, Content: []event.Part{event.Text("I look.")}, ToolCalls: []event.ToolCall{
				{ID: "1-0", ProviderID: "call_abc", Name: "look", Arguments: `{"big": 9007199254740993, "b":"<é>"}`},
				{ID: "1-1", ProviderID: "toolu_01A9876543210987654321098765432109876543210", Name: "look", Arguments: ``},
			}},
			result("1-0", "look", event.Text("a cat")),
			{Role: event.RoleToolResult, ToolCallID: "1-1", ToolName: "look", Error: "no such file"},
			{Role: event.RoleUser, Content: []event.Part{event.Text("And"), event.Text("now?")}},
			{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{
				// The runtime's ids begin again with every turn, and so may a provider's.
				{ID: "1-0", ProviderID: "call_abc", Name: "make up!", Arguments: `{"a":`},
				{ID: "1-1", Name: "draw", Arguments: `{}`},
			}},
			// Results may come in any order.
			result("1-1", "draw", event.Text("drawn"), image("", "iVBORw0KGgo=")),
			{
				Role:       event.RoleToolResult,
				ToolCallID: "1-0",
				ToolName:   "make up!",
				Content:    []event.Part{event.Text("half")},
				Error:      "no such tool",
			},
			{Role: event.RoleAssistant, Content: []event.Part{}},
			{Role: event.RoleUser, Content: []event.Part{event.Text("")}},
			result("7-7", "unknown", event.Text("orphan")),
		},
	}
	body := sent(t, Options{}, r)
	providertest.SameJSON(t, body, `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true}, "store": false,
		"messages": [
			{"role": "system", "content": "Answer <briefly>."},
			{"role": "user", "content": [
				{"type": "text", "text": "What is this?"},
				{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
			]},
			{"role": "assistant", "content": "I look.", "tool_calls": [
				{"id": "call_abc", "type": "function",
					"function": {"name": "look", "arguments": "{\"big\": 9007199254740993, \"b\":\"<é>\"}"}},
				{"id": "callb1bd7912b988050133b3b3b5124e50294a72", "type": "function",
					"function": {"name": "look", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "call_abc", "content": "a cat"},
			{"role": "tool", "tool_call_id": "callb1bd7912b988050133b3b3b5124e50294a72",
				"content": "The tool call failed.\nno such file"},
			{"role": "user", "content": "And\nnow?"},
			{"role": "assistant", "tool_calls": [
				{"id": "call5ab523defc47892857c247e75b14257ccd31", "type": "function",
					"function": {"name": "make_up_", "arguments": "{\"invalid_arguments\":\"{\\\"a\\\":\"}"}},
				{"id": "1-1", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "call5ab523defc47892857c247e75b14257ccd31",
				"content": "The tool call failed.\nno such tool\nhalf"},
			{"role": "tool", "tool_call_id": "1-1", "content": "drawn"},
			{"role": "user", "content": [
				{"type": "text", "text": "The following images are the result of tool call 1-1, not a message of the user."},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
			]},
			{"role": "user", "content": "(empty message)"}
		]
	}`)
	if again := sent(t, Options{}, r); !bytes.Equal(again, body) {
		t.Errorf("the same request is sent as\n%s\nand as\n%s", body, again)
	}
}

func TestIDsOfOtherServersStayWhatTheyAre(t *testing.T) {
	id := "functions.look:0-chatcmpl-tool-0123456789abcdef0123456789abcdef"
	r := question()
	r.Messages = append(
		r.Messages,
		event.Message{
			Role:      event.RoleAssistant,
			ToolCalls: []event.ToolCall{{ID: "1-0", ProviderID: id, Name: "look", Arguments: "{}"}},
		},
		result("1-0", "look", event.Text("a cat")),
	)
	providertest.SameJSON(t, sent(t, Options{BaseURL: "https://models.example.org/v1"}, r), `{
		"model": "gpt-5", "stream": true, "stream_options": {"include_usage": true},
		"messages": [
			{"role": "user", "content": "the very private question"},
			{"role": "assistant",
				"tool_calls": [{"id": "`+id+`", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
			{"role": "tool", "tool_call_id": "`+id+`", "content": "a cat"}
		]
	}`)
}
