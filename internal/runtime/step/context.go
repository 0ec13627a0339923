package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// contextOf returns the context that the Turn has in the journal, and renders it if there is none.
func (run *Runner) contextOf(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, view *journal.View, messages []event.Message,
) (prompt.Context, error) {
	ref := view.Context
	if ref == nil || ref.Turn != t.Ref.UID {
		prompts := prompt.Prompts{Capabilities: c.Prompts, Layers: c.Effective.SystemPrompt, Locale: t.Locale}
		return prompt.Render(prompts, c.Tools, messages).Recorded()
	}
	content, err := run.Log.Context(ctx, t.Session, ref)
	if err != nil {
		return prompt.Context{}, fmt.Errorf("reading the context of the Turn: %w", err)
	}
	pinned, err := prompt.Unpack(content)
	if err != nil {
		return prompt.Context{}, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	return pinned, nil
}
