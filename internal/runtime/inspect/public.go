package inspect

import (
	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Public returns what users are shown of a context: nothing that only a call of a tool or of a model needs, such as
// headers.
func (c *Context) Public() *stream.Inspection {
	public := &stream.Inspection{
		Problem: c.Problem, Message: c.Message, Notes: c.Notes, MaxIterations: c.Effective.MaxIterations,
		ToolConcurrency: string(c.Effective.ToolConcurrency), Locale: c.Locale, User: c.User,
		SystemPrompt: c.SystemPrompt, MessageCount: len(c.Messages),
	}
	for _, harness := range c.Chain {
		public.Layers = append(public.Layers, stream.InspectedObject{Kind: "Harness", Name: harness.Name})
	}
	if c.Agent != nil {
		public.Layers = append(public.Layers, stream.InspectedObject{Kind: "Agent", Name: c.Agent.Name})
	}
	public.Layers = append(public.Layers, stream.InspectedObject{Kind: "Session", Name: c.Session.Name})
	if c.Model != nil {
		called := modelOf(c.Model)
		public.Model = &called
	}
	for _, fallback := range c.Fallbacks {
		public.Fallbacks = append(public.Fallbacks, modelOf(fallback))
	}
	if limit := c.Session.Spec.JournalLimit; limit != nil {
		public.JournalLimit = limit.String()
	}
	for _, one := range c.Capabilities {
		public.Capabilities = append(public.Capabilities, stream.InspectedCapability{
			ID: one.ID, Risk: one.Risk, NeededBy: one.NeededBy, Description: one.Description,
		})
	}
	for _, hook := range c.Hooks {
		public.Hooks = append(public.Hooks, stream.InspectedHook(hook))
	}
	for _, tool := range c.Tools {
		public.Tools = append(public.Tools, stream.InspectedTool{
			Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema, Kind: tool.Kind,
			Source: tool.Source, Executor: tool.Executor, SideEffect: tool.SideEffect, Policy: tool.Policy,
		})
	}
	return public
}

func modelOf(m *v1alpha1.Model) stream.InspectedModel {
	return stream.InspectedModel{Name: m.Name, Provider: string(m.Spec.Provider), Model: model.Name(m)}
}
