package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
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
	messages, _ := event.Repair(sendable(view.Messages), repairState)
	prompt, tools := event.Fenced(messages), definitions(c)
	return model.Request{
		Model:        modelName(c.Model),
		SystemPrompt: systemPrompt(c.Effective.SystemPrompt, locale, len(tools) > 0 || hasToolResult(prompt)),
		Messages:     prompt,
		Tools:        tools,
		Locale:       locale,
		Iteration:    1,
		User:         pseudonym(s),
	}, nil
}
