package harness

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/reference"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// observation holds everything that one pass has read.
type observation struct {
	// chain is the Harnesses from the root to the one in question; with chainError, as far as they were found.
	chain []*v1alpha1.Harness
	// chainError is why the chain does not resolve; nil if it does.
	chainError *config.ChainError
	// seen describes the objects that the merged chain names.
	seen reference.Seen
}

// effective returns the merged layers of the chain.
func (o observation) effective() config.Effective {
	layers := make([]v1alpha1.ConfigLayer, 0, len(o.chain))
	for _, harness := range o.chain {
		layers = append(layers, harness.Spec.ConfigLayer)
	}
	return config.Fold(layers...)
}

// names returns the names of the chain, the root first; none if the chain does not resolve.
func (o observation) names() []string {
	if o.chainError != nil {
		return nil
	}
	names := make([]string, 0, len(o.chain))
	for _, harness := range o.chain {
		names = append(names, harness.Name)
	}
	return names
}

// decide returns the reason and message of a Harness's Ready condition. An archived ancestor has no effect (GAP-19).
func decide(spec v1alpha1.HarnessSpec, o observation) (reason, message string) {
	if spec.Lifecycle == v1alpha1.LifecycleArchived {
		return v1alpha1.ReasonArchived, "The Harness is archived, which stops the Turns of the Sessions that refer to it. " +
			"Set lifecycle to Active to use it."
	}
	if o.chainError != nil {
		return o.chainError.Reason(), o.chainError.Error()
	}
	if reason, message := o.seen.Problem(o.effective()); reason != "" {
		return reason, message
	}
	return v1alpha1.ReasonReady, "The Harness can be used."
}
