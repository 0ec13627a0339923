package turn

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// awaitBudget holds a model call back while a Budget has no room for it, and reports it on the Turn. What ends the
// wait wakes the Turn: another call that ends, a change of the Budget, its next window, other labels of the Session;
// or, for a Model without a price, a change of a Model, through the Session.
func (r *Reconciler) awaitBudget(ctx context.Context, s *scope, step *stepMemory, c turnstate.Config) (flow, error) {
	if r.Steps.Budgets == nil {
		return proceed, nil
	}
	progress := &s.turn.Status.TurnProgress
	refusal, models := step.budget.Refusal(), versionsOf(c.Models())
	if refusal == nil || refusal.Reason == v1alpha1.ReasonBudgetNeedsPrice && !slices.Equal(models, step.priced) {
		var err error
		step.priced = models
		if refusal, err = r.Steps.Budgets.Standing(ctx, s.turnState().Payer(), c.Models()); err != nil {
			return stop, err
		}
		if refusal == nil && step.budget.Refusal() != nil {
			step.budget.Withdraw()
			step.budget = nil
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

// modelVersion identifies what a Budget and a key check of a Model depend on.
type modelVersion struct {
	uid        types.UID
	generation int64
	ready      int64
}

// versionsOf returns the versions of Models.
func versionsOf(models []*v1alpha1.Model) []modelVersion {
	versions := make([]modelVersion, len(models))
	for i, m := range models {
		versions[i] = modelVersion{uid: m.UID, generation: m.Generation}
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			versions[i].ready = c.LastTransitionTime.Unix()
		}
	}
	return versions
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
	if refusal != step.budget.Refusal() {
		key := s.key()
		ticket, err := r.Steps.Budgets.Wait(
			ctx, s.turnState().Payer(), refusal, func() { r.Wakes.Wake(key) })
		if err != nil {
			return stop, err
		}
		step.budget.Withdraw()
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

// returnRoom leaves the room to others that a Budget keeps for the Turn, if the pass that had it did not begin the
// model call: the Turn waits for something else now, which may never come. One that waits for a slot keeps the room,
// because those that are refused meanwhile release theirs. So does one in the line of a rate limit: it would never have
// both at once otherwise. A Turn that waits for a Budget is in no such line, so that they cannot wait for each other.
func (r *Reconciler) returnRoom(s *scope, granted *keeper.Ticket) {
	step := &s.memory.step
	if granted == nil || step.budget != granted || step.awaitsRoom || step.awaitsSlot ||
		r.Activities.Known(executor.Key{Turn: s.turn.UID, Step: step.number}) {
		return
	}
	step.budget = nil
	granted.Withdraw()
}
