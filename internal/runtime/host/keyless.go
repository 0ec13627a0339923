package host

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Keyless is a model call that waits because no Model that could be called has its API key. Nothing was sent. The
// caller runs Reason again when the key may be there.
type Keyless struct {
	// Model is the name of the first Model that was to be called; empty where there is none.
	Model string
	// Reason and Problem are those of its model.KeyError.
	Reason, Problem string
}

// Error implements error.
func (k *Keyless) Error() string {
	if k.Model == "" {
		return fmt.Sprintf("No Model can be called (%s). %s", k.Reason, k.Problem)
	}
	return fmt.Sprintf("Model %q cannot be called (%s). %s", k.Model, k.Reason, k.Problem)
}

// withoutKey returns the wait if all called Models lack their API key; nil if one of them was called. A fallback
// without a key does not change the result of another Model.
func withoutKey(all []asked) *Keyless {
	var first *Keyless
	for _, a := range all {
		var key *model.KeyError
		if !errors.As(a.err, &key) {
			return nil
		}
		if first == nil {
			first = &Keyless{Model: key.Model, Reason: key.Reason, Problem: key.Problem}
		}
	}
	return first
}

// KeylessBy returns the wait for a Model that does not exist, or the wait according to the condition of the Model,
// before any attempt; nil for none. A Model with fallbacks that can be called does not wait.
func KeylessBy(c Config) *Keyless {
	if c.Model == nil && c.Blocker == nil {
		return c.NoModel
	}
	if c.Model == nil || len(c.Fallbacks) > 0 || c.Blocker != nil {
		return nil
	}
	ready := meta.FindStatusCondition(c.Model.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || !model.NeedsKey(ready.Reason) {
		return nil
	}
	return &Keyless{Model: c.Model.Name, Reason: ready.Reason, Problem: ready.Message}
}

// ReadySince returns, by name of each Model of the configuration that is Ready, since when it has been.
func ReadySince(c Config) map[string]metav1.Time {
	since := map[string]metav1.Time{}
	for _, m := range append([]*v1alpha1.Model{c.Model}, c.Fallbacks...) {
		if m == nil {
			continue
		}
		if ready := meta.FindStatusCondition(
			m.Status.Conditions,
			v1alpha1.ConditionReady,
		); ready != nil &&
			ready.Status == metav1.ConditionTrue {
			since[m.Name] = ready.LastTransitionTime
		}
	}
	return since
}

// Describe records the wait in the status of the Turn. The plan stays, with its recorded attempts.
func (k *Keyless) Describe(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseWaiting, []v1alpha1.TurnWait{k.wait()}
}

// Described reports whether the status has the wait.
func (k *Keyless) Described(p *v1alpha1.TurnProgress) bool {
	return len(p.WaitsFor) == 1 && p.WaitsFor[0] == k.wait()
}

func (k *Keyless) wait() v1alpha1.TurnWait {
	return v1alpha1.TurnWait{Type: v1alpha1.WaitTypeReference, Reason: k.Reason, Message: cut(k.Error(), 1024)}
}

// WaitsForReference reports whether a Turn that has begun waits for something that it refers to.
func WaitsForReference(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnPhaseWaiting && len(p.WaitsFor) > 0 && p.WaitsFor[0].Type == v1alpha1.WaitTypeReference
}

// Resume removes the wait for a reference from the status of the Turn, whose model call is about to be retried.
func Resume(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseReason, nil
}
