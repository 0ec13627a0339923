package inprocess

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// keepRetry is the pause after a part that could not be written.
const keepRetry = 10 * time.Second

// keepOutcomes appends the outcomes that are only in memory to the journal, and drops their texts.
func (a *acting) keepOutcomes(ctx context.Context) (*journal.Closed, error) {
	closed, err := a.loop.Steps.KeepOutcomes(ctx, a.turnState(), a.step)
	if err != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrFormat) {
		// The outcomes are still in memory, and the step may be closed with them.
		a.alarmAt = act.Earlier(a.alarmAt, a.loop.Clock.Now().Add(keepRetry))
		return nil, nil
	}
	return closed, err
}
