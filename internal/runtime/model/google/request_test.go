package google

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
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
		"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}], "generationConfig": {}
	}`)
}

func TestParameters(t *testing.T) {
	tokens, temperature, topP := int32(512), "0.7", "0.95"
	parameters := v1alpha1.ModelParameters{
		MaxOutputTokens: &tokens, Temperature: &temperature, TopP: &topP, StopSequences: []string{"END", "\n\n"},
		ReasoningEffort: v1alpha1.ReasoningEffortHigh,
	}
	providertest.SameJSON(t, sent(t, Options{Parameters: parameters}, question()), `{
		"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}],
		"generationConfig": {
			"maxOutputTokens": 512, "temperature": 0.7, "topP": 0.95, "stopSequences": ["END", "\n\n"],
			"thinkingConfig": {"thinkingLevel": "HIGH"}
		}
	}`)
	zero := "0"
	providertest.SameJSON(t, sent(t, Options{Parameters: v1alpha1.ModelParameters{Temperature: &zero}}, question()), `{
		"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}],
		"generationConfig": {"temperature": 0}
	}`)
}

// TestAnUnknownModelGetsNoThinkingBudget: older models refuse thinkingConfig, and the parameters of later ones
// are unknown.
func TestAnUnknownModelGetsNoThinkingBudget(t *testing.T) {
	for _, name := range []string{"gemini-2.0-flash", "gemini-4-argon", "gemma-3-27b-it", "gemini-flash-latest"} {
		r := question()
		r.Model = name
		providertest.SameJSON(
			t,
			sent(t, Options{Parameters: v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortHigh}}, r),
			`{
			"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}], "generationConfig": {}
		}`,
		)
	}
}

func TestHowMuchAModelThinks(t *testing.T) {
	for name, test := range map[string]struct {
		model  string
		effort v1alpha1.ReasoningEffort
		want   string
	}{
		"a level, little": {"gemini-3-pro", v1alpha1.ReasoningEffortLow, `{"thinkingLevel": "LOW"}`},
		"a level, some": {
			"gemini-3-flash", v1alpha1.ReasoningEffortMedium, `{"thinkingLevel": "MEDIUM"}`,
		},
		"a level, the least": {"gemini-3-flash", v1alpha1.ReasoningEffortNone, `{"thinkingLevel": "MINIMAL"}`},
		"a budget, none":     {"gemini-2.5-flash", v1alpha1.ReasoningEffortNone, `{"thinkingBudget": 0}`},
		"a budget, little":   {"gemini-2.5-flash", v1alpha1.ReasoningEffortLow, `{"thinkingBudget": 1024}`},
		"a budget, some": {
			"models/gemini-2.5-pro", v1alpha1.ReasoningEffortMedium, `{"thinkingBudget": 8192}`,
		},
		"a budget, much of it":         {"gemini-2.5-pro", v1alpha1.ReasoningEffortHigh, `{"thinkingBudget": 24576}`},
		"a budget that cannot be none": {"gemini-2.5-pro", v1alpha1.ReasoningEffortNone, `{"thinkingBudget": 128}`},
		"a level that cannot be minimal": {
			"gemini-3.1-pro-preview", v1alpha1.ReasoningEffortNone, `{"thinkingLevel": "LOW"}`,
		},
		"a level that a newer one dropped": {"gemini-3.7-flash", v1alpha1.ReasoningEffortNone, `{"thinkingLevel": "LOW"}`},
		"a level that only later ones have": {
			"gemini-3-pro-preview", v1alpha1.ReasoningEffortMedium, `{"thinkingLevel": "HIGH"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := question()
			r.Model = test.model
			providertest.SameJSON(t, sent(t, Options{Parameters: v1alpha1.ModelParameters{ReasoningEffort: test.effort}}, r), `{
				"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}],
				"generationConfig": {"thinkingConfig": `+test.want+`}
			}`)
		})
	}
}

