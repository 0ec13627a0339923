// Package utility has what the model calls of capabilities have in common that are not those of a Turn, such as
// summaries and titles (SVC-01): the Model that a Session names for them, and how it is called.
package utility

import (
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Capability is the name of the built-in capability that names the Model.
const Capability = "utility_model"

// ModelRef is the JSON Schema of the reference to a Model in the configuration of a capability.
const ModelRef = `{
  "type": "object",
  "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 253}},
  "required": ["name"],
  "additionalProperties": false
}`

// Schema is the JSON Schema of the configuration of the capability.
const Schema = `{
  "type": "object",
  "properties": {"modelRef": ` + ModelRef + `},
  "required": ["modelRef"],
  "additionalProperties": false
}`

// Parse returns the name of the Model in a configuration that satisfies the Schema.
func Parse(config string) (string, error) {
	var read struct {
		ModelRef struct {
			Name string `json:"name"`
		} `json:"modelRef"`
	}
	if err := json.Unmarshal([]byte(config), &read); err != nil {
		return "", fmt.Errorf("reading the configuration of %s: %w", Capability, err)
	}
	if read.ModelRef.Name == "" {
		return "", fmt.Errorf("reading the configuration of %s: modelRef is required", Capability)
	}
	return read.ModelRef.Name, nil
}

// Tuned returns a Model as capabilities call it: it reasons little, and its response is never recorded as that of a
// Turn.
func Tuned(m *v1alpha1.Model) *v1alpha1.Model {
	tuned := m.DeepCopy()
	tuned.Spec.Recovery = v1alpha1.ModelRecoveryRestart
	if p := tuned.Spec.Parameters; p != nil && p.ReasoningEffort != "" &&
		p.ReasoningEffort != v1alpha1.ReasoningEffortNone {
		p.ReasoningEffort = v1alpha1.ReasoningEffortLow
	}
	return tuned
}
