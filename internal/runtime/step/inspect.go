package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Inspect composes the model request for the next message of a Session, without that message, and sends nothing
// (INSPECT-01). The conversation may be empty.
func (run *Runner) Inspect(
	ctx context.Context,
	s journal.Session,
	locale string,
	c turnstate.Config,
) (model.Request, error) {
	view, err := run.Log.View(ctx, s, 0)
	if err != nil {
		return model.Request{}, fmt.Errorf("reading the conversation: %w", err)
	}
	repaired, _ := prompt.Repair(prompt.Sendable(view.Messages))
	messages := event.Fenced(repaired)
	rendered := prompt.Render(c.Effective.SystemPrompt, locale, c.Tools, messages)
	return model.Request{
		Model:        model.Name(c.Model),
		SystemPrompt: rendered.SystemPrompt,
		Messages:     messages,
		Tools:        rendered.Tools,
		Locale:       locale,
		Iteration:    1,
		User:         prompt.User(s.UID),
	}, nil
}
