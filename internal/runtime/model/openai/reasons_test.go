package openai

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestWhichModelsReason holds which models may send nothing while they reason, without tools and with one.
func TestWhichModelsReason(t *testing.T) {
	const none, low = v1alpha1.ReasoningEffortNone, v1alpha1.ReasoningEffortLow
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	for _, test := range []struct {
		model              string
		effort             v1alpha1.ReasoningEffort
		reasons, withTools bool
	}{
		{"gpt-4.1", "", false, false},
		{"my-deployment", "", false, false},
		{"o3", "", true, true},
		{"o4-mini", none, true, true},
		{"o3-pro", "", true, true},
		{"gpt-5", "", true, true},
		{"gpt-5-mini-2025-08-07", none, true, true},
		{"gpt-5-pro", "", true, true},
		{"gpt-5-codex", "", true, true},
		{"gpt-5-chat-latest", "", false, false},
		{"gpt-5.1", "", false, false},
		{"gpt-5.1", low, true, true},
		{"gpt-5.1", none, false, false},
		{"gpt-5.4", "", false, false},
		{"gpt-5.4", low, true, false},
		{"gpt-5.5", "", true, true},
		{"gpt-5.5", none, false, true},
		{"gpt-5.6", "", true, false},
		{"gpt-5.6", none, false, false},
		{"gpt-5.6-sol", "", true, false},
		{"gpt-5.6-codex", "", true, true},
		{"gpt-5.7", "", true, true},
		{"gpt-6", "", true, true},
		{"openai/gpt-oss-120b", "", true, true},
		{"gpt-oss-20b", none, true, true},
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
		r.Tools = []model.ToolDefinition{{Name: "look"}}
		if got := driver.Reasons(r); got != test.withTools {
			t.Errorf("%s, effort %q, with a tool: reasons %t, want %t", test.model, test.effort, got, test.withTools)
		}
	}
}
