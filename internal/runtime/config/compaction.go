package config

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/compaction"
)

// Compaction returns how long conversations are shortened, nil for not at all, and the Model that writes summaries, nil
// for that of the Turn. A Model that does not exist or is not ready is passed over, as a fallback is.
func (r *Resolved) Compaction() (*compaction.Policy, *v1alpha1.Model) {
	uses := r.Capabilities().Uses
	at := slices.IndexFunc(uses, func(u capability.Use) bool { return u.ID == compaction.Capability })
	if at < 0 {
		return nil, nil
	}
	policy, err := compaction.Parse(uses[at].Config)
	if err != nil {
		return nil, nil // It blocks the Turn: see addUseProblems.
	}
	for i := range r.Models {
		if m := &r.Models[i]; m.Name == policy.Model && presence(m.Status.Conditions) == Usable {
			return policy, m
		}
	}
	return policy, nil
}
