package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// TurnWrapper wraps a Turn.
type TurnWrapper struct{ object v1alpha1.Turn }

// Turn begins a Turn of the Session named SessionName with the input "Hello".
func Turn(name string) *TurnWrapper {
	return &TurnWrapper{v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: SessionName}, Input: "Hello"},
	}}
}

// In sets the namespace.
func (w *TurnWrapper) In(namespace string) *TurnWrapper {
	w.object.Namespace = namespace
	return w
}

// Session sets the Session.
func (w *TurnWrapper) Session(name string) *TurnWrapper {
	w.object.Spec.SessionRef.Name = name
	return w
}

// Input sets the input.
func (w *TurnWrapper) Input(text string) *TurnWrapper {
	w.object.Spec.Input = text
	return w
}

// Obj returns the Turn.
func (w *TurnWrapper) Obj() *v1alpha1.Turn { return &w.object }
