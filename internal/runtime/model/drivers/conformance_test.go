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

// subject is s with the driver of a Model.
func subject(spec v1alpha1.ModelSpec, s providertest.Subject) providertest.Subject {
	s.Provider, s.New = spec.Provider, of(spec)
	return s
}

var low = &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}

var subjects = []providertest.Subject{
	subject(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Parameters: low}, providertest.Subject{
		Name: "Claude with a budget", Model: "claude-sonnet-4-5", Dialect: providertest.Anthropic{},
		Refuses: true, Pauses: true, Identifies: true,
	}),
	subject(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Parameters: low}, providertest.Subject{
		Name: "Claude that thinks by itself", Model: "claude-opus-5", Dialect: providertest.Anthropic{}, Identifies: true,
	}),
	subject(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderGoogle, Parameters: low}, providertest.Subject{
		Name: "Gemini", Model: "gemini-3-pro", Dialect: providertest.Google{}, Refuses: true,
	}),
	subject(
		v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, BaseURL: "https://api.deepseek.com"},
		providertest.Subject{
			Name: "DeepSeek", Model: "deepseek-v4-pro", Refuses: true,
			Dialect: providertest.Chat{Field: "reasoning_content", Demands: true},
		},
	),
	subject(v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Parameters: low}, providertest.Subject{
		Name: "GPT by Responses", Model: "gpt-5.6", Dialect: providertest.Responses{}, Identifies: true,
	}),
	subject(
		v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, BaseURL: "https://models.example.com/v1"},
		providertest.Subject{
			Name: "a compatible server", Model: "qwen3", Dialect: providertest.Chat{Field: "reasoning"},
		},
	),
}

// A provider with a driver is in the table of this test, and so is each of its APIs in that of the suites with a
// cluster.
func TestEveryProviderIsTested(t *testing.T) {
	tested := map[v1alpha1.ModelProvider]int{}
	for _, s := range subjects {
		tested[s.Provider]++
	}
	inCluster := map[v1alpha1.ModelProvider]int{}
	for _, api := range providertest.APIs() {
		inCluster[api.Spec.Provider]++
	}
	for provider := range drivers.All() {
		if provider != v1alpha1.ModelProviderSimulated && (tested[provider] == 0 || inCluster[provider] == 0) {
			t.Errorf("of %s the table has %d models and providertest.APIs %d", provider, tested[provider], inCluster[provider])
		}
	}
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
