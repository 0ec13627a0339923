package capability

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// decide returns the reason and message of a Capability's Ready condition.
func decide(spec v1alpha1.CapabilitySpec, resolved *config.Resolved) (reason, message string) {
	if spec.Lifecycle == v1alpha1.LifecycleArchived {
		return v1alpha1.ReasonArchived, "The Capability is archived, which stops the Turns of the Sessions that have it. " +
			"Set lifecycle to Active to use it."
	}
	if reason, message := resolved.Problem(); reason != "" {
		return reason, message
	}
	return v1alpha1.ReasonReady, "The Capability can be used."
}
