package anthropic

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// conversation has all that a message can have: parts, images by value and by address, calls that other providers have
// made, and results of all sorts.
func conversation() model.Request {
	asks := event.NewAssistantMessage("Let me look.", []event.ToolCall{
		{ID: "1-0", ProviderID: "toolu_01", Name: "weather", Arguments: `{"city": "Oslo", "n": 12345678901234567890}`},
		{ID: "1-1", ProviderID: "function-call:weather#1", Name: "weather", Arguments: "{not json"},
		{ID: "1-2", Name: "look", Arguments: ""},
	})
	results := []event.Message{
		{
			Role:       event.RoleToolResult,
			ToolCallID: "1-1",
			ToolName:   "weather",
			Content:    []event.Part{{Type: event.PartImage, MediaType: "image/gif", Base64: "R0lGODlhAQABAAAAACw="}},
			Error:      "There is no such city.",
		},
		{
			Role:       event.RoleToolResult,
			ToolCallID: "1-0",
			ToolName:   "weather",
			Content:    []event.Part{event.Text("<21> degrees & sun")},
		},
		{Role: event.RoleToolResult, ToolCallID: "1-2", ToolName: "look", Content: []event.Part{
			event.Text("A view."), {Type: event.PartImage, MediaType: "image/png", Base64: "iVBORw0KGgo="},
		}},
	}
	messages := []event.Message{
		event.NewUserParts([]event.Part{
			event.Text(
				"Hello.",
			),
			event.Text(" \n"),
			{Type: event.PartImage, MediaType: "image/jpeg", URL: "https://example.org/a.jpg"},
		}),
		event.NewUserMessage(prompt),
		asks,
	}
	messages = append(messages, results...)
	messages = append(messages, event.NewUserMessage("And tomorrow?"))
	return model.Request{
		Model:        "claude-test",
		SystemPrompt: "Be brief.",
		Messages:     messages,
		Locale:       "de-CH",
		Iteration:    2,
		TurnID:       "turn",
		Tools: []model.ToolDefinition{
			{
				Name:        "weather",
				Description: "Tells the weather.",
				InputSchema: json.RawMessage(
					`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`,
				),
			},
			{Name: "look", InputSchema: json.RawMessage(`{"properties":{}}`)},
			{Name: "any"},
		},
	}
}

func TestTheRequestIsWhatTheAPIWants(t *testing.T) {
	for name, test := range map[string]struct {
		request    model.Request
		parameters v1alpha1.ModelParameters
	}{
		"conversation": {request: conversation()},
		"parameters": {request: simple(), parameters: v1alpha1.ModelParameters{
			MaxOutputTokens: ptr.To[int32](512), Temperature: ptr.To("0.7"), TopP: ptr.To("0.95"), StopSequences: []string{
				"END", "\n\n",
			},
			ReasoningEffort: v1alpha1.ReasoningEffortHigh,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t, streams(start, textStart(0), text(0, "Hi"), blockStop(0), ends("end_turn"), stop))
			for range 2 {
				if _, err := d.driver(t, test.parameters).Generate(t.Context(), test.request); err != nil {
					t.Fatal(err)
				}
			}
			if d.bodies[0] != d.bodies[1] {
				t.Errorf("the same request is sent as\n%s\nand as\n%s", d.bodies[0], d.bodies[1])
			}
			golden, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := normal(t, []byte(d.bodies[0])), normal(t, golden); got != want {
				t.Errorf("the body is\n%s\nwant\n%s", got, want)
			}
			r := d.got[0]
			if r.Method != http.MethodPost || r.URL.String() != "/v1/messages" || r.Proto != "HTTP/1.1" {
				t.Errorf("the request is %s %s %s", r.Method, r.URL, r.Proto)
			}
			for header, want := range map[string]string{
				"X-Api-Key": key, "Anthropic-Version": "2023-06-01", "Content-Type": "application/json", "User-Agent": "capstan",
				"Authorization": "", "Cookie": "",
			} {
				if got := r.Header.Get(header); got != want {
					t.Errorf("the header %s is %q, want %q", header, got, want)
				}
			}
			for header := range r.Header {
				if strings.HasPrefix(header, "X-Stainless") {
					t.Errorf("the header %s shows the platform of the manager", header)
				}
			}
		})
	}
}

