package inspect

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Context is the input of a Session's next model call (INSPECT-01).
type Context struct {
	// Session of the request, Chain of its Harnesses from the root to the one that it names, and Agent; nil for none.
	Session *v1alpha1.Session
	Chain   []*v1alpha1.Harness
	Agent   *v1alpha1.Agent
	// Effective is the merged configuration of the layers, such as the maximum number of model calls of a Turn.
	Effective config.Effective
	// Capabilities are those of the layers, each behind those that it depends on.
	Capabilities []Capability
	// Model that would be called, the provider's name of it, and the Models that would be called instead, in order. Model
	// is nil for none.
	Model     *v1alpha1.Model
	ModelName string
	Fallbacks []*v1alpha1.Model
	// SystemPrompt is the system prompt for the model.
	SystemPrompt string
	// Tools that would be offered to it.
	Tools []Tool
	// Hooks that run, in order.
	Hooks []Hook
	// User is the name by which the provider would know the Session.
	User string
	// Locale of the response; empty for none.
	Locale string
	// Messages is the conversation as the model would receive it, without error messages to the user, and with fences
	// around tool results. It may be empty.
	Messages []event.Message
	// Problem is the reason why the Session cannot be used, as on its condition Ready; empty if it can.
	Problem string
	// Message is what is wrong and what to do; empty if there is no problem.
	Message string
	// Notes are remarks on what may surprise its user.
	Notes []string
}

// Capability is a capability of a Session.
type Capability struct {
	capability.Use
	// Description and Risk of the capability.
	Description string
	Risk        string
}

// Tool is a tool that a model is offered.
type Tool struct {
	model.ToolDefinition
	// Kind of the object that the tool comes from: Tool, MCPServer, or Builtin for a capability that is part of the
	// manager.
	Kind string
	// Source is the name of that object or capability.
	Source string
	// Executor, SideEffect and Policy decide how its calls run.
	Executor   v1alpha1.ToolExecutor
	SideEffect v1alpha1.SideEffect
	Policy     v1alpha1.ToolPolicy
}

// Hook is a hook that runs.
type Hook struct {
	// ID of the hook: its layer and its name.
	ID string
	// Event at which it runs.
	Event string
	// Program is bash, cel or webhook.
	Program string
	// OnError is what happens when it fails: warn, block or allow.
	OnError string
}

// Of returns the context of a Session. The configuration and the messages must be whole, and are not changed. A Session
// that cannot be used has a Problem, and whatever else is known.
func Of(session *v1alpha1.Session, resolved *config.Resolved, messages []event.Message) *Context {
	return With(session, resolved, turnstate.ConfigOf(resolved, nil), messages)
}

// With is Of with the configuration of the Session's next Turn, which has texts that resolved may lack.
func With(
	session *v1alpha1.Session, resolved *config.Resolved, c turnstate.Config, messages []event.Message,
) *Context {
	locale := config.Locale(nil, session.Spec.Locale)
	prompts := prompt.Prompts{Capabilities: c.Prompts, Layers: c.Effective.SystemPrompt, Locale: locale}
	rendered := prompt.Render(prompts, c.Tools, messages)
	found := &Context{
		Session:      session.DeepCopy(),
		Agent:        resolved.Agent.DeepCopy(),
		Effective:    c.Effective,
		Capabilities: capabilitiesOf(resolved),
		Model:        c.Model,
		Fallbacks:    c.Fallbacks,
		SystemPrompt: rendered.SystemPrompt,
		Tools:        toolsOf(rendered.Tools, c.Tools),
		Hooks:        hooksOf(c.Hooks),
		User:         prompt.User(session.UID),
		Locale:       locale,
		Messages:     messages,
		Notes:        resolved.Notes(),
	}
	if c.Model != nil {
		found.ModelName = model.Name(c.Model)
	}
	for _, harness := range resolved.Chain {
		found.Chain = append(found.Chain, harness.DeepCopy())
	}
	found.Problem, found.Message = resolved.Problem()
	return found
}

func capabilitiesOf(resolved *config.Resolved) []Capability {
	var all []Capability
	for _, use := range resolved.Capabilities().Uses {
		c := Capability{Use: use, Risk: string(resolved.RiskOf(use.ID))}
		if name, ok := capability.ObjectName(use.ID); ok {
			c.Description = resolved.Objects[name].Spec.Description
		} else if registered, ok := builtin.Find(use.ID); ok {
			c.Description = registered.Description
		}
		all = append(all, c)
	}
	return all
}

// toolsOf returns the tools that are offered, with the definitions that they come from.
func toolsOf(offered []model.ToolDefinition, definitions definition.Set) []Tool {
	var all []Tool
	for _, o := range offered {
		tool := Tool{ToolDefinition: o}
		if d := definitions.Find(o.Name); d != nil {
			tool.Kind, tool.Source = string(d.Source.Kind), d.Source.Name
			tool.Executor, tool.SideEffect, tool.Policy = d.Executor, d.SideEffect, d.Policy
		}
		all = append(all, tool)
	}
	return all
}

func hooksOf(specs []hook.Spec) []Hook {
	var all []Hook
	for i := range specs {
		s := &specs[i]
		all = append(all, Hook{
			ID: s.ID, Event: string(s.Event), OnError: string(s.Policy()), Program: string(s.Kind()),
		})
	}
	return all
}
