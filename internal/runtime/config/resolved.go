package config

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Source reads the objects of a Session's namespace. An object that does not exist is nil and not an error.
type Source interface {
	// Harness returns the Harness of a name.
	Harness(ctx context.Context, name string) (*v1alpha1.Harness, error)
	// Agent returns the Agent of a name.
	Agent(ctx context.Context, name string) (*v1alpha1.Agent, error)
	// Tool returns the Tool of a name.
	Tool(ctx context.Context, name string) (*v1alpha1.Tool, error)
	// Capability returns the Capability of a name. Texts of it may be left out.
	Capability(ctx context.Context, name string) (*v1alpha1.Capability, error)
	// MCPServer returns the MCPServer of a name. Texts of it may be left out.
	MCPServer(ctx context.Context, name string) (*v1alpha1.MCPServer, error)
	// Model returns the Model of a name.
	Model(ctx context.Context, name string) (*v1alpha1.Model, error)
	// Models returns all Models.
	Models(ctx context.Context) ([]v1alpha1.Model, error)
}

// Resolved is the configuration of a Session at one point in time, or the part of it that an Agent or a Harness makes
// up.
type Resolved struct {
	// Chain is the Harnesses from the root to the one that the Session names, as far as they exist.
	Chain []*v1alpha1.Harness
	// HarnessName is the name in the Session; empty in the part of an Agent.
	HarnessName string
	// Harness is the one that the Session names; nil if it does not exist.
	Harness *v1alpha1.Harness
	// ChainError is why the Harness's ancestors do not resolve; nil if they do.
	ChainError *ChainError
	// Agent is the one that the Session names; nil if it names none or it does not exist.
	Agent *v1alpha1.Agent
	// AgentName is the name in the Session; empty for none.
	AgentName string
	// Effective is the merged configuration of the layers.
	Effective Effective
	// Objects are the Capabilities that the layers name and that these depend on, by name; nil for one that does not
	// exist.
	Objects map[string]*v1alpha1.Capability
	// Hooks are those of all layers that run, the highest layer's first, each with its id.
	Hooks []hook.Spec
	// EndHooks are those of Hooks that run at the end of the Session, in the form in which its status keeps them.
	EndHooks []v1alpha1.PinnedHook
	// Models are all Models of the namespace; in a part, the one that it names and the fallbacks of that.
	Models []v1alpha1.Model
	// Tools are those of the effective tools that exist, by name.
	Tools map[string]*v1alpha1.Tool
	// MCPServers are those of the effective MCPServers that exist, by name.
	MCPServers map[string]*v1alpha1.MCPServer
	// RemoteTexts are the texts of the tools of MCPServers, by the names of the MCPServer and of the tool there; nil
	// where they are read later.
	RemoteTexts map[string]map[string]definition.RemoteTexts
	// Part reports whether these are the layers of an Agent or a Harness alone, of which another layer may name the
	// Model.
	Part bool

	// blueprint is the one that the Session is; nil for none.
	blueprint *v1alpha1.BlueprintReference
	// self is the Capability whose part this is; nil for none.
	self *v1alpha1.Capability
	// tooManyObjects reports whether there are more Capabilities than a Session may have.
	tooManyObjects bool
	// mutedAbove are the ids of hooks that a layer disables without effect.
	mutedAbove []string
	// invalidHooks are why hooks cannot run, and what to do.
	invalidHooks []string
	// endHookBytes is the size of EndHooks.
	endHookBytes int
	// fileProblem is why the initial files of the layers cannot be used; empty if they can.
	fileProblem string
}

