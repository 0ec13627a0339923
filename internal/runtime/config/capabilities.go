package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// Capabilities returns the capabilities of the layers, with those that they depend on.
func (r *Resolved) Capabilities() capability.Resolution {
	found := capability.Resolve(r.Effective.Capabilities, r.lookUp)
	found.TooMany = found.TooMany || r.tooManyObjects
	return found
}

// lookUp returns the state and the dependencies of a capability of either kind.
func (r *Resolved) lookUp(id string) (capability.State, []capability.Dependency) {
	if name, ok := capability.ObjectName(id); ok {
		return stateOf(r.Objects[name])
	}
	found, known := builtin.Find(id)
	if !known {
		return capability.Missing, nil
	}
	dependencies := make([]capability.Dependency, len(found.DependsOn))
	for i, id := range found.DependsOn {
		dependencies[i] = capability.Dependency{ID: id, MaxRisk: v1alpha1.CapabilityRiskHigh}
	}
	return capability.Available, dependencies
}

// Prompts returns what the capabilities add to the system prompt, in their order (CAP-04).
func (r *Resolved) Prompts() []capability.Prompt {
	if r.blueprint != nil {
		return nil
	}
	var prompts []capability.Prompt
	for _, use := range r.Capabilities().Uses {
		p := capability.Prompt{ID: use.ID}
		if name, ok := capability.ObjectName(use.ID); ok {
			p.Text, p.Config = strings.TrimSpace(r.Objects[name].Spec.SystemPrompt), use.Config
		} else {
			found, _ := builtin.Find(use.ID)
			p.Text = found.Prompt
		}
		if p.Text != "" || p.Config != "" {
			prompts = append(prompts, p)
		}
	}
	return prompts
}

// RiskOf returns the risk of a capability.
func (r *Resolved) RiskOf(id string) v1alpha1.CapabilityRisk {
	if name, ok := capability.ObjectName(id); ok {
		if o := r.Objects[name]; o != nil && o.Spec.RiskLevel != "" {
			return o.Spec.RiskLevel
		}
		return v1alpha1.CapabilityRiskLow
	}
	found, _ := builtin.Find(id)
	return found.Risk
}

// capabilityProblem returns why the capabilities of the layers cannot be used. None is ever left out that is not
// optional: its tools, hooks or limits may be what the author relies on.
func (r *Resolved) capabilityProblem() (reason, message string) {
	var all Problems
	found := r.Capabilities()
	addUnknown(found.Unknown, &all)
	for _, use := range found.Archived {
		all.Add(v1alpha1.ReasonArchived, fmt.Sprintf("%s is archived. Set its lifecycle to Active, or remove it from %s.",
			described(use), namedIn(use)))
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
		r.addUseProblems(use, &all)
	}
	return all.First()
}

// addUseProblems adds why a capability that exists cannot be used.
func (r *Resolved) addUseProblems(use capability.Use, all *Problems) {
	if name, ok := capability.ObjectName(use.ID); ok {
		all.Add(r.objectProblem(r.Objects[name], use))
	} else if _, err := builtin.Configured(use.ID, use.Config); err != nil {
		all.Add(v1alpha1.ReasonCapabilityInvalid, fmt.Sprintf("Capability %q has an %v. Correct it in capabilities.",
			use.ID, err))
	}
	if use.NeededBy == "" && use.ID != r.selfID() {
		r.addRiskProblem(use.ID, "a layer", use.MaxRisk, all)
	}
	_, dependencies := r.lookUp(use.ID)
	for _, d := range dependencies {
		r.addRiskProblem(d.ID, fmt.Sprintf("capability %q", use.ID), d.MaxRisk, all)
	}
	if use.Optional && r.bringsHooks(use) {
		all.Add(v1alpha1.ReasonCapabilityInvalid, fmt.Sprintf("Capability %q brings hooks, and cannot be optional. "+
			"Remove optional where it is named.", use.ID))
	}
}

// addRiskProblem adds that a capability has a higher risk than the one that names it accepts.
func (r *Resolved) addRiskProblem(id, by string, accepted v1alpha1.CapabilityRisk, all *Problems) {
	if risk := r.RiskOf(id); capability.Exceeds(risk, accepted) {
		all.Add(v1alpha1.ReasonCapabilityRisk, fmt.Sprintf("Capability %q has the risk %s, and %s names it with maxRisk %s. "+
			"Raise maxRisk there, or do not name it.", id, risk, by, accepted))
	}
}

// addUnknown adds the capabilities that do not exist.
func addUnknown(uses []capability.Use, all *Problems) {
	var unknown []string
	for _, use := range uses {
		if _, ok := capability.ObjectName(use.ID); !ok {
			unknown = append(unknown, use.ID)
			continue
		}
		all.Add(v1alpha1.ReasonCapabilityNotFound, fmt.Sprintf("%s does not exist. Create it, or remove it from %s.",
			described(use), namedIn(use)))
	}
	if len(unknown) > 0 {
		all.Add(v1alpha1.ReasonCapabilityNotFound,
			fmt.Sprintf("The manager has no capability of these names: %s. It has: %s. Correct capabilities, or upgrade the "+
				"manager.", strings.Join(unknown, ", "), strings.Join(builtin.Names(), ", ")))
	}
}

// described is a Capability as the subject of a sentence.
func described(use capability.Use) string {
	name, _ := capability.ObjectName(use.ID)
	if use.NeededBy == "" {
		return "Capability " + strconv.Quote(name)
	}
	return fmt.Sprintf("Capability %q, on which capability %q depends,", name, use.NeededBy)
}

// namedIn is the field that a Capability is named in.
func namedIn(use capability.Use) string {
	if use.NeededBy == "" {
		return "capabilities"
	}
	return "dependencies of the other"
}
