// Package layers reads what a Session is made of: its chain of Harnesses, its Agent, and the Models and Tools that the folded layers name.
// It reads anew at every phase of a Turn, so that an archived Harness or a removed Tool counts at once (CFG-02, BLK-02).
package layers

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Resolved is what a Session is made of at one moment.
type Resolved struct {
	// Harness is the one that the Session names; nil when it does not exist.
	Harness *v1alpha1.Harness
	// ChainError says why the Harness's ancestors do not resolve; nil when they do.
	ChainError *config.ChainError
	// Agent is the one that the Session names; nil when it names none or it does not exist.
	Agent *v1alpha1.Agent
	// AgentName is the name that the Session gives; empty for none.
	AgentName string
	// Effective is the layers folded into one.
	Effective config.Effective
	// Models are all Models of the namespace.
	Models []v1alpha1.Model
	// Tools are those of the effective tools that exist, by name.
	Tools map[string]*v1alpha1.Tool
}

// Resolve reads what the Session is made of. Something missing is not an error; Problem and Blocker tell.
func Resolve(ctx context.Context, reader client.Reader, session *v1alpha1.Session) (*Resolved, error) {
	r := &Resolved{Tools: map[string]*v1alpha1.Tool{}}
	var folded []v1alpha1.ConfigLayer

	var readErr error
	chain, chainErr := config.Chain(session.Spec.HarnessRef.Name, func(name string) *v1alpha1.Harness {
		harness := &v1alpha1.Harness{}
		found, err := get(ctx, reader, session.Namespace, name, harness)
		if err != nil {
			readErr = err
		}
		if !found {
			return nil
		}
		return harness
	})
	if readErr != nil {
		return nil, readErr
	}
	r.ChainError = chainErr
	for _, harness := range chain {
		folded = append(folded, harness.Spec.ConfigLayer)
		if harness.Name == session.Spec.HarnessRef.Name {
			r.Harness = harness
		}
	}

	if ref := session.Spec.AgentRef; ref != nil {
		r.AgentName = ref.Name
		agent := &v1alpha1.Agent{}
		found, err := get(ctx, reader, session.Namespace, ref.Name, agent)
		if err != nil {
			return nil, err
		}
		if found {
			r.Agent = agent
			folded = append(folded, agent.Spec.ConfigLayer)
		}
	}
	r.Effective = config.Fold(append(folded, session.Spec.ConfigLayer)...)
	return r, r.readNamed(ctx, reader, session.Namespace)
}

// readNamed reads the Models and Tools that may be needed.
func (r *Resolved) readNamed(ctx context.Context, reader client.Reader, namespace string) error {
	var models v1alpha1.ModelList
	if err := reader.List(ctx, &models, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing Models: %w", err)
	}
	r.Models = models.Items
	for _, name := range r.Effective.Tools {
		tool := &v1alpha1.Tool{}
		found, err := get(ctx, reader, namespace, name, tool)
		if err != nil {
			return err
		}
		if found {
			r.Tools[name] = tool
		}
	}
	return nil
}

// Blocker says what stops the Session's Turns (BLK-01); nil for nothing.
func (r *Resolved) Blocker() *config.Blocker {
	return config.FindBlocker(r.Harness, r.AgentName != "", r.Agent)
}

// Model is the one that answers a Turn with the given controls (CFG-07).
func (r *Resolved) Model(controls *v1alpha1.TurnControls) (*v1alpha1.Model, bool) {
	named := ""
	if controls != nil && controls.ModelRef != nil {
		named = controls.ModelRef.Name
	}
	return config.ResolveModel(named, r.Effective.ModelRef, r.Models)
}

// Fallbacks are the Models that may answer instead of a Model, in order: those of the ones that it names that exist and are ready. It is none of
// them itself, and theirs do not count, so that Models may name each other.
func (r *Resolved) Fallbacks(m *v1alpha1.Model) []*v1alpha1.Model {
	var fallbacks []*v1alpha1.Model
	for _, ref := range m.Spec.Fallbacks {
		i := slices.IndexFunc(r.Models, func(o v1alpha1.Model) bool { return o.Name == ref.Name })
		if i < 0 || ref.Name == m.Name || presence(r.Models[i].Status.Conditions) != config.Usable {
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

func (r *Resolved) modelPresence(name string) config.Presence {
	i := slices.IndexFunc(r.Models, func(m v1alpha1.Model) bool { return m.Name == name })
	if i < 0 {
		return config.Missing
	}
	return presence(r.Models[i].Status.Conditions)
}

func (r *Resolved) toolPresence(name string) config.Presence {
	tool := r.Tools[name]
	if tool == nil {
		return config.Missing
	}
	return r.Effective.Network.Presence(tool, presence(tool.Status.Conditions))
}

// presence says whether an object that exists can be used.
func presence(conditions []metav1.Condition) config.Presence {
	if condition.IsTrue(conditions, v1alpha1.ConditionReady) {
		return config.Usable
	}
	return config.NotReady
}

// get reads one object and says whether it exists.
func get(ctx context.Context, reader client.Reader, namespace, name string, into client.Object) (bool, error) {
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return true, nil
}
