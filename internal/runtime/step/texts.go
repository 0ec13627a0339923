package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// wholeMessage returns the Turn with its whole message, for events and model requests.
func wholeMessage(ctx context.Context, t turnstate.Turn) (turnstate.Turn, error) {
	if t.ReadMessage == nil {
		return t, nil
	}
	spec, err := t.ReadMessage(ctx)
	if err != nil {
		return t, fmt.Errorf("reading the message of Turn %s: %w", t.Ref.Name, err)
	}
	t.Input, t.Content = turnstate.MessageOf(spec)
	t.ReadMessage = nil
	return t, nil
}

// wholeConfig returns the configuration with all texts that a model receives. It keeps nothing else that it reads: a
// definition has its texts for the model, and not those that only a call of the tool needs.
func wholeConfig(ctx context.Context, c turnstate.Config) (turnstate.Config, error) {
	if leftout.Is(c.Effective.SystemPrompt) {
		prompt, err := c.Texts.Prompt(ctx)
		if err != nil {
			return c, fmt.Errorf("reading the system prompt: %w", err)
		}
		c.Effective.SystemPrompt = prompt
	}
	var err error
	if c.Prompts, err = wholePrompts(ctx, c); err != nil {
		return c, err
	}
	c.Tools = slices.Clone(c.Tools)
	servers := map[string]map[string]definition.RemoteTexts{}
	for i, d := range c.Tools {
		if !d.LeftOut() {
			continue
		}
		if remote := d.Remote(); remote != nil {
			texts := servers[remote.Server.Name]
			if texts == nil {
				if texts, err = c.Texts.Remote(ctx, remote.Server); err != nil {
					return c, fmt.Errorf("reading the tools of MCPServer %s: %w", remote.Server.Name, err)
				}
				servers[remote.Server.Name] = texts
			}
			c.Tools[i] = d.WithTexts(texts[remote.Tool])
			continue
		}
		read, err := c.Texts.Tool(ctx, d.Object())
		if err != nil {
			return c, fmt.Errorf("reading Tool %s: %w", d.Name, err)
		}
		definition.LeaveOutExecution(&read.Spec)
		c.Tools[i] = definition.Of(read)
	}
	return c, nil
}

// WholeConfig returns a configuration as the next model call has it, with all texts that the model receives
// (INSPECT-01).
func WholeConfig(ctx context.Context, c turnstate.Config) (turnstate.Config, error) {
	return wholeConfig(ctx, c)
}

// wholePrompts returns the prompts of the capabilities with their texts.
func wholePrompts(ctx context.Context, c turnstate.Config) ([]capability.Prompt, error) {
	prompts := slices.Clone(c.Prompts)
	for i, p := range prompts {
		name, ok := capability.ObjectName(p.ID)
		if !ok || !leftout.Is(p.Text) {
			continue
		}
		text, err := c.Texts.CapabilityPrompt(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("reading the prompt of Capability %s: %w", name, err)
		}
		prompts[i].Text = strings.TrimSpace(text)
	}
	return prompts, nil
}

// InitialFiles returns a function that reads the files that the Session begins with; nil if it begins without files.
func InitialFiles(c turnstate.Config) func(context.Context) ([]sessionfs.Initial, error) {
	files := c.Effective.InitialFiles
	if len(files) == 0 {
		return nil
	}
	return func(ctx context.Context) ([]sessionfs.Initial, error) {
		if !config.FilesLeftOut(files) {
			return config.SeedOf(files), nil
		}
		whole, err := c.Texts.InitialFiles(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the initial files: %w", err)
		}
		return config.SeedOf(whole), nil
	}
}

// Planned returns the definition that a call was planned with, with all texts; nil if it is gone or was changed.
func Planned(ctx context.Context, c turnstate.Config, call v1alpha1.ToolCall) (*definition.Definition, error) {
	d := c.Tools.Planned(call)
	if remote := d.Remote(); remote != nil {
		return plannedRemote(ctx, c, call, d)
	}
	if !d.LeftOut() {
		return d, nil
	}
	read, err := c.Texts.Tool(ctx, d.Object())
	if err != nil {
		return nil, fmt.Errorf("reading Tool %s: %w", d.Name, err)
	}
	return definition.Set{definition.Of(read)}.Planned(call), nil
}

// plannedRemote returns the definition of a tool of an MCPServer that a call was planned with, with all that its
// request needs; nil if the MCPServer was changed meanwhile. Texts for the model are not needed.
func plannedRemote(
	ctx context.Context, c turnstate.Config, call v1alpha1.ToolCall, d *definition.Definition,
) (*definition.Definition, error) {
	server := d.Remote().Server
	if !definition.ConnectionLeftOut(server) {
		return d, nil
	}
	read, err := c.Texts.MCPServer(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("reading MCPServer %s: %w", server.Name, err)
	}
	return definition.Set{d.WithServer(read)}.Planned(call), nil
}

// wholeModel returns a Model with its script.
func wholeModel(ctx context.Context, c turnstate.Config, m *v1alpha1.Model) (*v1alpha1.Model, error) {
	if !model.LeftOut(m) {
		return m, nil
	}
	read, err := c.Texts.Model(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("reading Model %s: %w", m.Name, err)
	}
	return read, nil
}

// onlyCalled returns the configuration that a response is recorded with: without the system prompt, and with the
// definitions of the called tools alone.
func onlyCalled(c turnstate.Config, calls []model.ToolCall) turnstate.Config {
	c.Tools = slices.DeleteFunc(slices.Clone(c.Tools), func(d *definition.Definition) bool {
		return !slices.ContainsFunc(calls, func(call model.ToolCall) bool {
			runs, _ := background.CallOf(call.Name, call.Arguments)
			return call.Name == d.Name || runs == d.Name
		})
	})
	c.Effective.SystemPrompt, c.Prompts = "", nil
	return c
}
