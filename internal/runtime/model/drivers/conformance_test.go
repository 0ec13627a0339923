package drivers_test

import (
	"net/http"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// of makes the driver of a Model.
func of(spec v1alpha1.ModelSpec) func(h *http.Client, key string) (model.Driver, error) {
	return func(h *http.Client, key string) (model.Driver, error) {
		return drivers.All().Driver(&v1alpha1.Model{Spec: spec}, model.Access{HTTP: h, Key: key})
	}
}

var low = &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}

var subjects = []providertest.Subject{
	{
		Name:       "Claude with a budget",
		Model:      "claude-sonnet-4-5",
		Dialect:    providertest.Anthropic{},
		Refuses:    true,
		Pauses:     true,
		Identifies: true,
		New:        of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Parameters: low}),
	},
	{
		Name: "Claude that thinks by itself", Model: "claude-opus-5", Dialect: providertest.Anthropic{}, Identifies: true,
		New: of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Parameters: low}),
	},
	{
		Name: "Gemini", Model: "gemini-3-pro", Dialect: providertest.Google{}, Refuses: true,
		New: of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderGoogle, Parameters: low}),
	},
	{
		Name: "DeepSeek", Model: "deepseek-v4-pro", Refuses: true,
		Dialect: providertest.Chat{Field: "reasoning_content", Demands: true},
		New:     of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, BaseURL: "https://api.deepseek.com"}),
	},
	{
		Name: "GPT by Responses", Model: "gpt-5.6", Dialect: providertest.Responses{}, Identifies: true,
		New: of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Parameters: low}),
	},
	{
		Name: "a compatible server", Model: "qwen3", Dialect: providertest.Chat{Field: "reasoning"},
		New: of(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, BaseURL: "https://models.example.com/v1"}),
	},
}

func TestEveryDriverConforms(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.Name, func(t *testing.T) { providertest.Conform(t, s) })
	}
}

func TestModelsTakeTurnsWithinAToolLoop(t *testing.T) {
	for _, a := range subjects {
		for _, b := range subjects {
			if a.Name != b.Name {
				t.Run(a.Name+", "+b.Name+", "+a.Name, func(t *testing.T) { providertest.Pairs(t, a, b) })
			}
		}
	}
}
