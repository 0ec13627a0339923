package host

import (
	"context"
	"fmt"
	"maps"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Texts reads the configuration that a cache has left out. It returns whole objects, which the caller may change.
type Texts interface {
	// Prompt returns the system prompt of all layers.
	Prompt(ctx context.Context) (string, error)
	// Tool returns a Tool as it is now.
	Tool(ctx context.Context, cached *v1alpha1.Tool) (*v1alpha1.Tool, error)
	// Model returns a Model as it is now.
	Model(ctx context.Context, cached *v1alpha1.Model) (*v1alpha1.Model, error)
}

// LeftOutBytes is the size of the texts that a model call has yet to read of the configuration.
func (c Config) LeftOutBytes() int64 {
	n := leftout.Bytes(c.Effective.SystemPrompt)
	for _, definition := range c.Tools {
		n += tool.LeftOutBytes(&definition.Spec)
	}
	return n
}

// whole returns the configuration with all texts that a model is sent. It keeps nothing else of what it reads: a
// definition has its texts for the model, and not those that only a call of the tool needs.
func (c Config) whole(ctx context.Context) (Config, error) {
	if leftout.Is(c.Effective.SystemPrompt) {
		prompt, err := c.Texts.Prompt(ctx)
		if err != nil {
			return c, fmt.Errorf("reading the system prompt: %w", err)
		}
		c.Effective.SystemPrompt = prompt
	}
	all := maps.Clone(c.Tools)
	for _, name := range c.Effective.Tools {
		definition := c.Tools[name]
		if definition == nil || !tool.LeftOut(&definition.Spec) {
			continue
		}
		read, err := c.Texts.Tool(ctx, definition)
		if err != nil {
			return c, fmt.Errorf("reading Tool %s: %w", name, err)
		}
		tool.LeaveOutExecution(&read.Spec)
		all[name] = read
	}
	c.Tools = all
	return c, nil
}

// wholeModel returns a Model with its script.
func (c Config) wholeModel(ctx context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) {
	if !model.LeftOut(m) {
		return m, nil
	}
	read, err := c.Texts.Model(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("reading Model %s: %w", m.Name, err)
	}
	return read, nil
}

// after returns the configuration that a response is recorded with: without the system prompt, and with the definitions
// of the called tools alone.
func (c Config) after(calls []model.ToolCall) Config {
	called := map[string]*v1alpha1.Tool{}
	for _, call := range calls {
		if definition := c.Tools[call.Name]; definition != nil {
			called[call.Name] = definition
		}
	}
	c.Effective.SystemPrompt, c.Tools = "", called
	return c
}
