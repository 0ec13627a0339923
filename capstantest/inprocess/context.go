package inprocess

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// What a model call of a Session is made with.
type (
	// Context is the input of a Session's next model call.
	Context = inspect.Context
	// Capability is a capability of a Session.
	Capability = inspect.Capability
	// CapabilityUse is a capability that the layers of a Session name.
	CapabilityUse = capability.Use
	// OfferedTool is a tool that a model is offered, and where it comes from.
	OfferedTool = inspect.Tool
	// Hook is a hook that runs.
	Hook = inspect.Hook
	// Effective is the merged configuration of a Session's layers.
	Effective = config.Effective
	// NetworkAccess is the merged network access lists of a Session's layers.
	NetworkAccess = config.NetworkAccess
)

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
	return r.contextOf(ctx, of, resolved)
}

// Inspect is LoadContext also for a Session that cannot be used: Problem and Message of the result have the reason. It
// is an error if the Session is missing.
func (r *Runtime) Inspect(ctx context.Context, session string) (*Context, error) {
	of, err := r.session(session)
	if err != nil {
		return nil, fmt.Errorf("inspecting: %w", err)
	}
	resolved, err := config.Resolve(ctx, r.built.objects, of)
	if err != nil {
		return nil, fmt.Errorf("inspecting Session %s: %w", of.Name, err)
	}
	return r.contextOf(ctx, of, resolved)
}

func (r *Runtime) contextOf(
	ctx context.Context, of *v1alpha1.Session, resolved *config.Resolved,
) (*Context, error) {
	messages, err := r.steps.Conversation(ctx, turnstate.JournalOf(of))
	if err != nil {
		return nil, fmt.Errorf("loading the context of Session %s: %w", of.Name, err)
	}
	resolved.RemoteTexts = r.built.objects.servers.whole()
	return inspect.Of(of, resolved, messages), nil
}
