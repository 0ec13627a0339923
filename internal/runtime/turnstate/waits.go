package turnstate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// MaxWaits bounds how many obstacles the status of a Turn names at once.
	MaxWaits = 4
	// maxWaitBytes is the length of the message of one of them.
	maxWaitBytes = 1024
)

// ClusterWait is the wait of a Turn for an object that the API server refuses.
func ClusterWait(reason, message string) v1alpha1.TurnWait {
	return v1alpha1.TurnWait{Type: v1alpha1.WaitTypeCluster, Reason: reason, Message: excerpt.Of(message, maxWaitBytes)}
}

// ReferenceWaits are the waits of a Turn for the missing references of its calls, each once, in the order of the calls.
func ReferenceWaits(calls []v1alpha1.ToolCall, known *act.Step) []v1alpha1.TurnWait {
	var waits []v1alpha1.TurnWait
	for _, w := range known.Missing(calls) {
		wait := referenceWait(w.Reason, w.Error())
		if len(waits) < MaxWaits && !slices.Contains(waits, wait) {
			waits = append(waits, wait)
		}
	}
	return waits
}

// SubAgentWaits are the waits of a Turn for the sub-agents of its calls that run, in the order of the calls.
func SubAgentWaits(calls []v1alpha1.ToolCall) []v1alpha1.TurnWait {
	var waits []v1alpha1.TurnWait
	for _, call := range calls {
		if call.SubAgent == nil || call.State != v1alpha1.ToolCallStateRunning || len(waits) == MaxWaits {
			continue
		}
		waits = append(waits, v1alpha1.TurnWait{
			Type: v1alpha1.WaitTypeSubAgent, Reason: v1alpha1.ReasonSubAgent,
			Message: fmt.Sprintf("Call %s (%s) runs as Turn %s. See that Turn if it takes too long.",
				call.ID, call.Name, call.SubAgent.Name),
		})
	}
	return waits
}

func referenceWait(reason, message string) v1alpha1.TurnWait {
	return v1alpha1.TurnWait{Type: v1alpha1.WaitTypeReference, Reason: reason, Message: excerpt.Of(message, maxWaitBytes)}
}

// MissingKey is a model call that waits because no Model that could be called has its API key. Nothing was sent. The
// caller runs the step again when the key may be there.
type MissingKey struct {
	// Model is the name of the first Model that was to be called; empty where there is none.
	Model string
	// Reason and Problem are those of its model.KeyError.
	Reason, Problem string
}

// Error implements error.
func (k *MissingKey) Error() string {
	if k.Model == "" {
		return fmt.Sprintf("No Model can be called (%s). %s", k.Reason, k.Problem)
	}
	return fmt.Sprintf("Model %q cannot be called (%s). %s", k.Model, k.Reason, k.Problem)
}

// FindMissingKey returns the wait for a Model that does not exist, or the wait according to the condition of the Model,
// before any attempt; nil for none. A Model with fallbacks that can be called does not wait.
func FindMissingKey(c Config) *MissingKey {
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
	return &MissingKey{Model: c.Model.Name, Reason: ready.Reason, Problem: ready.Message}
}

// Describe records the wait in the status of the Turn. The plan stays, with its recorded attempts.
func (k *MissingKey) Describe(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseWaiting, []v1alpha1.TurnWait{k.wait()}
}

// Described reports whether the status has the wait.
func (k *MissingKey) Described(p *v1alpha1.TurnProgress) bool {
	return len(p.WaitsFor) == 1 && p.WaitsFor[0] == k.wait()
}

func (k *MissingKey) wait() v1alpha1.TurnWait {
	return referenceWait(k.Reason, k.Error())
}

// WaitsForReference reports whether a Turn that has begun waits for something that it refers to.
func WaitsForReference(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnPhaseWaiting && len(p.WaitsFor) > 0 && p.WaitsFor[0].Type == v1alpha1.WaitTypeReference
}

// WaitsForSubAgent reports whether a Turn that has begun waits for sub-agents, and for nothing before them.
func WaitsForSubAgent(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnPhaseWaiting && len(p.WaitsFor) > 0 && p.WaitsFor[0].Type == v1alpha1.WaitTypeSubAgent
}

// Resume removes the wait for a reference from the status of the Turn, whose model call is about to be retried.
func Resume(p *v1alpha1.TurnProgress) {
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseReason, nil
}
