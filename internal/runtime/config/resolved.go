package config

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// Source is where the objects of a Session's namespace are read from. What does not exist is nil and no error.
type Source interface {
	// Harness gives the Harness of a name.
	Harness(name string) (*v1alpha1.Harness, error)
	// Agent gives the Agent of a name.
	Agent(name string) (*v1alpha1.Agent, error)
	// Tool gives the Tool of a name.
	Tool(name string) (*v1alpha1.Tool, error)
	// Models gives all Models.
	Models() ([]v1alpha1.Model, error)
}

// Resolved is what a Session is made of at one moment.
type Resolved struct {
	// Chain is the Harnesses from the root to the one that the Session names, as far as they exist.
	Chain []*v1alpha1.Harness
	// Harness is the one that the Session names; nil when it does not exist.
	Harness *v1alpha1.Harness
	// ChainError says why the Harness's ancestors do not resolve; nil when they do.
	ChainError *ChainError
	// Agent is the one that the Session names; nil when it names none or it does not exist.
	Agent *v1alpha1.Agent
	// AgentName is the name that the Session gives; empty for none.
	AgentName string
	// Effective is the layers folded into one.
	Effective Effective
	// Models are all Models of the namespace.
	Models []v1alpha1.Model
	// Tools are those of the effective tools that exist, by name.
	Tools map[string]*v1alpha1.Tool
}

// Resolve reads what the Session is made of: its chain of Harnesses, its Agent, and the Models and Tools that the folded layers name. Something
// missing is not an error; Problem and Blocker tell.
func Resolve(source Source, session *v1alpha1.Session) (*Resolved, error) {
	r := &Resolved{Tools: map[string]*v1alpha1.Tool{}}
	var folded []v1alpha1.ConfigLayer

	var readErr error
	r.Chain, r.ChainError = Chain(session.Spec.HarnessRef.Name, func(name string) *v1alpha1.Harness {
		harness, err := source.Harness(name)
		if err != nil {
			readErr = err
		}
		return harness
	})
	if readErr != nil {
		return nil, readErr
	}
	for _, harness := range r.Chain {
		folded = append(folded, harness.Spec.ConfigLayer)
		if harness.Name == session.Spec.HarnessRef.Name {
			r.Harness = harness
		}
	}

	if ref := session.Spec.AgentRef; ref != nil {
		r.AgentName = ref.Name
		var err error
		if r.Agent, err = source.Agent(ref.Name); err != nil {
			return nil, err
		}
		if r.Agent != nil {
			folded = append(folded, r.Agent.Spec.ConfigLayer)
		}
	}
	r.Effective = Fold(append(folded, session.Spec.ConfigLayer)...)
	return r, r.readNamed(source)
}

// readNamed reads the Models and Tools that may be needed.
func (r *Resolved) readNamed(source Source) error {
	var err error
	if r.Models, err = source.Models(); err != nil {
		return err
	}
	for _, name := range r.Effective.Tools {
		tool, err := source.Tool(name)
		if err != nil {
			return err
		}
		if tool != nil {
			r.Tools[name] = tool
		}
	}
	return nil
}

// Blocker says what stops the Session's Turns (BLK-01); nil for nothing.
func (r *Resolved) Blocker() *Blocker {
	return FindBlocker(r.Harness, r.AgentName != "", r.Agent)
}

// Model is the one that answers a Turn with the given controls (CFG-07).
func (r *Resolved) Model(controls *v1alpha1.TurnControls) (*v1alpha1.Model, bool) {
	named := ""
	if controls != nil && controls.ModelRef != nil {
		named = controls.ModelRef.Name
	}
	return ResolveModel(named, r.Effective.ModelRef, r.Models)
}

// Fallbacks are the Models that may answer instead of a Model, in order: those of the ones that it names that exist and are ready. It is none of
// them itself, and theirs do not count, so that Models may name each other.
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

// Problem says what keeps the Session from being used, as a condition reason and a message that tells what to do. Empty for nothing.
// An archived Harness or Agent is none: it stops Turns, it does not make them wait.
func (r *Resolved) Problem(session *v1alpha1.Session) (reason, message string) {
	if r.Harness == nil {
		return v1alpha1.ReasonHarnessNotFound, fmt.Sprintf("Harness %q does not exist. Create it.", session.Spec.HarnessRef.Name)
	}
	if r.ChainError != nil {
		return r.ChainError.Reason(), r.ChainError.Error()
	}
	if r.AgentName != "" && r.Agent == nil {
		return v1alpha1.ReasonAgentNotFound, fmt.Sprintf("Agent %q does not exist. Create it.", r.AgentName)
	}
	if reason, message := r.Effective.Problem(r.modelPresence, r.toolPresence); reason != "" {
		return reason, message
	}
	if r.Effective.ModelRef == "" {
		return r.defaultModelProblem()
	}
	return "", ""
}

// defaultModelProblem says what is wrong with the namespace's default Model, which is used where none is named.
func (r *Resolved) defaultModelProblem() (reason, message string) {
	model, ok := r.Model(nil)
	if !ok {
		return v1alpha1.ReasonModelNotFound,
			fmt.Sprintf("No Model is named and the namespace has no default. Set modelRef, or annotate a Model with %s: \"true\".", v1alpha1.AnnotationDefaultModel)
	}
	if !condition.IsTrue(model.Status.Conditions, v1alpha1.ConditionReady) {
		return v1alpha1.ReasonModelNotReady, fmt.Sprintf("The default Model %q is not ready. Its own condition says why.", model.Name)
	}
	return "", ""
}

func (r *Resolved) modelPresence(name string) Presence {
	i := slices.IndexFunc(r.Models, func(m v1alpha1.Model) bool { return m.Name == name })
	if i < 0 {
		return Missing
	}
	return presence(r.Models[i].Status.Conditions)
}

func (r *Resolved) toolPresence(name string) Presence {
	tool := r.Tools[name]
	if tool == nil {
		return Missing
	}
	return r.Effective.Network.Presence(tool, presence(tool.Status.Conditions))
}

// presence says whether an object that exists can be used.
func presence(conditions []metav1.Condition) Presence {
	if condition.IsTrue(conditions, v1alpha1.ConditionReady) {
		return Usable
	}
	return NotReady
}
