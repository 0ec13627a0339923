package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// defaultBlueprintIterations is the maximum number of model calls of a Turn of a blueprint that sets none (BP-01).
const defaultBlueprintIterations int32 = 20

// blueprintOf returns the blueprint of a name; nil for none.
func blueprintOf(o *v1alpha1.Capability, name string) *v1alpha1.Blueprint {
	if o == nil {
		return nil
	}
	i := slices.IndexFunc(o.Spec.Blueprints, func(b v1alpha1.Blueprint) bool { return b.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Spec.Blueprints[i]
}

// withBlueprint adds the Capability of a blueprint to those of the layers, so that it is there, accepted and looked
// after like them. Its configuration stays that of the layers.
func withBlueprint(uses []capability.Use, ref *v1alpha1.BlueprintReference) []capability.Use {
	named := capability.Merge(nil, []v1alpha1.CapabilityReference{{Name: ref.Capability, MaxRisk: ref.MaxRisk}})[0]
	uses = slices.Clone(uses)
	i := slices.IndexFunc(uses, func(u capability.Use) bool { return u.ID == named.ID })
	if i < 0 {
		return append(uses, named)
	}
	uses[i].Optional = false
	if capability.Exceeds(uses[i].MaxRisk, named.MaxRisk) {
		uses[i].MaxRisk = named.MaxRisk
	}
	return uses
}

// becomeBlueprint replaces what the layers and their capabilities make up by the agent of the blueprint (BP-02). Hooks,
// initial files and network access stay those of the layers.
func (r *Resolved) becomeBlueprint(own *v1alpha1.SessionSpec) {
	b := blueprintOf(r.Objects[r.blueprint.Capability], r.blueprint.Name)
	e := &r.Effective
	e.SystemPrompt, e.Tools, e.MCPServers, e.MaxIterations = "", nil, nil, defaultBlueprintIterations
	if b == nil {
		return
	}
	e.SystemPrompt = BlueprintPrompt(b.SystemPrompt, r.blueprint.Config)
	e.Tools = addNames(nil, b.Tools)
	switch {
	case own.MaxIterations != nil:
		e.MaxIterations = *own.MaxIterations
	case b.MaxIterations != nil:
		e.MaxIterations = *b.MaxIterations
	}
	if b.ModelRef == nil {
		return
	}
	e.ModelRef = b.ModelRef.Name
	if b.ModelPolicy == v1alpha1.BlueprintModelDefault {
		if model, _ := splitConfig(b, configText(r.blueprint.Config)); model != "" {
			e.ModelRef = model
		}
	}
}

// fixedModel reports whether messages cannot name another Model.
func (r *Resolved) fixedModel() bool {
	if r.blueprint == nil {
		return false
	}
	b := blueprintOf(r.Objects[r.blueprint.Capability], r.blueprint.Name)
	return b != nil && b.ModelPolicy == v1alpha1.BlueprintModelFixed
}

// BlueprintPrompt is the system prompt of a blueprint with a configuration; a mark if that of the blueprint is.
func BlueprintPrompt(prompt string, config *v1alpha1.JSON) string {
	text := configText(config)
	switch {
	case leftout.Is(prompt):
		return leftout.Mark(leftout.Bytes(prompt)+int64(len(text)), "")
	case text == "":
		return strings.TrimSpace(prompt)
	default:
		return strings.TrimSpace(prompt) + "\n\n<config>\n" + text + "\n</config>"
	}
}

func configText(config *v1alpha1.JSON) string {
	if config == nil {
		return ""
	}
	return string(config.Raw)
}

// splitConfig returns the Model that a configuration names where a blueprint lets it, and the rest.
func splitConfig(b *v1alpha1.Blueprint, config string) (model, rest string) {
	if b.ModelPolicy != v1alpha1.BlueprintModelDefault || config == "" || capability.TooLarge(config) {
		return "", config
	}
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(config), &values) != nil || json.Unmarshal(values["model"], &model) != nil {
		return "", config
	}
	delete(values, "model")
	if len(values) == 0 {
		return model, ""
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return "", config
	}
	return model, string(raw)
}

// blueprintProblem returns why the blueprint of the Session cannot be used. A Capability that is missing is a problem
// of its own.
func (r *Resolved) blueprintProblem() (reason, message string) {
	if r.blueprint == nil || r.Objects[r.blueprint.Capability] == nil {
		return "", ""
	}
	o := r.Objects[r.blueprint.Capability]
	b := blueprintOf(o, r.blueprint.Name)
	if b == nil {
		return v1alpha1.ReasonBlueprintInvalid, fmt.Sprintf(
			"Capability %q has no blueprint %q. Add it there; a Session keeps "+
				"its blueprint.",
			o.Name,
			r.blueprint.Name,
		)
	}
	_, config := splitConfig(b, configText(r.blueprint.Config))
	if problem := blueprintConfigProblem(b, config); problem != "" {
		return v1alpha1.ReasonBlueprintInvalid, fmt.Sprintf("The config of blueprint %q of Capability %q is invalid: %s. "+
			"Create a Session with another one.", b.Name, o.Name, problem)
	}
	return r.nestedProblem(o, b)
}

func blueprintConfigProblem(b *v1alpha1.Blueprint, config string) string {
	switch {
	case capability.TooLarge(config):
		return fmt.Sprintf("it has more than %d bytes", capability.MaxConfigBytes)
	case b.ConfigSchema == nil && config == "":
		return ""
	case b.ConfigSchema == nil:
		return "the blueprint has no configSchema"
	}
	err := usableSchema(b.ConfigSchema.Raw, maxBlueprintSchemaBytes)
	if err != nil {
		return "its schema cannot be used: " + err.Error()
	}
	err = configs.Validate(b.ConfigSchema.Raw, config)
	var mismatch *inputschema.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return "it does not match the configSchema:" + mismatch.Findings
	case err != nil:
		return err.Error()
	default:
		return ""
	}
}

