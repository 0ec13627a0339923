package config

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Dependency is the kind of object that blocks a Turn.
type Dependency string

const (
	// DependencyHarness: the Session's Harness.
	DependencyHarness Dependency = "harness"
	// DependencyAgent: the Session's Agent.
	DependencyAgent Dependency = "agent"
	// DependencyMCPServer: an MCPServer that a layer names.
	DependencyMCPServer Dependency = "MCP server"
	// DependencyCapability: a Capability that a layer names, or that one depends on.
	DependencyCapability Dependency = "capability"
	// DependencyBlueprint: the blueprint that the Session is.
	DependencyBlueprint Dependency = "blueprint"
	// DependencyHooks: the hooks of the layers.
	DependencyHooks Dependency = "hooks"
	// DependencyCapabilities: the capabilities of the layers.
	DependencyCapabilities Dependency = "capabilities"
)

// DependencyState is the problem of a dependency.
type DependencyState string

const (
	// DependencyArchived: the object is archived.
	DependencyArchived DependencyState = "archived"
	// DependencyDeleted: the object does not exist.
	DependencyDeleted DependencyState = "deleted"
	// DependencyIncomplete: the Harness exists, and its ancestors cannot be found in full.
	DependencyIncomplete DependencyState = "incomplete"
	// DependencyNotReady: the tools of the MCPServer are not known.
	DependencyNotReady DependencyState = "not ready"
	// DependencyInvalid: a hook cannot run, or a capability cannot be used.
	DependencyInvalid DependencyState = "invalid"
)

// Blocker is the reason that stops a Turn before its next model call or tool call (BLK-01).
type Blocker struct {
	// Dependency that blocks.
	Dependency Dependency
	// State that it is in.
	State DependencyState
	// Problem is the problem and its remedy, if State does not cover them.
	Problem string
	// Remedy is the action for the user, with the name of the object; empty where Problem has it.
	Remedy string
}

// Sentence returns the text for the user (BLK-03).
func (b Blocker) Sentence() string {
	if b.State == DependencyNotReady {
		return fmt.Sprintf("Execution stopped because the assigned %s is %s.", b.Dependency, b.State)
	}
	switch b.Dependency {
	case DependencyHooks:
		return "Execution stopped because a hook is invalid."
	case DependencyBlueprint:
		return "Execution stopped because the blueprint cannot be used."
	case DependencyCapabilities:
		return "Execution stopped because a capability cannot be used."
	default:
	}
	return fmt.Sprintf("Execution stopped because the assigned %s was %s.", b.Dependency, b.State)
}

// Fields are the details of the error (LIFE-10).
func (b Blocker) Fields() map[string]string {
	fields := map[string]string{
		v1alpha1.ErrorFieldDependency: string(b.Dependency), v1alpha1.ErrorFieldState: string(b.State),
	}
	if b.Problem != "" {
		fields[v1alpha1.ErrorFieldProblem] = b.Problem
	}
	if b.Remedy != "" {
		fields[v1alpha1.ErrorFieldRemedy] = b.Remedy
	}
	return fields
}

// remedy returns the action for the user about an object that is archived or does not exist.
func (b *Blocker) remedy(r *Resolved) string {
	// A Session keeps its Harness.
	kind, name, other := "Harness", r.HarnessName, "create a Session with another Harness"
	if b.Dependency == DependencyAgent {
		kind, name, other = "Agent", r.AgentName, "change agentRef of the Session"
	}
	if b.State == DependencyArchived {
		return fmt.Sprintf("Set lifecycle of %s %q to Active, or %s; then create another Turn.", kind, name, other)
	}
	return fmt.Sprintf("Create %s %q, or %s; then create another Turn.", kind, name, other)
}

// FindBlocker checks the Harness of the Session and its ancestors, then its Agent if it names one; nil stands for an
// object that does not exist (BLK-01). An archived ancestor does not block (GAP-19), but a missing one does: the layers
// below it alone may permit more than the whole chain. It returns nil if nothing blocks.
func FindBlocker(harness *v1alpha1.Harness, chain *ChainError, agentNamed bool, agent *v1alpha1.Agent) *Blocker {
	switch {
	case harness == nil:
		return &Blocker{Dependency: DependencyHarness, State: DependencyDeleted}
	case harness.Spec.Lifecycle == v1alpha1.LifecycleArchived:
		return &Blocker{Dependency: DependencyHarness, State: DependencyArchived}
	case chain != nil:
		return &Blocker{Dependency: DependencyHarness, State: DependencyIncomplete, Problem: chain.Error()}
	case !agentNamed:
		return nil
	case agent == nil:
		return &Blocker{Dependency: DependencyAgent, State: DependencyDeleted}
	case agent.Spec.Lifecycle == v1alpha1.LifecycleArchived:
		return &Blocker{Dependency: DependencyAgent, State: DependencyArchived}
	default:
		return nil
	}
}