func TestTools(t *testing.T) {
	r := question()
	r.Tools = []model.ToolDefinition{
		{
			Name:        "word-count",
			Description: "Counts words.",
			InputSchema: json.RawMessage(
				`{"type":"object","properties":{"text":{"type":"string"},"max":{"maximum":10}},"required":["text"]}`,
			),
		},
		{Name: "2nd"},
		{Name: "none", InputSchema: json.RawMessage(`null`)},
	}
	providertest.SameJSON(t, sent(t, Options{}, r), `{
		"contents": [{"role": "user", "parts": [{"text": "the very private question"}]}], "generationConfig": {},
		"tools": [{"functionDeclarations": [
			{"name": "word-count", "description": "Counts words.", "parametersJsonSchema": {
				"type": "object", "properties": {"text": {"type": "string"}, "max": {"maximum": 10}}, "required": ["text"]}},
			{"name": "_2nd", "parametersJsonSchema": {"type": "object"}},
			{"name": "none", "parametersJsonSchema": {"type": "object"}}
		]}]
	}`)
}

func TestASchemaThatIsNoObjectIsFoundBeforeAnythingIsSent(t *testing.T) {
	r := question()
	r.Tools = []model.ToolDefinition{{Name: "fine"}, {Name: "odd", InputSchema: json.RawMessage(`{"type":"string"}`)}}
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	_, err := driverOf(t, server, Options{}).Generate(t.Context(), r)
	var refusal *provider.Error
	if !errors.As(err, &refusal) || !refusal.Elsewhere() || !strings.Contains(refusal.Problem, "tool odd") ||
		len(server.Seen()) != 0 {
		t.Errorf("%v after %d requests", err, len(server.Seen()))
	}
}

func TestNamesOfFunctions(t *testing.T) {
	for tool, function := range map[string]string{
		"look": "look", "2nd": "_2nd", "a-b": "a-b", strings.Repeat("1", 63): "_" + strings.Repeat("1", 63),
	} {
		if got := functionName(tool); got != function {
			t.Errorf("the function of tool %s is %s", tool, got)
		}
		if got := toolName(function); got != tool {
			t.Errorf("the tool of function %s is %s", function, got)
		}
	}
	// A name that the model has made up stays what it is, and one that another provider's model has made up is made valid.
	if got := toolName("_look"); got != "_look" {
		t.Errorf("the tool of function _look is %s", got)
	}
	if got := functionName("-" + strings.Repeat("x", 63)); got != "_-"+strings.Repeat("x", 62) {
		t.Errorf("the function is %s", got)
	}
}

// conversation has one of everything: a transcript that several providers have made.
func conversation() []event.Message {
	return []event.Message{
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
			{ID: "1-1", ProviderID: "functions.look:0", Name: "2nd", Arguments: ``},
		}},
		result("1-0", "look", event.Text("a cat")),
		{Role: event.RoleToolResult, ToolCallID: "1-1", ToolName: "2nd", Error: "no such file"},
		{Role: event.RoleUser, Content: []event.Part{event.Text("And"), event.Text("now?")}},
		{Role: event.RoleAssistant, ToolCalls: []event.ToolCall{
			{ID: "1-0", ProviderID: "call_abc", Name: "make up!", Arguments: `{"a":`},
			{ID: "1-1", Name: "draw", Arguments: `{}`},
		}},
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
		result("7-7", "nobodys", event.Text("orphan")),
	}
}

// contents is the conversation as it is sent, with so much before the first call of each message. Models without
// signatures do not read images within results.
func contents(signature string) string {
	const drawn = `{"functionResponse": {"id": "1-1", "name": "draw", "response": {"output": "drawn"}`
	const image = `{"inlineData": {"data": "iVBORw0KGgo=", "mimeType": "image/png"}}`
	result := drawn + `, "parts": [` + image + `]}}]`
	if signature == "" {
		result = drawn + `}}]}, {"role": "user", "parts": [
			{"text": "The following images are the result of tool call 1-1, not a message of the user."}, ` + image + `]`
	}
	return `[
		{"role": "user", "parts": [
			{"text": "What is this?"},
			{"fileData": {"fileUri": "https://example.org/a.png", "mimeType": "image/png"}},
			{"inlineData": {"data": "iVBORw0KGgo=", "mimeType": "image/png"}}
		]},
		{"role": "model", "parts": [
			{"text": "I look."},
			{` + signature + `"functionCall": {"id": "call_abc", "name": "look", "args": {"big": 9007199254740993, "b": "<é>"}}},
			{"functionCall": {"id": "calle05d754aba0ffe0631d7bb7b85e9d828c06834064de2c8041c8aa3df6e2b", "name": "_2nd",
				"args": {}}}
		]},
		{"role": "user", "parts": [
			{"functionResponse": {"id": "call_abc", "name": "look", "response": {"output": "a cat"}}},
			{"functionResponse": {"id": "calle05d754aba0ffe0631d7bb7b85e9d828c06834064de2c8041c8aa3df6e2b", "name": "_2nd",
				"response": {"error": "no such file"}}}
		]},
		{"role": "user", "parts": [{"text": "And"}, {"text": "now?"}]},
		{"role": "model", "parts": [
			{` + signature + `"functionCall": {"id": "call5ab523defc47892857c247e75b14257ccd3101223c298b5ab4a29109b7f1",
				"name": "make_up_", "args": {"invalid_arguments": "{\"a\":"}}},
			{"functionCall": {"id": "1-1", "name": "draw", "args": {}}}
		]},
		{"role": "user", "parts": [
			{"functionResponse": {"id": "call5ab523defc47892857c247e75b14257ccd3101223c298b5ab4a29109b7f1", "name": "make_up_",
				"response": {"error": "no such tool", "output": "half"}}},
			` + result + `},
		{"role": "user", "parts": [{"text": "(empty message)"}]}
	]`
}

