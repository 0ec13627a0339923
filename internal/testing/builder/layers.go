package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// HarnessWrapper wraps a Harness.
type HarnessWrapper struct{ object v1alpha1.Harness }

// Harness begins a Harness without a parent.
func Harness(name string) *HarnessWrapper {
	return &HarnessWrapper{v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// In sets the namespace.
func (w *HarnessWrapper) In(namespace string) *HarnessWrapper {
	w.object.Namespace = namespace
	return w
}

// Parent sets the parent.
func (w *HarnessWrapper) Parent(name string) *HarnessWrapper {
	w.object.Spec.ParentRef = reference(name)
	return w
}

// Model sets the Model.
func (w *HarnessWrapper) Model(name string) *HarnessWrapper {
	w.object.Spec.ModelRef = reference(name)
	return w
}

// Tools adds Tools.
func (w *HarnessWrapper) Tools(names ...string) *HarnessWrapper {
	w.object.Spec.Tools = append(w.object.Spec.Tools, references(names)...)
	return w
}

// Layer replaces the fields that every layer has.
func (w *HarnessWrapper) Layer(layer v1alpha1.ConfigLayer) *HarnessWrapper {
	w.object.Spec.ConfigLayer = layer
	return w
}

// Obj returns the Harness.
func (w *HarnessWrapper) Obj() *v1alpha1.Harness { return &w.object }

// AgentWrapper wraps an Agent.
type AgentWrapper struct{ object v1alpha1.Agent }

// Agent begins an Agent.
func Agent(name string) *AgentWrapper {
	return &AgentWrapper{v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

// In sets the namespace.
func (w *AgentWrapper) In(namespace string) *AgentWrapper {
	w.object.Namespace = namespace
	return w
}

// Layer replaces the fields that every layer has.
func (w *AgentWrapper) Layer(layer v1alpha1.ConfigLayer) *AgentWrapper {
	w.object.Spec.ConfigLayer = layer
	return w
}

// Obj returns the Agent.
func (w *AgentWrapper) Obj() *v1alpha1.Agent { return &w.object }

// SessionWrapper wraps a Session.
type SessionWrapper struct{ object v1alpha1.Session }

// Session begins a Session with the Harness named HarnessName.
func Session(name string) *SessionWrapper {
	return &SessionWrapper{v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: HarnessName}},
	}}
}

// In sets the namespace.
func (w *SessionWrapper) In(namespace string) *SessionWrapper {
	w.object.Namespace = namespace
	return w
}

// Model sets the Model.
func (w *SessionWrapper) Model(name string) *SessionWrapper {
	w.object.Spec.ModelRef = reference(name)
	return w
}

// Obj returns the Session.
func (w *SessionWrapper) Obj() *v1alpha1.Session { return &w.object }
