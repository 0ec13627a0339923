package inprocess

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// keepRetry is the pause after a part that could not be written.
const keepRetry = 10 * time.Second

// keepOutcomes appends the outcomes to the journal that only memory has, once the Turn waits for others or holds too
// much of them, and drops their texts, as the Turn reconciler does.
func (a *act) keepOutcomes(ctx context.Context) (*journal.Closed, error) {
	calls, bytes := a.results().Held(a.hostTurn())
	now := a.loop.Clock.Now()
	if calls != a.held {
		a.held, a.heldSince = calls, now
	}
	if a.turn.Status.Phase == v1alpha1.TurnPhaseAct {
		at := host.KeepAt(bytes, a.heldSince)
		if at.IsZero() || now.Before(at) {
			a.alarmAt = earlier(a.alarmAt, at)
			return nil, nil
		}
	}
	closed, err := a.loop.Host.KeepOutcomes(ctx, a.hostTurn(), a.results())
	if err != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrFormat) {
		// The outcomes are still in memory, and the step may be closed with them.
		a.alarmAt = earlier(a.alarmAt, now.Add(keepRetry))
		return nil, nil
	}
	return closed, err
}
