package inprocess

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// awaitBudget reports on the Turn that a Budget has refused its model call, and waits until the Budget may have room,
// objects have changed, the Turn is to end or a time limit has passed.
func (r *run) awaitBudget(ctx context.Context, refusal *budget.Refusal) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t := r.turnState()
	// The alert is for this Turn alone: it does not hide that others have changed.
	ticket, err := r.loop.Steps.Budgets.Wait(ctx, t.Payer(), refusal, r.alert)
	if err != nil {
		return err
	}
	defer ticket.Withdraw()
	progress := &r.turn.Status.TurnProgress
	r.budgets.Wait(t.Step(), r.loop.Clock.Now(), budget.NoticeOf(refusal.Reason, refusal.Budget, refusal.Message))
	turnstate.DescribeBudgetWait(progress, refusal)
	r.show()
	if refusal.Budget == "" || ticket.Refusal() != nil {
		select {
		case <-r.alerts:
		case <-r.alarm(ctx, act.Earlier(r.nextLimit(), refusal.Until)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.budgets.Resume(t.Step(), r.loop.Clock.Now(), turnstate.ResumeFromBudget(progress))
	r.show()
	return nil
}

// awaitRoom reports on the Turn that its model call has no room within the limits of its Model, and waits until it has,
// the Turn is to end or a time limit has passed. The room is kept for the Turn until it calls, or the caller withdraws
// the returned ticket.
func (r *run) awaitRoom(ctx context.Context, limited *step.RateLimited) (*ratelimit.Ticket, error) {
	ticket := r.loop.Steps.Limits.Wait(r.turn.UID, limited.Refusal, r.alert)
	progress := &r.turn.Status.TurnProgress
	for {
		now := r.loop.Clock.Now()
		admitted, until := ticket.Check()
		if admitted {
			break
		}
		if limited.Describe(progress, now) {
			r.show()
		}
		if r.loop.OnPause != nil && !until.IsZero() {
			r.loop.OnPause(until)
		}
		if waited, err := r.pauseUntil(ctx, act.Earlier(r.nextLimit(), until)); err != nil || !waited {
			return ticket, err
		}
	}
	if step.WaitsForRateLimit(progress) {
		turnstate.Resume(progress)
		r.show()
	}
	return ticket, nil
}

// pauseUntil waits for an alert, or until a time; zero for no time. It reports false if the Turn is to end.
func (r *run) pauseUntil(ctx context.Context, at time.Time) (bool, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case <-r.alerts:
	case <-r.alarm(ctx, at):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return !r.toEnd() && r.expired() == nil, nil
}
