package inprocess

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Effective is the merged configuration of a Session's layers.
type Effective = config.Effective

// NetworkAccess is the merged network access lists of a Session's layers.
type NetworkAccess = config.NetworkAccess

// CapabilityUse is a capability that the layers of a Session name.
type CapabilityUse = capability.Use

// Context is the input of a Session's next model call (INSPECT-01).
type Context struct {
	// Session of the request, Chain of its Harnesses from the root to the one that it names, and Agent; nil for none.
	Session *v1alpha1.Session
	Chain   []*v1alpha1.Harness
	Agent   *v1alpha1.Agent
	// Effective is the merged configuration of the layers, such as the maximum number of model calls of a Turn.
	Effective Effective
	// Model that would be called, and the provider's name of it.
	Model     *v1alpha1.Model
	ModelName string
	// SystemPrompt is the system prompt for the model.
	SystemPrompt string
	// Tools that would be offered to it.
	Tools []ToolDefinition
	// Locale of the response; empty for none.
	Locale string
	// Messages is the conversation as the model would receive it, without error messages to the user, and with fences
	// around tool results. It may be empty.
	Messages []Message
}

// LoadContext assembles the input of the next model call of a Session, the default one for an empty name, without
// making a call (INSPECT-01). The conversation may be empty. It is an error if the Session is missing or cannot be
// used: its message names the Harness, Agent, Model or Tool that is missing.
func (r *Runtime) LoadContext(ctx context.Context, session string) (*Context, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("loading the context: %w", err)
	}
	resolved, err := r.built.resolve(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("loading the context: %w", err)
	}
	c := turnstate.ConfigOf(resolved, nil)
	locale := config.Locale(nil, of.Spec.Locale)
	request, err := r.steps.Inspect(ctx, turnstate.JournalOf(of), locale, c)
	if err != nil {
		return nil, fmt.Errorf("loading the context of Session %s: %w", of.Name, err)
	}
	loaded := &Context{
		Session:   of.DeepCopy(),
		Agent:     resolved.Agent.DeepCopy(),
		Effective: resolved.Effective,
		Model:     c.Model.DeepCopy(),
		ModelName: model.Name(
			c.Model,
		),
		SystemPrompt: request.SystemPrompt,
		Tools:        request.Tools,
		Locale:       locale,
		Messages:     request.Messages,
	}
	for _, harness := range resolved.Chain {
		loaded.Chain = append(loaded.Chain, harness.DeepCopy())
	}
	return loaded, nil
}