// Resolve reads the configuration of the Session: its chain of Harnesses, its Agent, and the Models and Tools that the
// merged layers name. A missing object is not an error; Problem and Blocker report it.
func Resolve(ctx context.Context, source Source, session *v1alpha1.Session) (*Resolved, error) {
	r := &Resolved{HarnessName: session.Spec.HarnessRef.Name, blueprint: session.Spec.Blueprint}
	err := r.readChain(ctx, source)
	if err != nil {
		return nil, err
	}
	if ref := session.Spec.AgentRef; ref != nil {
		r.AgentName = ref.Name
		if r.Agent, err = source.Agent(ctx, ref.Name); err != nil {
			return nil, err
		}
	}
	layers := r.layers()
	if r.Agent != nil {
		layers = append(layers, layered{hook.AgentLayer(r.Agent.Name), r.Agent.Spec.ConfigLayer})
	}
	layers = append(layers, layered{hook.SessionLayer, session.Spec.ConfigLayer})
	if err := r.fold(ctx, source, session.Namespace, layers); err != nil {
		return nil, err
	}
	if r.blueprint != nil {
		r.becomeBlueprint(&session.Spec)
	}
	if r.Models, err = source.Models(ctx); err != nil {
		return nil, err
	}
	return r, r.readTools(ctx, source)
}

// ResolveAgent reads the objects that the layer of an Agent names, as Resolve does for a Session.
func ResolveAgent(ctx context.Context, source Source, agent *v1alpha1.Agent) (*Resolved, error) {
	r := &Resolved{Part: true, AgentName: agent.Name, Agent: agent}
	err := r.fold(ctx, source, agent.Namespace, []layered{{hook.AgentLayer(agent.Name), agent.Spec.ConfigLayer}})
	if err != nil {
		return nil, err
	}
	if err := r.readModel(ctx, source, r.Effective.ModelRef); err != nil {
		return nil, err
	}
	return r, r.readTools(ctx, source)
}

// ResolveHarness reads the ancestors of a Harness and the objects that the chain names, as Resolve does for a Session.
func ResolveHarness(ctx context.Context, source Source, leaf *v1alpha1.Harness) (*Resolved, error) {
	r := &Resolved{Part: true, HarnessName: leaf.Name, Harness: leaf}
	if err := r.readChain(ctx, source); err != nil {
		return nil, err
	}
	if err := r.fold(ctx, source, leaf.Namespace, r.layers()); err != nil {
		return nil, err
	}
	if err := r.readModel(ctx, source, r.Effective.ModelRef); err != nil {
		return nil, err
	}
	return r, r.readTools(ctx, source)
}

// readChain reads the Harness, if it is not known, and its ancestors.
func (r *Resolved) readChain(ctx context.Context, source Source) error {
	var readErr error
	leaf := r.Harness
	r.Chain, r.ChainError = Chain(r.HarnessName, func(name string) *v1alpha1.Harness {
		if leaf != nil && name == leaf.Name {
			return leaf
		}
		harness, err := source.Harness(ctx, name)
		if err != nil {
			readErr = err
		}
		return harness
	})
	if readErr != nil {
		return readErr
	}
	for _, harness := range r.Chain {
		if harness.Name == r.HarnessName {
			r.Harness = harness
		}
	}
	return nil
}

// layers are those of the Harnesses, with the namespaces of their hooks.
func (r *Resolved) layers() []layered {
	layers := make([]layered, len(r.Chain))
	for i, harness := range r.Chain {
		layers[i] = layered{hook.HarnessLayer(harness.Name), harness.Spec.ConfigLayer}
	}
	return layers
}

// readModel reads a Model that a part names, and the fallbacks of that.
func (r *Resolved) readModel(ctx context.Context, source Source, name string) error {
	if name == "" || r.named(name) != nil {
		return nil
	}
	model, err := source.Model(ctx, name)
	if err != nil || model == nil {
		return err
	}
	r.Models = append(r.Models, *model)
	for _, ref := range model.Spec.Fallbacks {
		fallback, err := source.Model(ctx, ref.Name)
		if err != nil {
			return err
		}
		if fallback != nil && ref.Name != model.Name {
			r.Models = append(r.Models, *fallback)
		}
	}
	return nil
}

// readTools reads the Tools and the MCPServers that the merged layers name.
func (r *Resolved) readTools(ctx context.Context, source Source) error {
	r.Tools = map[string]*v1alpha1.Tool{}
	for _, name := range r.Effective.Tools {
		tool, err := source.Tool(ctx, name)
		if err != nil {
			return err
		}
		if tool != nil {
			r.Tools[name] = tool
		}
	}
	return r.readServers(ctx, source)
}

