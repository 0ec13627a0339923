package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
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
	for _, d := range c.Tools {
		n += d.LeftOutBytes()
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
	c.Tools = slices.Clone(c.Tools)
	for i, d := range c.Tools {
		if !d.LeftOut() {
			continue
		}
		read, err := c.Texts.Tool(ctx, d.Object())
		if err != nil {
			return c, fmt.Errorf("reading Tool %s: %w", d.Name, err)
		}
		tool.LeaveOutExecution(&read.Spec)
		c.Tools[i] = definition.Of(read)
	}
	return c, nil
}

// Planned returns the definition that a call was planned with, with all texts; nil if it is gone or was changed.
func (c Config) Planned(ctx context.Context, call v1alpha1.ToolCall) (*definition.Definition, error) {
	d := c.Tools.Planned(call)
	if !d.LeftOut() {
		return d, nil
	}
	read, err := c.Texts.Tool(ctx, d.Object())
	if err != nil {
		return nil, fmt.Errorf("reading Tool %s: %w", d.Name, err)
	}
	return definition.Set{definition.Of(read)}.Planned(call), nil
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
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), func(d *definition.Definition) bool {
		return !slices.ContainsFunc(calls, func(call model.ToolCall) bool { return call.Name == d.Name })
	})
	c.Effective.SystemPrompt = ""
	return c
}
