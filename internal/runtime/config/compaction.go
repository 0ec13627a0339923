package config

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/compaction"
)

// Compaction returns how long conversations are shortened, nil for not at all, and the Model that writes summaries, nil
// for that of the Turn.
func (r *Resolved) Compaction() (*compaction.Policy, *v1alpha1.Model) {
	config, used := r.builtinConfig(compaction.Capability)
	if !used {
		return nil, nil
	}
	policy, err := compaction.Parse(config)
	if err != nil {
		return nil, nil // It blocks the Turn: see addUseProblems.
	}
	return policy, r.utilityModel(policy.Model)
}
