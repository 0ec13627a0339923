package config

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Locale is the language of the response to a message: that of its own controls, else that of the Session, else
// none (CFG-08). It is no part of the layers.
func Locale(controls *v1alpha1.TurnControls, session string) string {
	if controls != nil {
		if own := strings.TrimSpace(controls.Locale); own != "" {
			return own
		}
	}
	return strings.TrimSpace(session)
}

// modelNamed returns the name of the Model that controls request; empty for none (CFG-07).
func modelNamed(controls *v1alpha1.TurnControls) string {
	if controls == nil || controls.ModelRef == nil {
		return ""
	}
	return controls.ModelRef.Name
}

// Tuned returns a Model with the parameters that the controls of a message set in place of its own (CFG-09, LLM-06).
// The given Model does not change.
func Tuned(m *v1alpha1.Model, controls *v1alpha1.TurnControls) *v1alpha1.Model {
	tuned := m.DeepCopy()
	if controls == nil || controls.ReasoningEffort == "" {
		return tuned
	}
	if tuned.Spec.Parameters == nil {
		tuned.Spec.Parameters = &v1alpha1.ModelParameters{}
	}
	tuned.Spec.Parameters.ReasoningEffort = controls.ReasoningEffort
	return tuned
}
