package inprocess

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
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