// Blocker returns the reason that stops the Session's Turns (BLK-01); nil for none.
func (r *Resolved) Blocker() *Blocker {
	b := FindBlocker(r.Harness, r.ChainError, r.AgentName != "", r.Agent)
	if b != nil && b.Problem == "" {
		b.Remedy = b.remedy(r)
	}
	if b != nil {
		return b
	}
	if _, problem := r.hookProblem(); problem != "" {
		return &Blocker{Dependency: DependencyHooks, State: DependencyInvalid, Problem: problem}
	}
	if b := r.objectBlocker(); b != nil {
		return b
	}
	if _, problem := r.blueprintProblem(); problem != "" {
		return &Blocker{Dependency: DependencyBlueprint, State: DependencyInvalid, Problem: problem}
	}
	if _, problem := r.capabilityProblem(); problem != "" {
		return &Blocker{Dependency: DependencyCapabilities, State: DependencyInvalid, Problem: problem}
	}
	return r.serverBlocker()
}

// Model returns the Model for a Turn with the given controls (CFG-07). A Session that acts as a ServiceAccount has no
// default one: a user who may write Models would steer the ServiceAccount with a Model at a server of the user's own.
func (r *Resolved) Model(controls *v1alpha1.TurnControls) (*v1alpha1.Model, bool) {
	if r.fixedModel() {
		controls = nil
	}
	if r.actsAsAccount() {
		return namedModel(r.Models, modelNamed(controls), r.Effective.ModelRef)
	}
	return ResolveModel(modelNamed(controls), r.Effective.ModelRef, r.Models)
}

// Fallbacks returns the Models that may be called instead of a Model, in order: its fallbacks that exist and are ready.
// It does not include the Model itself or the fallbacks of fallbacks, so that Models may name each other.
func (r *Resolved) Fallbacks(m *v1alpha1.Model) []*v1alpha1.Model {
	var fallbacks []*v1alpha1.Model
	for _, ref := range m.Spec.Fallbacks {
		i := slices.IndexFunc(r.Models, func(o v1alpha1.Model) bool { return o.Name == ref.Name })
		if i < 0 || ref.Name == m.Name || presence(r.Models[i].Status.Conditions) != Usable {
			continue
		}
		fallbacks = append(fallbacks, &r.Models[i])
	}
	return fallbacks
}

// Problem returns why the configuration cannot be used, as the reason of a Ready condition and a message with the
// remedy: that of the Session, or of the Agent or the Harness whose part this is. Both are empty if it can be used. An
// archived Harness or Agent is not a problem here: it stops Turns, and does not make them wait.
func (r *Resolved) Problem() (reason, message string) {
	var all Problems
	switch {
	case r.HarnessName != "" && r.Harness == nil:
		all.Add(v1alpha1.ReasonHarnessNotFound, fmt.Sprintf("Harness %q does not exist. Create it.", r.HarnessName))
	case r.ChainError != nil:
		all.Add(r.ChainError.Reason(), r.ChainError.Error())
	}
	if r.AgentName != "" && r.Agent == nil {
		all.Add(v1alpha1.ReasonAgentNotFound, fmt.Sprintf("Agent %q does not exist. Create it.", r.AgentName))
	}
	// A layer that is missing may name a Model.
	layered := all.reason == ""
	all.Add(r.problemOfNamed())
	if r.Effective.ModelRef == "" && layered && !r.Part {
		all.Add(r.defaultModelProblem())
	}
	return all.First()
}

// NoModel returns why there is no Model to call, and the remedy.
func (r *Resolved) NoModel() (reason, message string) {
	if name := r.Effective.ModelRef; name != "" {
		return v1alpha1.ReasonModelNotFound, fmt.Sprintf("Model %q does not exist. Create it, or change modelRef.", name)
	}
	return r.defaultModelProblem()
}

// defaultModelProblem returns the problem of the namespace's default Model, which is used if none is named.
func (r *Resolved) defaultModelProblem() (reason, message string) {
	if r.actsAsAccount() {
		return v1alpha1.ReasonModelNotFound, r.namedModelMessage()
	}
	model, ok := r.Model(nil)
	if !ok {
		return v1alpha1.ReasonModelNotFound,
			fmt.Sprintf(
				"modelRef is not set and the namespace has no default Model. Set modelRef, or annotate a Model with %s: \"true\".",
				v1alpha1.AnnotationDefaultModel,
			)
	}
	if r.presenceOf(model) != Usable {
		return v1alpha1.ReasonModelNotReady, fmt.Sprintf("The default Model %q is not ready%s", model.Name, whyNot(model))
	}
	return "", ""
}

