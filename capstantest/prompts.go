package capstantest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
)

// Providers are the drivers of model providers. Package capstantest/providers has them.
type Providers = model.Registry

// Prompt is the input of one model call.
type Prompt struct {
	// Turn is the UID of the Turn.
	Turn types.UID
	// Iteration numbers the model calls of the Turn, from 1.
	Iteration int32
	// System is the system prompt.
	System string
	// Locale of the response; empty for none.
	Locale string
	// Messages is the conversation, oldest first, each message as JSON.
	Messages []string
}

// models returns the drivers of the kit, which pass each prompt to an observer before the call, if there is one.
func (o Options) models() model.Registry {
	models := simulator.Registry()
	maps.Copy(models, o.Providers)
	if o.Prompts == nil {
		return models
	}
	for provider, factory := range models {
		models[provider] = func(m *v1alpha1.Model, access model.Access) (model.Driver, error) {
			driver, err := factory(m, access)
			if err != nil {
				return nil, err
			}
			return &observedDriver{Driver: driver, show: o.Prompts}, nil
		}
	}
	return models
}

// observedDriver shows each request before it is sent.
type observedDriver struct {
	model.Driver
	show func(Prompt)
}

// Generate implements model.Driver.
func (d *observedDriver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	p := Prompt{Turn: types.UID(r.TurnID), Iteration: r.Iteration, System: r.SystemPrompt, Locale: r.Locale}
	for _, message := range r.Messages {
		raw, err := json.Marshal(message)
		if err != nil {
			return nil, fmt.Errorf("reading the prompt: %w", err)
		}
		p.Messages = append(p.Messages, string(raw))
	}
	d.show(p)
	return d.Driver.Generate(ctx, r)
}
