package providertest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// API is one of the APIs that drivers speak, with a Model that reasons.
type API struct {
	// Name can be part of a URL and of an object's name.
	Name    string
	Dialect Dialect
	// Spec is that of the Model, without its base URL and key.
	Spec v1alpha1.ModelSpec
}

// APIs are all of them.
func APIs() []API {
	low := &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}
	return []API{
		{"anthropic", Anthropic{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderAnthropic, Model: "claude-sonnet-4-5", Parameters: low,
		}},
		{"google", Google{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderGoogle, Model: "gemini-3-pro", Parameters: low,
		}},
		{"openai-responses", Responses{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIResponses, Model: "gpt-5.6", Parameters: low,
		}},
		{"openai-chat", Chat{Field: "reasoning_content", Demands: true}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, Model: "thinker",
		}},
	}
}

// Loop is a Double that calls a tool twice at once, then once more, and then responds "Good morning.", with a thought
// before each response. A request that is sent again gets the same response.
func (a API) Loop(tool, arguments string) *Double {
	calls := func(id string) Part { return Part{Call: &Call{ID: id, Name: tool, Arguments: arguments}} }
	return &Double{Dialect: a.Dialect, Repeats: true, Script: []Step{
		{thought("sleep"), textPart("Let me rest."), calls("call_a"), calls("call_b")},
		{thought("dreams"), calls("call_c")},
		{thought("words"), textPart("Good morning.")},
	}}
}

// Beginning returns the first way in which the requests to a Double do not begin with those of the steps before; empty
// if all of them do. A step that was cut off sends its request again.
func (d *Double) Beginning() (string, error) {
	var before []string
	var others map[string]string
	for i, body := range d.Bodies() {
		messages, rest, err := Fields(d.Dialect, body)
		if err != nil {
			return "", err
		}
		if others == nil {
			others = rest
		}
		if !maps.Equal(others, rest) {
			return fmt.Sprintf("request %d differs from the first one beside its messages: %v, %v", i+1, rest, others), nil
		}
		common := min(len(before), len(messages))
		if !slices.Equal(before[:common], messages[:common]) {
			return fmt.Sprintf("request %d does not begin with the one before: %q, %q", i+1, messages, before), nil
		}
		before = messages
	}
	return "", nil
}
