package turn

import (
	"context"

	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// awaitBudget holds a model call back while a Budget has no room for it, and reports it on the Turn. What ends the wait
// wakes the Turn: another call that ends, a change of the Budget, its next window; or, for a Model without a price, a
// change of the Model, through the Session.
func (r *Reconciler) awaitBudget(ctx context.Context, s *scope, step *stepMemory, c turnstate.Config) (flow, error) {
	if r.Steps.Budgets == nil {
		return proceed, nil
	}
	progress := &s.turn.Status.TurnProgress
	refusal := step.budget.Refusal()
	if refusal == nil {
		var err error
		if refusal, err = r.Steps.Budgets.Standing(ctx, s.turnState().Payer(), c.Models()); err != nil {
			return stop, err
		}
	}
	switch {
	case refusal != nil:
		if flow, err := r.findClosedOrStop(ctx, s); err != nil || flow == again {
			return flow, err
		}
		return r.refused(ctx, s, step, refusal)
	case !turnstate.WaitsForBudget(progress):
		return proceed, nil
	}
	now := r.Clock()
	s.memory.budgets.Resume(s.plan().Step, now, turnstate.ResumeFromBudget(progress))
	turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(now))
	return writeThenRepeat(writeWaiting), nil
}

// refused handles a model call that a Budget has refused: the Turn ends, or waits without a slot.
func (r *Reconciler) refused(
	ctx context.Context, s *scope, step *stepMemory, refusal *budget.Refusal,
) (flow, error) {
	delete(step.pauses, s.stepKey())
	if refusal.Ends {
		closed, err := r.Steps.Seal(ctx, s.turnState(), refusal)
		if err != nil {
			return stop, err
		}
		step.closed = closed
		return again, nil
	}
	if refusal.Budget != "" && step.budget.Refusal() == nil {
		step.budget.Withdraw()
		key := s.key()
		ticket, err := r.Steps.Budgets.Wait(
			ctx, s.turnState().Payer(), refusal, func() { r.Wakes.Wake(key) })
		if err != nil {
			return stop, err
		}
		if step.budget = ticket; ticket == nil {
			// The Budget does not count any more.
			r.Wakes.Wake(key)
			return stop, nil
		}
	}
	return r.reportBudgetWait(s, refusal), nil
}

// reportBudgetWait reports the wait on the Turn, once.
func (r *Reconciler) reportBudgetWait(s *scope, refusal *budget.Refusal) flow {
	flow := stop
	if turnstate.DescribeBudgetWait(&s.turn.Status.TurnProgress, refusal) {
		now := r.Clock()
		s.memory.budgets.Wait(s.plan().Step, now, budget.NoticeOf(refusal.Reason, refusal.Budget, refusal.Message))
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(now))
		flow = writeThenStop(writeWaiting)
	}
	r.releaseSlot(s)
	return flow
}

// returnRoom leaves the room to others that a Budget keeps for the Turn, if the pass that had it did not begin the model
// call: the Turn waits for something else now, which may never come. One that waits for a slot keeps the room, because
// those that are refused meanwhile release theirs.
func (r *Reconciler) returnRoom(s *scope, granted *keeper.Ticket) {
	step := &s.memory.step
	if granted == nil || step.budget != granted || step.awaitsSlot ||
		r.Activities.Known(executor.Key{Turn: s.turn.UID, Step: step.number}) {
		return
	}
	step.budget = nil
	granted.Withdraw()
}
