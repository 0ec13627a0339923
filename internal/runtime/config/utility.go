package config

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/title"
	"github.com/capstan-dev/capstan/internal/runtime/utility"
)

// Title returns how the Session gets its title, nil for not at all, and the Model that writes it, nil for that of the
// Turn.
func (r *Resolved) Title() (*title.Policy, *v1alpha1.Model) {
	config, used := r.builtinConfig(title.Capability)
	if !used {
		return nil, nil
	}
	policy, err := title.Parse(config)
	if err != nil {
		return nil, nil // It blocks the Turn: see addUseProblems.
	}
	return policy, r.utilityModel(policy.Model)
}

// utilityModel returns the Model for a call of a capability: the one that the capability names, or else the utility
// model of the Session; nil for neither. A Model that does not exist or is not ready is passed over, as a fallback is
// (SVC-01).
func (r *Resolved) utilityModel(named string) *v1alpha1.Model {
	names := []string{named}
	if config, used := r.builtinConfig(utility.Capability); used {
		if shared, err := utility.Parse(config); err == nil {
			names = append(names, shared)
		}
	}
	for _, name := range names {
		for i := range r.Models {
			if m := &r.Models[i]; m.Name == name && presence(m.Status.Conditions) == Usable {
				return m
			}
		}
	}
	return nil
}

// builtinConfig returns the configuration of a built-in capability, and whether the Session has it.
func (r *Resolved) builtinConfig(id string) (string, bool) {
	uses := r.Capabilities().Uses
	at := slices.IndexFunc(uses, func(u capability.Use) bool { return u.ID == id })
	if at < 0 {
		return "", false
	}
	return uses[at].Config, true
}
