package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// The bounds of the hooks at the end of a Session: its status has them.
const (
	// MaxEndHooks is the most of them that all layers may have together.
	MaxEndHooks = 8
	// MaxEndHookBytes is the most bytes that they may take in status.
	MaxEndHookBytes = 16 << 10
)

// pinEnd sets the hooks at the end of a Session, in the form in which its status keeps them.
func (r *Resolved) pinEnd(layers []layered) error {
	r.EndHooks, r.endHookBytes = nil, 0
	for i := range r.Hooks {
		if r.Hooks[i].Event != hook.SessionEnd {
			continue
		}
		pinned := v1alpha1.PinnedHook{ID: r.Hooks[i].ID, Hook: layerHook(layers, r.Hooks[i].ID)}
		encoded, err := json.Marshal(pinned)
		if err != nil {
			return fmt.Errorf("encoding hook %q: %w", pinned.ID, err)
		}
		r.EndHooks = append(r.EndHooks, pinned)
		r.endHookBytes += len(encoded)
	}
	return nil
}

// layerHook returns the hook with an id.
func layerHook(layers []layered, id string) v1alpha1.Hook {
	for _, l := range layers {
		for j := range l.layer.Hooks {
			if h := &l.layer.Hooks[j]; hook.ID(l.namespace, hook.Spec{Name: h.Name}, j) == id {
				return *h.DeepCopy()
			}
		}
	}
	return v1alpha1.Hook{}
}

// endHooksProblem returns why the hooks at the end of a Session cannot be kept until then. None is left out.
func (r *Resolved) endHooksProblem() (reason, message string) {
	switch {
	case len(r.EndHooks) > MaxEndHooks:
		return v1alpha1.ReasonHookInvalid, fmt.Sprintf("The layers have %d hooks at the event SessionEnd; at most %d are "+
			"allowed. Remove some from hooks.", len(r.EndHooks), MaxEndHooks)
	case r.endHookBytes > MaxEndHookBytes:
		return v1alpha1.ReasonHookInvalid, fmt.Sprintf("The hooks at the event SessionEnd of all layers have %d bytes "+
			"together; at most %d are allowed. Make them shorter.", r.endHookBytes, MaxEndHookBytes)
	default:
		return "", ""
	}
}

// HasSessionHooks reports whether hooks run at the start or at the end of a Session.
func (r *Resolved) HasSessionHooks() bool {
	return len(r.EndHooks) > 0 || len(hook.Of(r.Hooks, hook.SessionStart)) > 0
}

// Remaining returns of the hooks that were pinned when a Session started those that run at its end: one that an object
// does not have any more does not run. While an object is missing, nothing is known about its hooks, and those that
// were pinned run.
func (r *Resolved) Remaining(pinned []v1alpha1.PinnedHook) []v1alpha1.PinnedHook {
	capabilities := r.Capabilities()
	if r.Harness == nil || r.ChainError != nil || r.AgentName != "" && r.Agent == nil ||
		len(capabilities.Unknown)+len(capabilities.Archived) > 0 {
		return pinned
	}
	return slices.DeleteFunc(slices.Clone(pinned), func(p v1alpha1.PinnedHook) bool {
		return !slices.ContainsFunc(r.EndHooks, func(h v1alpha1.PinnedHook) bool { return h.ID == p.ID })
	})
}

// Pinned are hooks from a Session's status in the form of the runtime.
func Pinned(pinned []v1alpha1.PinnedHook) []hook.Spec {
	specs := make([]hook.Spec, len(pinned))
	for i := range pinned {
		specs[i] = specOf(&pinned[i].Hook)
		specs[i].ID = pinned[i].ID
	}
	return specs
}