// TestARequestHasNoEmptyMessage: the API refuses one, and takes a response that comes last for the beginning of the
// next.
func TestARequestHasNoEmptyMessage(t *testing.T) {
	d := newDouble(t, streams(start, ends("end_turn"), stop))
	r := simple()
	r.Messages = []event.Message{
		event.NewUserMessage(" "),
		event.NewAssistantMessage(
			" ",
			[]event.ToolCall{{ID: "1-0", ProviderID: "a", Name: "look"}, {ID: "1-1", ProviderID: "b", Name: "look"}},
		),
		{Role: event.RoleToolResult, ToolCallID: "1-0", Content: []event.Part{event.Text(" ")}},
		{Role: event.RoleToolResult, ToolCallID: "1-1", Error: "\n"},
		event.NewAssistantMessage("", nil),
		event.NewUserMessage("\n"),
		event.NewAssistantMessage("Pardon?", nil),
		event.NewUserMessage(""),
	}
	if _, err := d.driver(t, v1alpha1.ModelParameters{}).Generate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var body struct{ Messages json.RawMessage }
	if err := json.Unmarshal([]byte(d.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	if got, want := normal(t, body.Messages), normal(t, []byte(`[
		{"role": "user", "content": [{"type": "text", "text": "(empty message)"}]},
		{"role": "assistant",
			"content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}},
				{"type": "tool_use", "id": "b", "name": "look", "input": {}}]},
		{"role": "user", "content": [
			{"type": "tool_result", "tool_use_id": "a"},
			{"type": "tool_result", "tool_use_id": "b", "is_error": true,
				"content": [{"type": "text", "text": "The tool call failed."}]},
			{"type": "text", "text": "(empty message)", "cache_control": {"type": "ephemeral"}}
		]},
		{"role": "assistant", "content": [{"type": "text", "text": "Pardon?"}]},
		{"role": "user", "content": [{"type": "text", "text": "(empty message)", "cache_control": {"type": "ephemeral"}}]}
	]`)); got != want {
		t.Errorf("the messages are\n%s\nwant\n%s", got, want)
	}
}

// normal is JSON with sorted keys and every digit of its numbers.
func normal(t *testing.T, raw []byte) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	if decoder.More() {
		t.Fatalf("there is more than one value in\n%s", raw)
	}
	sorted, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}

// TestASchemaThatIsNullIsRefusedBeforeAnythingIsSent: other providers take it for one that allows everything.
func TestASchemaThatIsNullIsRefusedBeforeAnythingIsSent(t *testing.T) {
	d := newDouble(t, streams())
	r := simple()
	r.Tools = []model.ToolDefinition{{Name: "odd", InputSchema: json.RawMessage("null")}}
	_, err := d.driver(t, v1alpha1.ModelParameters{}).Generate(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "tool odd") || len(d.got) > 0 {
		t.Errorf("%v after %d requests", err, len(d.got))
	}
}

func TestTheBaseURLMayHaveAPath(t *testing.T) {
	for _, path := range []string{"/proxy/anthropic", "/proxy/anthropic/"} {
		d := newDouble(t, streams(start, textStart(0), text(0, "Hi"), blockStop(0), ends("end_turn"), stop))
		driver, err := New(Options{HTTP: d.Client(), BaseURL: d.URL + path, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := driver.Generate(t.Context(), simple()); err != nil {
			t.Fatal(err)
		}
		if r, _ := d.one(t); r.URL.Path != "/proxy/anthropic/v1/messages" {
			t.Errorf("the request went to %s", r.URL.Path)
		}
	}
}

func TestTheEnvironmentHasNoSay(t *testing.T) {
	other := newDouble(t, streams())
	for variable, value := range map[string]string{
		"ANTHROPIC_API_KEY": "sk-of-the-environment", "ANTHROPIC_AUTH_TOKEN": "token-of-the-environment",
		"ANTHROPIC_BASE_URL": other.URL,
		"ANTHROPIC_PROFILE":  "nobody", "ANTHROPIC_CONFIG_DIR": t.TempDir(),
		"ANTHROPIC_CUSTOM_HEADERS": "X-Environment: here\nX-Api-Key: sk-of-the-environment",
		"ANTHROPIC_OPEN_TELEMETRY": "true", "ANTHROPIC_OPEN_TELEMETRY_PROPAGATION": "true",
		"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
		"HTTPS_PROXY": other.URL, "HTTP_PROXY": other.URL,
	} {
		t.Setenv(variable, value)
	}
	d := newDouble(t, streams(start, textStart(0), text(0, "Hi"), blockStop(0), ends("end_turn"), stop))
	if _, err := d.ask(t); err != nil {
		t.Fatal(err)
	}
	r, _ := d.one(t)
	if got := r.Header.Values("X-Api-Key"); len(got) != 1 || got[0] != key || r.Header.Get("Authorization") != "" {
		t.Errorf("the keys are %v and %q", got, r.Header.Get("Authorization"))
	}
	for _, header := range []string{"X-Environment", "Traceparent", "Tracestate", "Baggage"} {
		if got := r.Header.Get(header); got != "" {
			t.Errorf("the header %s is %q", header, got)
		}
	}
	if len(other.got) > 0 {
		t.Errorf("the environment's address got %d requests", len(other.got))
	}
}

func TestTheProvidersOwnAddressIsTheDefault(t *testing.T) {
	var asked string
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.String()
		return nil, http.ErrHandlerTimeout
	})}
	driver, err := New(Options{HTTP: client, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Generate(t.Context(), simple()); err == nil || asked != "https://api.anthropic.com/v1/messages" {
		t.Errorf("asked %s, %v", asked, err)
	}
	if own := model.Endpoint(
		&v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic}},
	); !strings.HasPrefix(
		DefaultBaseURL,
		own,
	) {
		t.Errorf("the runtime considers %s the provider's address", own)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