// nestedProblem returns that a blueprint has a Tool with an agent (BP-04).
func (r *Resolved) nestedProblem(o *v1alpha1.Capability, b *v1alpha1.Blueprint) (reason, message string) {
	for _, ref := range b.Tools {
		if t := r.Tools[ref.Name]; t != nil && t.Spec.Agent != nil {
			return v1alpha1.ReasonBlueprintInvalid, fmt.Sprintf("Blueprint %q of Capability %q has the Tool %q, which starts "+
				"sub-agents. Remove it from the tools of the blueprint.", b.Name, o.Name, ref.Name)
		}
	}
	return "", ""
}

// readBlueprints adds the Tools of the blueprints of a Capability to those that are looked at, and reads their Models.
func (r *Resolved) readBlueprints(ctx context.Context, source Source) error {
	for i := range r.self.Spec.Blueprints {
		b := &r.self.Spec.Blueprints[i]
		r.Effective.Tools = addNames(r.Effective.Tools, b.Tools)
		if b.ModelRef == nil {
			continue
		}
		if err := r.readModel(ctx, source, b.ModelRef.Name); err != nil {
			return err
		}
	}
	return nil
}

// addBlueprintProblems adds why blueprints of the Capability whose part this is cannot be used.
func (r *Resolved) addBlueprintProblems(all *Problems) {
	if r.self == nil {
		return
	}
	for i := range r.self.Spec.Blueprints {
		b := &r.self.Spec.Blueprints[i]
		if b.ConfigSchema != nil {
			if err := usableSchema(b.ConfigSchema.Raw, maxBlueprintSchemaBytes); err != nil {
				all.Add(v1alpha1.ReasonInvalidSchema,
					fmt.Sprintf("configSchema of blueprint %q cannot be used: %v. Correct it.", b.Name, err))
			}
		}
		all.Add(r.nestedProblem(r.self, b))
		if b.ModelRef == nil {
			continue
		}
		switch presence, why := r.modelPresence(b.ModelRef.Name); presence {
		case Missing:
			all.Add(v1alpha1.ReasonModelNotFound, fmt.Sprintf("Model %q, which blueprint %q names, does not exist. Create it, "+
				"or change modelRef.", b.ModelRef.Name, b.Name))
		case NotReady:
			all.Add(v1alpha1.ReasonModelNotReady, fmt.Sprintf("Model %q is not ready%s", b.ModelRef.Name, why))
		case Usable, Unbound:
		}
	}
}

// leaveOutBlueprints replaces long prompts of blueprints by marks, and schemas that are too large to be used.
func leaveOutBlueprints(blueprints []v1alpha1.Blueprint) {
	for i := range blueprints {
		b := &blueprints[i]
		layer := v1alpha1.ConfigLayer{SystemPrompt: b.SystemPrompt, Tools: b.Tools}
		LeaveOutPrompt(&layer)
		ShortenToolNames(&layer)
		b.SystemPrompt = layer.SystemPrompt
		leaveOutSchema(b.ConfigSchema, maxBlueprintSchemaBytes)
	}
}

// LeaveOutBlueprintConfig replaces the configuration of a Session's blueprint by a mark if it is too large.
func LeaveOutBlueprintConfig(ref *v1alpha1.BlueprintReference) {
	if ref == nil {
		return
	}
	refs := []v1alpha1.CapabilityReference{{Config: ref.Config}}
	capability.LeaveOutConfigs(refs)
	ref.Config = refs[0].Config
}
