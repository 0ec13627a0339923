package config

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Locale is the language that a message is to be answered in: that of its own controls, else that of the Session, else
// none (CFG-08). It is no part of the layers.
func Locale(controls *v1alpha1.TurnControls, session string) string {
	if controls != nil {
		if own := strings.TrimSpace(controls.Locale); own != "" {
			return own
		}
	}
	return strings.TrimSpace(session)
}