func (r *Resolved) modelPresence(name string) (Presence, string) {
	model := r.named(name)
	if model == nil {
		return Missing, ""
	}
	return r.presenceOf(model), whyNot(model)
}

// named is the Model of a name; nil for none.
func (r *Resolved) named(name string) *v1alpha1.Model {
	i := slices.IndexFunc(r.Models, func(m v1alpha1.Model) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Models[i]
}

// presenceOf returns whether a Model, or one of its fallbacks in its place, can be called.
func (r *Resolved) presenceOf(m *v1alpha1.Model) Presence {
	if len(r.Fallbacks(m)) > 0 {
		return Usable
	}
	return presence(m.Status.Conditions)
}

// seeItsCondition ends the sentence on an object that is not ready, where its condition is not repeated.
const seeItsCondition = ". See its condition Ready."

// whyNot ends the sentence on a Model that is not ready: it repeats the condition of the Model.
func whyNot(m *v1alpha1.Model) string {
	return whyNotReady(m.Status.Conditions)
}

// ModelNotFound is the name of the Model that controls name and that does not exist; empty for none.
func (r *Resolved) ModelNotFound(controls *v1alpha1.TurnControls) string {
	if name := modelNamed(controls); name != "" && r.named(name) == nil {
		return name
	}
	return ""
}

// archivedNote returns a remark on the Harness or the Agent that stops the Turns of the Session because it is archived;
// nothing for none (BLK-01).
func (r *Resolved) archivedNote() []string {
	b := FindBlocker(r.Harness, r.ChainError, r.AgentName != "", r.Agent)
	if b == nil || b.State != DependencyArchived {
		return nil
	}
	kind, name := "Harness", r.HarnessName
	if b.Dependency == DependencyAgent {
		kind, name = "Agent", r.AgentName
	}
	return []string{fmt.Sprintf("%s %q is archived: Turns fail with %s until its lifecycle is Active.", kind, name,
		v1alpha1.ReasonDependencyUnavailable)}
}

// Notes returns remarks that do not prevent the Session's use but may surprise its user: its Harness or its Agent is
// archived, several Models are the default, or the Model cannot be called and its fallbacks are.
func (r *Resolved) Notes() []string {
	notes := append(r.archivedNote(), r.optionalNotes()...)
	notes = append(notes, r.platformNotes()...)
	model, ok := r.Model(nil)
	if !ok {
		return notes
	}
	if others := r.otherDefaults(model); r.Effective.ModelRef == "" && len(others) > 0 {
		notes = append(notes, fmt.Sprintf("Model %q is the default, as the newest of %d Models annotated with %s: "+
			"\"true\"; another one is %q.",
			model.Name, len(others)+1, v1alpha1.AnnotationDefaultModel, others[0]))
	}
	if fallbacks := r.Fallbacks(model); presence(model.Status.Conditions) != Usable && len(fallbacks) > 0 {
		notes = append(notes, fmt.Sprintf("Fallback %q is called in place of Model %q, which is not ready%s",
			fallbacks[0].Name, model.Name, whyNot(model)))
	}
	return notes
}

// otherDefaults returns the names of the other Models that have the annotation of the default, in order.
func (r *Resolved) otherDefaults(chosen *v1alpha1.Model) []string {
	var others []string
	for i := range r.Models {
		if r.Models[i].Annotations[v1alpha1.AnnotationDefaultModel] == isDefault && r.Models[i].Name != chosen.Name {
			others = append(others, r.Models[i].Name)
		}
	}
	slices.Sort(others)
	return others
}

func (r *Resolved) toolPresence(name string) Presence {
	tool := r.Tools[name]
	if tool == nil {
		return Missing
	}
	return r.Effective.Network.Presence(tool, presence(tool.Status.Conditions))
}

// presence returns whether an existing object can be used.
func presence(conditions []metav1.Condition) Presence {
	if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
		return Usable
	}
	return NotReady
}
