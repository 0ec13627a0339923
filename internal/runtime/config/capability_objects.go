package config

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

const (
	// MaxConfigSchemaBytes is the maximum size of the configSchema of a Capability.
	MaxConfigSchemaBytes = 8 << 10
	// maxBlueprintSchemaBytes is that of a blueprint.
	maxBlueprintSchemaBytes = 4 << 10
	// maxFileCapabilities is the maximum number of Capabilities with initial files in one Session: all files are in memory
	// when they are written.
	maxFileCapabilities = 16
)

// configs checks configurations against the schemas of Capabilities, for all Sessions of the process.
var configs = inputschema.NewValidator()

// ResolveCapability reads the objects that a Capability names, as Resolve does for a Session whose only layer names it.
func ResolveCapability(ctx context.Context, source Source, own *v1alpha1.Capability) (*Resolved, error) {
	layer := v1alpha1.ConfigLayer{Capabilities: []v1alpha1.CapabilityReference{{
		Name: own.Name, MaxRisk: v1alpha1.CapabilityRiskHigh,
	}}}
	r := &Resolved{Part: true, self: own}
	if err := r.fold(ctx, source, own.Namespace, []layered{{layer: layer}}); err != nil {
		return nil, err
	}
	if err := r.readBlueprints(ctx, source); err != nil {
		return nil, err
	}
	return r, r.readTools(ctx, source)
}

// Dependencies are the ids of the capabilities that come with the Capability that was resolved.
func (r *Resolved) Dependencies() []string {
	var ids []string
	for _, use := range r.Capabilities().Uses {
		if use.ID != r.selfID() {
			ids = append(ids, use.ID)
		}
	}
	return ids
}

// selfID is the id of the Capability whose part this is; empty for none.
func (r *Resolved) selfID() string {
	if r.self == nil {
		return ""
	}
	return capability.ObjectID(r.self.Name)
}

// stateOf returns the state and the dependencies of a Capability; nil for one that does not exist.
func stateOf(o *v1alpha1.Capability) (capability.State, []capability.Dependency) {
	switch {
	case o == nil:
		return capability.Missing, nil
	case o.Spec.Lifecycle == v1alpha1.LifecycleArchived:
		return capability.Archived, nil
	}
	dependencies := make([]capability.Dependency, len(o.Spec.Dependencies))
	for i, d := range o.Spec.Dependencies {
		dependencies[i] = capability.DependencyOf(d)
	}
	return capability.Available, dependencies
}

// readCapabilities reads the Capabilities of the layers, and those that they depend on.
func (r *Resolved) readCapabilities(ctx context.Context, source Source) error {
	r.Objects = map[string]*v1alpha1.Capability{}
	var failed error
	capability.Resolve(r.Effective.Capabilities, func(id string) (capability.State, []capability.Dependency) {
		name, isObject := capability.ObjectName(id)
		if _, known := r.Objects[name]; isObject && !known && failed == nil {
			failed = r.readCapability(ctx, source, name)
		}
		return r.lookUp(id)
	})
	return failed
}

func (r *Resolved) readCapability(ctx context.Context, source Source, name string) error {
	if r.self != nil && name == r.self.Name {
		r.Objects[name] = r.self
		return nil
	}
	// More than one Session may have are an error, also if most are optional.
	if len(r.Objects) >= capability.Max {
		r.tooManyObjects = true
		return nil
	}
	o, err := source.Capability(ctx, name)
	if err != nil {
		return err
	}
	r.Objects[name] = o
	return nil
}

// bundleOf is what a Capability contributes, as a layer.
func bundleOf(o *v1alpha1.Capability) v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{
		SystemPrompt: o.Spec.SystemPrompt, Tools: o.Spec.Tools, MCPServers: o.Spec.MCPServers, Hooks: o.Spec.Hooks,
		InitialFiles: o.Spec.InitialFiles,
	}
}

// bundles are what the Capabilities of a Session contribute, in their order.
func (r *Resolved) bundles() []layered {
	var bundles []layered
	for _, o := range r.Bundles() {
		bundles = append(bundles, layered{hook.CapabilityObject(o.Name), bundleOf(o)})
	}
	return bundles
}

// broughtBy returns the position of the highest layer that has a capability, itself or as a dependency, by ids.
func (r *Resolved) broughtBy(layers []layered) map[string]int {
	by := map[string]int{}
	for i, l := range layers {
		refs := l.layer.Capabilities
		if r.blueprint != nil && i == len(layers)-1 {
			refs = append(slices.Clone(refs), v1alpha1.CapabilityReference{Name: r.blueprint.Capability})
		}
		for j := range refs {
			use := capability.Use{ID: capability.IDOf(&refs[j])}
			for _, found := range capability.Of(use, r.lookUp).Uses {
				if _, known := by[found.ID]; !known {
					by[found.ID] = i
				}
			}
		}
	}
	return by
}

// Bundles are the Capabilities of a Session, in their order.
func (r *Resolved) Bundles() []*v1alpha1.Capability {
	var all []*v1alpha1.Capability
	for _, use := range r.Capabilities().Uses {
		if name, ok := capability.ObjectName(use.ID); ok {
			all = append(all, r.Objects[name])
		}
	}
	return all
}

