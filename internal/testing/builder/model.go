package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ModelWrapper wraps a Model.
type ModelWrapper struct{ object v1alpha1.Model }

// Model begins a Model without a provider.
func Model(name string) *ModelWrapper {
	return &ModelWrapper{v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// In sets the namespace.
func (w *ModelWrapper) In(namespace string) *ModelWrapper {
	w.object.Namespace = namespace
	return w
}

// Default makes it the default Model of its namespace.
func (w *ModelWrapper) Default() *ModelWrapper {
	w.object.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	return w
}

// Simulated makes it follow a script.
func (w *ModelWrapper) Simulated(script v1alpha1.Simulation) *ModelWrapper {
	w.object.Spec.Provider, w.object.Spec.Simulation = v1alpha1.ModelProviderSimulated, &script
	return w
}

// Obj returns the Model.
func (w *ModelWrapper) Obj() *v1alpha1.Model { return &w.object }

// Fixed is a response with a text.
func Fixed(text string) *v1alpha1.SimulatedResponse {
	return &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: text}
}

// Script makes a model call the tools of one step after another, and then respond with a text.
func Script(text string, steps ...[]v1alpha1.SimulatedToolCall) v1alpha1.Simulation {
	script := v1alpha1.Simulation{Response: Fixed(text)}
	if len(steps) == 0 {
		return script
	}
	sequence := make([]v1alpha1.SimulatedStep, 0, len(steps)+1)
	for _, calls := range steps {
		sequence = append(sequence, v1alpha1.SimulatedStep{Calls: calls})
	}
	script.ToolCalls = &v1alpha1.SimulatedToolCalls{Sequence: append(sequence, v1alpha1.SimulatedStep{})}
	return script
}

// Call is a call of a tool without arguments.
func Call(tool string) v1alpha1.SimulatedToolCall { return v1alpha1.SimulatedToolCall{Name: tool} }

// Calls is a step of a script that calls tools without arguments.
func Calls(tools ...string) []v1alpha1.SimulatedToolCall {
	calls := make([]v1alpha1.SimulatedToolCall, 0, len(tools))
	for _, tool := range tools {
		calls = append(calls, Call(tool))
	}
	return calls
}
