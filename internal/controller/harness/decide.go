package harness

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// names returns the names of the chain, the root first; none if the chain does not resolve.
func names(resolved *config.Resolved) []string {
	if resolved.ChainError != nil {
		return nil
	}
	names := make([]string, 0, len(resolved.Chain))
	for _, harness := range resolved.Chain {
		names = append(names, harness.Name)
	}
	return names
}

// decide returns the reason and message of a Harness's Ready condition. An archived ancestor has no effect (GAP-19).
func decide(spec v1alpha1.HarnessSpec, resolved *config.Resolved) (reason, message string) {
	if spec.Lifecycle == v1alpha1.LifecycleArchived {
		return v1alpha1.ReasonArchived, "The Harness is archived, which stops the Turns of the Sessions that refer to it. " +
			"Set lifecycle to Active to use it."
	}
	if reason, message := resolved.Problem(); reason != "" {
		return reason, message
	}
	return v1alpha1.ReasonReady, "The Harness can be used."
}
