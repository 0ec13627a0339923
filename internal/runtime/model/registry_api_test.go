package model

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhichAPIAModelIsCalledBy(t *testing.T) {
	stops := &v1alpha1.ModelParameters{StopSequences: []string{"END"}}
	for name, test := range map[string]struct {
		spec v1alpha1.ModelSpec
		want v1alpha1.ModelAPI
	}{
		"OpenAI's own": {v1alpha1.ModelSpec{}, v1alpha1.ModelAPIResponses},
		"OpenAI's own, by name": {
			v1alpha1.ModelSpec{BaseURL: "https://EU.api.openai.com./v1"}, v1alpha1.ModelAPIResponses,
		},
		"another server": {
			v1alpha1.ModelSpec{BaseURL: "https://api.deepseek.com"}, v1alpha1.ModelAPIChatCompletions,
		},
		"a host that ends alike": {
			v1alpha1.ModelSpec{BaseURL: "https://notopenai.com/v1"}, v1alpha1.ModelAPIChatCompletions,
		},
		"no URL":         {v1alpha1.ModelSpec{BaseURL: "https://["}, v1alpha1.ModelAPIChatCompletions},
		"stop sequences": {v1alpha1.ModelSpec{Parameters: stops}, v1alpha1.ModelAPIChatCompletions},
		"other parameters": {
			v1alpha1.ModelSpec{Parameters: &v1alpha1.ModelParameters{}}, v1alpha1.ModelAPIResponses,
		},
		"another server, with spec.api": {
			v1alpha1.ModelSpec{BaseURL: "https://x.example", API: "Responses"}, v1alpha1.ModelAPIResponses,
		},
		"OpenAI's own by Chat Completions": {v1alpha1.ModelSpec{API: "ChatCompletions"}, v1alpha1.ModelAPIChatCompletions},
	} {
		if got := APIOf(&v1alpha1.Model{Spec: test.spec}); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
