package agent

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// decide returns the reason and message of an Agent's Ready condition.
func decide(spec v1alpha1.AgentSpec, resolved *config.Resolved) (reason, message string) {
	if spec.Lifecycle == v1alpha1.LifecycleArchived {
		return v1alpha1.ReasonArchived, "The Agent is archived, which stops the Turns of the Sessions that refer to it. " +
			"Set lifecycle to Active to use it."
	}
	if reason, message := resolved.Problem(); reason != "" {
		return reason, message
	}
	return v1alpha1.ReasonReady, "The Agent can be used."
}