func TestAConversation(t *testing.T) {
	const signature = `"thoughtSignature": "skip_thought_signature_validator", `
	for name, before := range map[string]string{
		"gemini-3-pro": signature, "gemini-flash-latest": signature, "models/gemini-4-pro": signature,
		"gemini-2.5-pro": "", "models/gemini-2.0-flash": "", "gemma-3-27b-it": "",
	} {
		t.Run(name, func(t *testing.T) {
			r := model.Request{Model: name, SystemPrompt: "Answer <briefly>.", Messages: conversation()}
			body := sent(t, Options{}, r)
			providertest.SameJSON(t, body, `{
				"systemInstruction": {"role": "user", "parts": [{"text": "Answer <briefly>."}]}, "generationConfig": {},
				"contents": `+contents(before)+`
			}`)
			if again := sent(t, Options{}, r); !bytes.Equal(again, body) {
				t.Errorf("the same request is sent as\n%s\nand as\n%s", body, again)
			}
		})
	}
}

// TestAnImageThatNoGeminiReads is left out, wherever it is: it would be refused with every later request.
func TestAnImageThatNoGeminiReads(t *testing.T) {
	gif := event.Part{Type: event.PartImage, MediaType: "image/gif", Base64: "R0lGODlhAQABAAAAACw="}
	const note = "(Left out: an image of type image/gif, which this model cannot read.)"
	for _, name := range []string{"gemini-3-pro", "gemini-2.5-pro"} {
		messages := []event.Message{
			event.NewUserParts([]event.Part{event.Text("Look."), gif}),
			event.NewAssistantMessage("", []event.ToolCall{{ID: "1-0", Name: "draw"}}),
			result("1-0", "draw", event.Text("drawn"), gif),
		}
		body := string(sent(t, Options{}, model.Request{Model: name, Messages: messages}))
		if strings.Contains(body, gif.Base64) || !strings.Contains(body, `{"text":"`+note+`"}`) ||
			!strings.Contains(body, `"output":"drawn\n`+note+`"`) {
			t.Errorf("%s is sent %s", name, body)
		}
		if messages[0].Content[1] != gif || messages[2].Content[1] != gif {
			t.Errorf("the messages have changed: %+v", messages)
		}
	}
}

func TestAnInvalidImageIsRefused(t *testing.T) {
	broken := event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "%%%" + prompt}
	for name, messages := range map[string][]event.Message{
		"of the user": {event.NewUserParts([]event.Part{broken})},
		"of a tool": {
			event.NewAssistantMessage("", []event.ToolCall{{ID: "1-0", Name: "draw"}}), result("1-0", "draw", broken),
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Body: hello})
			answer, err := driverOf(
				t,
				server,
				Options{},
			).Generate(t.Context(), model.Request{Model: "gemini-3-pro", Messages: messages})
			if answer != nil || err == nil || len(server.Seen()) != 0 {
				t.Fatalf("Generate = %+v, %v after %d requests", answer, err, len(server.Seen()))
			}
			providertest.CheckSecrets(t, err, secrets...)
		})
	}
}
