package step

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Seal ends the Turn because its next model call does not fit into a Budget that ends Turns (SM-09). The entry that
// closes the step decides, as for every end: a Turn that has ended stays as it is.
func (run *Runner) Seal(ctx context.Context, t turnstate.Turn, r *budget.Refusal) (*journal.Closed, error) {
	failure := plan.Failure{Code: v1alpha1.ErrorCodeBudgetExhausted}.With(v1alpha1.ErrorFieldBudget, r.Budget)
	t.Budgets.Wait(t.Step(), run.Clock(), budget.NoticeOf(r.Reason, r.Budget, r.Message))
	message := event.NewErrorMessage(failure.Sentence(), string(failure.Code), failure.Fields)
	message.ID = t.ResponseID()
	output := run.events(t).OutputMessage(event.OutputMessageCompleted{
		Message: message, ErrorCode: string(failure.Code), ErrorFields: failure.Fields,
	})
	return run.end(ctx, t, turnstate.Failed(failure, r.Message), nil, output)
}

// budgetEvents are the events of the Budgets that concern the open step (BUDGET-03).
func (run *Runner) budgetEvents(t turnstate.Turn) []event.Event {
	var events []event.Event
	for _, noted := range t.Budgets.Of(t.Step()) {
		events = append(events, run.events(t).At(noted.At).Budget(budgetTypes[noted.Kind], noted.Budget, noted.Message))
	}
	return events
}

// budgetTypes are the types of the events of notices.
var budgetTypes = map[budget.NoticeKind]string{
	budget.NoticeWarning:   event.TypeBudgetWarning,
	budget.NoticePaused:    event.TypeBudgetPaused,
	budget.NoticeExhausted: event.TypeBudgetExhausted,
	budget.NoticeResumed:   event.TypeBudgetResumed,
}
