package inprocess

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Requests to models, their responses, and the parts of a conversation.
type (
	// Request is one model call: the system prompt, the conversation and the tools that are offered.
	Request = model.Request
	// Response is the model's response. Its FinishReason may be empty.
	Response = model.Response
	// Partial is the part of a response that has arrived.
	Partial = model.Partial
	// Content is one part of a response, in the provider's order.
	Content = model.Content
	// Reasoning is the reasoning of a model, which is sent back to it.
	Reasoning = event.Reasoning
	// Phase is the provider's mark of a text.
	Phase = event.Phase
	// ToolDefinition is the definition of a tool for the model.
	ToolDefinition = model.ToolDefinition
	// ModelToolCall is a tool call that the model requests.
	ModelToolCall = model.ToolCall
	// ModelError is an error of a provider with its code.
	ModelError = model.Error
	// ModelUsage counts the tokens of one call.
	ModelUsage = model.Usage
	// Message is one message of a conversation.
	Message = event.Message
	// MessageRole is the author of a message: "user", "assistant" or "tool_result".
	MessageRole = event.Role
	// MessageOrigin is the model that the reasoning of a message belongs to.
	MessageOrigin = event.Origin
	// MessagePartType is the kind of a MessagePart.
	MessagePartType = event.PartType
	// MessagePart is one piece of a message's content.
	MessagePart = event.Part
	// MessageToolCall is one tool call that an assistant message makes.
	MessageToolCall = event.ToolCall
)

// Event is an event of a Session.
type Event = event.Event

// Providers are the drivers of model providers. Package capstantest/providers has them.
type Providers = model.Registry

// Answer is a model as a function: it returns one response, or the error of the provider. It is called from
// several goroutines at once, and must end soon after its context does. The code of the Turn's error is that of the
// *ModelError in the tree of the error, otherwise processing_error; a function that panics has failed.
type Answer func(ctx context.Context, m *v1alpha1.Model, r Request) (*Response, error)

// factory creates drivers that call the function.
func (a Answer) factory(m *v1alpha1.Model, _ model.Access) (model.Driver, error) {
	return &answering{model: m, answer: a}, nil
}

// answering is the driver of a Model that a function implements.
type answering struct {
	model  *v1alpha1.Model
	answer Answer
}

// Generate implements model.Driver.
func (d *answering) Generate(ctx context.Context, r model.Request) (response *model.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			response = nil
			err = fmt.Errorf("the function that responds for Model %s panicked: %v\n%s", d.model.Name, p, debug.Stack())
		}
	}()
	return d.answer(ctx, d.model.DeepCopy(), r)
}

// observed are drivers that pass each request to an observer before the call.
func observed(models model.Registry, show func(Request)) model.Registry {
	shown := model.Registry{}
	for provider, factory := range models {
		shown[provider] = func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			driver, err := factory(m, access)
			if err != nil {
				return nil, err
			}
			return &observedDriver{Driver: driver, show: show}, nil
		}
	}
	return shown
}

type observedDriver struct {
	model.Driver
	show func(Request)
}

// Generate implements model.Driver.
func (d *observedDriver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	d.show(r)
	return d.Driver.Generate(ctx, r)
}