// addBundles adds what Capabilities contribute to the merged configuration: Tools and MCPServers behind those of the
// layers, and initial files below theirs (CAP-04).
func (e *Effective) addBundles(bundles, layers []layered) {
	files := false
	for _, b := range bundles {
		e.Tools = addNames(e.Tools, b.layer.Tools)
		e.MCPServers = addNames(e.MCPServers, b.layer.MCPServers)
		files = files || len(b.layer.InitialFiles) > 0
	}
	if !files {
		return
	}
	e.InitialFiles = nil
	for _, l := range slices.Concat(bundles, layers) {
		e.InitialFiles = foldFiles(e.InitialFiles, l.layer.InitialFiles)
	}
}

func addNames(known []string, refs []v1alpha1.LocalReference) []string {
	for _, ref := range refs {
		if !slices.Contains(known, ref.Name) {
			known = append(known, ref.Name)
		}
	}
	return known
}

// objectProblem returns why a Capability cannot be used with its configuration.
func (r *Resolved) objectProblem(o *v1alpha1.Capability, use capability.Use) (reason, message string) {
	schema := o.Spec.ConfigSchema
	if schema == nil {
		if use.Config == "" {
			return "", ""
		}
		return configProblem(use.ID, "the Capability has no configSchema")
	}
	if err := usableSchema(schema.Raw, MaxConfigSchemaBytes); err != nil {
		reason := v1alpha1.ReasonCapabilityInvalid
		if r.self == o {
			reason = v1alpha1.ReasonInvalidSchema
		}
		return reason, fmt.Sprintf("configSchema of Capability %q cannot be used: %v. Correct it.", o.Name, err)
	}
	if r.self == o || r.blueprint != nil && r.blueprint.Capability == o.Name && use.Config == "" {
		return "", ""
	}
	if capability.TooLarge(use.Config) {
		return configProblem(use.ID, fmt.Sprintf("it has more than %d bytes", capability.MaxConfigBytes))
	}
	err := configs.Validate(schema.Raw, use.Config)
	var mismatch *inputschema.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return configProblem(use.ID, "it does not match the configSchema:"+mismatch.Findings)
	case err != nil:
		return configProblem(use.ID, err.Error())
	default:
		return "", ""
	}
}

func configProblem(id, problem string) (reason, message string) {
	return v1alpha1.ReasonCapabilityInvalid,
		fmt.Sprintf("Capability %q has an invalid config: %s. Correct it in capabilities.", id, problem)
}

// usableSchema returns why a schema cannot be used.
func usableSchema(schema []byte, limit int) error {
	if len(schema) > limit || string(schema) == schemaLeftOut {
		return fmt.Errorf("it has more than %d bytes", limit)
	}
	return configs.Usable(schema)
}

// schemaLeftOut stands for a schema that is too large to be used. It is no object, so that no user can write it.
const schemaLeftOut = `"too large"`

// LeaveOutCapability replaces the long texts of a Capability by marks, as is done with layers, and cuts a schema that
// is too large to be used.
func LeaveOutCapability(o *v1alpha1.Capability) {
	layer := bundleOf(o)
	LeaveOutPrompt(&layer)
	LeaveOutFiles(&layer)
	ShortenToolNames(&layer)
	o.Spec.SystemPrompt, o.Spec.InitialFiles = layer.SystemPrompt, layer.InitialFiles
	leaveOutSchema(o.Spec.ConfigSchema, MaxConfigSchemaBytes)
	leaveOutBlueprints(o.Spec.Blueprints)
	o.Spec.Description = ""
}

func leaveOutSchema(schema *v1alpha1.JSON, limit int) {
	if schema != nil && len(schema.Raw) > limit {
		schema.Raw = []byte(schemaLeftOut)
	}
}

// bringsHooks reports whether a capability, or one that it depends on, has hooks.
func (r *Resolved) bringsHooks(use capability.Use) bool {
	return slices.ContainsFunc(capability.Of(use, r.lookUp).Uses, func(u capability.Use) bool {
		name, ok := capability.ObjectName(u.ID)
		return ok && len(r.Objects[name].Spec.Hooks) > 0
	})
}

// objectBlocker returns the first Capability that stops the Turns of the Session; nil for none.
func (r *Resolved) objectBlocker() *Blocker {
	found := r.Capabilities()
	for _, use := range found.Unknown {
		if name, ok := capability.ObjectName(use.ID); ok {
			return &Blocker{
				Dependency: DependencyCapability, State: DependencyDeleted,
				Remedy: fmt.Sprintf("Create Capability %q, or remove it from %s; then create another Turn.", name, namedIn(use)),
			}
		}
	}
	for _, use := range found.Archived {
		name, _ := capability.ObjectName(use.ID)
		return &Blocker{
			Dependency: DependencyCapability, State: DependencyArchived,
			Remedy: fmt.Sprintf("Set lifecycle of Capability %q to Active, or remove it from %s; then create another Turn.",
				name, namedIn(use)),
		}
	}
	return nil
}

// optionalNotes are remarks on optional capabilities that are left out.
func (r *Resolved) optionalNotes() []string {
	var notes []string
	for _, use := range r.Capabilities().LeftOut {
		notes = append(notes, fmt.Sprintf("The optional capability %q is left out: it, or one that it depends on, does not "+
			"exist or is archived.", use.ID))
	}
	return notes
}
