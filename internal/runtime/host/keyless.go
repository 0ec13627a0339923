package host

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Keyless is a model call that waits because no Model which could be called has its API key. Nothing was sent. Whoever
// runs the Turn calls Reason again when the key may be there.
type Keyless struct {
	// Model is the name of the first Model that was to be called.
	Model string
	// Reason and Problem are those of its model.KeyError.
	Reason, Problem string
}

// Error implements error.
func (k *Keyless) Error() string {
	return fmt.Sprintf("Model %q cannot be called (%s). %s", k.Model, k.Reason, k.Problem)
}

// withoutKey is the wait when all Models that were asked lack their API key; nil when one of them was called. A
// fallback that lacks its key changes nothing of how the call of another Model has ended.
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

// KeylessBy is the wait that the condition of the Model tells of, before anything is tried; nil for none. A Model with
// fallbacks that can be called does not wait.
func KeylessBy(c Config) *Keyless {
	if c.Model == nil || len(c.Fallbacks) > 0 || c.Blocker != nil {
		return nil
	}
	ready := condition.Find(c.Model.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || !model.NeedsKey(ready.Reason) {
		return nil
	}
	return &Keyless{Model: c.Model.Name, Reason: ready.Reason, Problem: ready.Message}
}

// Describe puts the wait into the status of the Turn. The plan stays, with the tries that it knows of.
func (k *Keyless) Describe(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnWaiting, []v1alpha1.TurnWait{k.wait()}
}

// Described reports whether the status has the wait.
func (k *Keyless) Described(p *v1alpha1.TurnProgress) bool {
	return len(p.WaitsFor) == 1 && p.WaitsFor[0] == k.wait()
}

func (k *Keyless) wait() v1alpha1.TurnWait {
	return v1alpha1.TurnWait{Type: v1alpha1.WaitReference, Reason: k.Reason, Message: cut(k.Error(), 1024)}
}

// WaitsForReference reports whether a Turn that has begun waits for something that it refers to.
func WaitsForReference(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnWaiting && len(p.WaitsFor) > 0 && p.WaitsFor[0].Type == v1alpha1.WaitReference
}

// Resume takes the wait for a reference out of the status of the Turn, whose model call is to be tried again.
func Resume(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnReason, nil
}
