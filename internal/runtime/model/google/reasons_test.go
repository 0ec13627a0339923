package google

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestWhichModelsReason holds which models may send nothing while they think.
func TestWhichModelsReason(t *testing.T) {
	const none, low = v1alpha1.ReasoningEffortNone, v1alpha1.ReasoningEffortLow
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	for _, test := range []struct {
		model   string
		effort  v1alpha1.ReasoningEffort
		reasons bool
	}{
		{"gemini-1.5-pro", "", false},
		{"gemini-2.0-flash", "", false},
		{"gemma-3-27b-it", "", false},
		{"gemini-2.5-pro", "", true},
		{"gemini-2.5-pro", none, true},
		{"gemini-2.5-flash", "", true},
		{"gemini-2.5-flash", none, false},
		{"gemini-2.5-flash-lite", "", false},
		{"gemini-2.5-flash-lite", low, true},
		{"models/gemini-3-pro-preview", "", true},
		{"gemini-3-flash", none, true},
		{"gemini-3.8-flash", "", true},
		{"gemini-flash-latest", "", true},
		{"gemini-4-argon", "", true},
	} {
		driver, ok := driverOf(
			t, server, Options{Parameters: v1alpha1.ModelParameters{ReasoningEffort: test.effort}},
		).(model.Reasoner)
		if !ok {
			t.Fatal("the driver does not report whether its model reasons")
		}
		r := question()
		r.Model = test.model
		if got := driver.Reasons(r); got != test.reasons {
			t.Errorf("%s, effort %q: reasons %t, want %t", test.model, test.effort, got, test.reasons)
		}
	}
}

// TestAnEmptyChunkIsNoContent: a server that only keeps the connection open is one that stalls. What the model thinks
// is content.
func TestAnEmptyChunkIsNoContent(t *testing.T) {
	server := providertest.Serve(t, providertest.Answer{Body: ": ping\r\n\r\n" + stream(
		`{"usageMetadata": {"promptTokenCount": 120}}`,
		`{"candidates": []}`,
		`{"candidates": [{"index": 0}]}`,
		chunk(""),
		chunk(text("")),
		chunk(`{"text": "", "thought": true}`),
		chunk(
			`{"text": "Hm.", "thought": true}`,
		),
		chunk(text("Hi")),
		chunk(callPart("a", "look", "{}")),
		ended("STOP", text("")),
	)})
	partials := 0
	r := question()
	r.OnPartial = func(model.Partial) { partials++ }
	if _, err := driverOf(t, server, Options{}).Generate(t.Context(), r); err != nil || partials != 4 {
		t.Errorf("%d chunks were content (%v), want 4: a thought, a text, a call, and the end", partials, err)
	}
}
