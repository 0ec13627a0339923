package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
)

// Conversation returns the messages of a Session as its next model call would be sent them, without a new message
// (INSPECT-01). There may be none. Stored images are named and not read.
func (run *Runner) Conversation(ctx context.Context, s journal.Session) ([]event.Message, error) {
	view, err := run.Log.View(ctx, s, 0)
	if err != nil {
		return nil, fmt.Errorf("reading the conversation: %w", err)
	}
	repaired, _ := prompt.Repair(prompt.Sendable(view.Messages))
	return event.Fenced(repaired), nil
}
