package config

import (
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// Capabilities returns the capabilities of the layers, with those that they depend on.
func (r *Resolved) Capabilities() capability.Resolution {
	return capability.Resolve(r.Effective.Capabilities, func(id string) ([]string, bool) {
		found, known := builtin.Find(id)
		return found.DependsOn, known
	})
}

// Prompts returns what the capabilities add to the system prompt, in their order (CAP-04).
func (r *Resolved) Prompts() []capability.Prompt {
	var prompts []capability.Prompt
	for _, use := range r.Capabilities().Uses {
		if found, _ := builtin.Find(use.ID); found.Prompt != "" {
			prompts = append(prompts, capability.Prompt{ID: use.ID, Text: found.Prompt})
		}
	}
	return prompts
}

// capabilityProblem returns why the capabilities of the layers cannot be used. None is ever left out: its tools or its
// limits may be what the author relies on.
func (r *Resolved) capabilityProblem() (reason, message string) {
	var all Problems
	found := r.Capabilities()
	if len(found.Unknown) > 0 {
		unknown := make([]string, len(found.Unknown))
		for i, use := range found.Unknown {
			unknown[i] = use.ID
		}
		all.Add(v1alpha1.ReasonCapabilityNotFound,
			fmt.Sprintf("The manager has no capability of these names: %s. It has: %s. Correct capabilities, or upgrade the "+
				"manager.", strings.Join(unknown, ", "), strings.Join(builtin.Names(), ", ")))
	}
	if len(found.Cycle) > 0 {
		all.Add(v1alpha1.ReasonCapabilityInvalid, fmt.Sprintf("Capability %q depends on itself (%s). Remove one of the "+
			"dependencies.", found.Cycle[0], strings.Join(found.Cycle, " -> ")))
	}
	if found.TooMany {
		all.Add(v1alpha1.ReasonCapabilityInvalid, fmt.Sprintf("The layers have more than %d capabilities, with their "+
			"dependencies. Remove some of them.", capability.Max))
	}
	for _, use := range found.Uses {
		if _, err := builtin.Configured(use.ID, use.Config); err != nil {
			all.Add(v1alpha1.ReasonCapabilityInvalid, fmt.Sprintf("Capability %q has an %v. Correct it in capabilities.",
				use.ID, err))
		}
	}
	return all.First()
}
