package openai

import (
	"encoding/json"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestNoModelIsSentWhatItRefuses holds the table of reasoningOf: what is sent for an effort, without tools and with
// one, and whether the temperature goes along.
func TestNoModelIsSentWhatItRefuses(t *testing.T) {
	const (
		none   = v1alpha1.ReasoningEffortNone
		low    = v1alpha1.ReasoningEffortLow
		medium = v1alpha1.ReasoningEffortMedium
		high   = v1alpha1.ReasoningEffortHigh
	)
	for _, test := range []struct {
		model               string
		effort              v1alpha1.ReasoningEffort
		sent, sentWithTools string
		warm, warmWithTools bool
	}{
		{"gpt-4.1", high, "", "", true, true},
		{"gpt-4o-2024-08-06", none, "", "", true, true},
		{"o3", none, "", "", false, false},
		{"o4-mini-2025-04-16", high, "high", "high", false, false},
		{"gpt-5", "", "", "", false, false},
		{"gpt-5", none, "minimal", "minimal", false, false},
		{"gpt-5-mini", medium, "medium", "medium", false, false},
		{"gpt-5-pro", low, "", "", true, true},
		{"gpt-5-chat-latest", low, "", "", true, true},
		{"gpt-5-codex", low, "", "", true, true},
		{"gpt-5.1-2025-11-13", none, "none", "none", true, true},
		{"gpt-5.2", high, "high", "high", false, false},
		{"gpt-5.2", "", "", "", true, true},
		{"gpt-5.4", high, "high", "", false, true},
		{"gpt-5.5-mini", none, "none", "", true, false},
		{"gpt-5.5", "", "", "", false, false},
		{"gpt-5.6", "", "", "none", false, true},
		{"gpt-5.6", high, "high", "none", false, true},
		{"gpt-5.6-sol", low, "low", "none", false, true},
		{"gpt-5.7", high, "", "", true, true},
		{"openai/gpt-5.1", low, "low", "low", false, false},
		{"gpt-oss-120b", high, "high", "high", true, true},
		{"qwen3-32b", high, "", "", true, true},
		{"my-deployment", high, "", "", true, true},
	} {
		for _, tools := range []bool{false, true} {
			temperature := "0.5"
			r := question()
			r.Model = test.model
			want, warm := test.sent, test.warm
			if tools {
				r.Tools = []model.ToolDefinition{{Name: "look"}}
				want, warm = test.sentWithTools, test.warmWithTools
			}
			var body struct {
				Effort      string   `json:"reasoning_effort"`
				Temperature *float64 `json:"temperature"`
			}
			raw := sent(
				t,
				Options{Parameters: v1alpha1.ModelParameters{ReasoningEffort: test.effort, Temperature: &temperature}},
				r,
			)
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Fatal(err)
			}
			if body.Effort != want || (body.Temperature != nil) != warm {
				t.Errorf("%s, effort %q, tools %t: sent effort %q, temperature %t; want %q, %t",
					test.model, test.effort, tools, body.Effort, body.Temperature != nil, want, warm)
			}
		}
	}
}

func TestASchemaThatOpenAIRefusesIsFoundBeforeAnythingIsSent(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{},"anyOf":[{"required":["a"]},{"required":["b"]}]}`)
	r := question()
	r.Tools = []model.ToolDefinition{{Name: "fine"}, {Name: "odd", InputSchema: schema}}
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	_, err := driverOf(t, server, Options{}).Generate(t.Context(), r)
	expectProblem(
		t,
		err,
		"OpenAI does not accept the inputSchema of tool odd: it has anyOf at the top level. Move it into a property.",
	)
	if requests := server.Seen(); len(requests) > 0 {
		t.Errorf("%d requests were sent", len(requests))
	}
	// Other servers may accept it.
	if _, err := driverOf(
		t,
		server,
		Options{BaseURL: "https://models.example.org/v1"},
	).Generate(t.Context(), r); err != nil {
		t.Error(err)
	}
}
