package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Block ends the Turn because its Harness or Agent may not be used (LIFE-10, BLK-04).
//
// The known results of the calls of an open act step are appended with the end, here as in the other functions that end
// a Turn: the next Turn's model must not mistake an executed call for one that was not executed.
func (run *Runner) Block(
	ctx context.Context,
	t turnstate.Turn,
	b *config.Blocker,
	known *act.Step,
) (*journal.Closed, error) {
	failure := plan.Failure{Code: v1alpha1.ErrorCodeDependencyUnavailable, Fields: b.Fields()}
	message := event.NewErrorMessage(b.Sentence(), string(failure.Code), failure.Fields)
	message.ID = t.ResponseID()
	output := run.events(t).OutputMessage(event.OutputMessageCompleted{
		Message:     message,
		ErrorCode:   string(failure.Code),
		ErrorFields: failure.Fields,
	})
	return run.end(ctx, t, turnstate.Failed(failure, b.Sentence()), known, output)
}

// Cancel ends the Turn because the user wants it to.
func (run *Runner) Cancel(ctx context.Context, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
	return run.end(ctx, t, turnstate.Cancelled(plan.Failure{Code: v1alpha1.ErrorCodeCancelled}.Sentence()), known)
}

// Deleted ends the Turn because the user has deleted it.
func (run *Runner) Deleted(ctx context.Context, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
	return run.end(ctx, t, turnstate.Deleted(), known)
}

// Fail ends the Turn with an error that the manager has determined.
func (run *Runner) Fail(
	ctx context.Context,
	t turnstate.Turn,
	failure plan.Failure,
	known *act.Step,
) (*journal.Closed, error) {
	return run.end(ctx, t, turnstate.Failed(failure, failure.Sentence()), known)
}

// full ends the Turn because the journal has no room for the next entry.
func (run *Runner) full(ctx context.Context, t turnstate.Turn, known *act.Step, cause error) (*journal.Closed, error) {
	sentence := fullSentence(t.Session, cause)
	closed, err := run.end(
		ctx,
		t,
		turnstate.Failed(plan.Failure{Code: v1alpha1.ErrorCodeJournalFull}, sentence),
		known.Brief(),
	)
	if err != nil {
		return nil, fmt.Errorf("%w (after: %w)", err, cause)
	}
	return closed, nil
}

// Expire ends the Turn because a time limit has passed.
func (run *Runner) Expire(
	ctx context.Context,
	t turnstate.Turn,
	e turnstate.Expiry,
	known *act.Step,
) (*journal.Closed, error) {
	return run.end(ctx, t, e.Ending(), known)
}

// fullSentence returns the bound that a journal has reached, and the remedy.
func fullSentence(s journal.Session, cause error) string {
	var full *journal.FullError
	if !errors.As(cause, &full) {
		full = &journal.FullError{By: journal.BySession, Limit: s.Limit}
	}
	switch full.By {
	case journal.ByNamespace:
		return fmt.Sprintf("The journals of namespace %q are full (%d bytes, the manager's "+
			"--max-journal-bytes-per-namespace). "+
			"Delete Sessions that are no longer needed.", s.Namespace, full.Limit)
	case journal.ByManager:
		return fmt.Sprintf(
			"The Session's journal is full (%d bytes, the manager's --max-journal-bytes). Continue in a new Session.",
			full.Limit,
		)
	default:
		return fmt.Sprintf("The Session's journal is full (%d bytes). Raise spec.journalLimit of Session %s, or continue in "+
			"a new Session.", full.Limit, s.Name)
	}
}

// end closes the open step and with it the Turn. preceding holds the events that precede the end, if any.
func (run *Runner) end(
	ctx context.Context,
	t turnstate.Turn,
	e turnstate.Ending,
	known *act.Step,
	output ...event.Event,
) (*journal.Closed, error) {
	t, err := run.recordable(ctx, t)
	if err != nil {
		return nil, err
	}
	if t.Step() == 1 {
		t = run.describeImages(ctx, t, passTimeout)
	}
	return run.endAs(ctx, t, e, known, output...)
}

// recordable returns a Turn with its message as the end of its first step records it.
func (run *Runner) recordable(ctx context.Context, t turnstate.Turn) (turnstate.Turn, error) {
	if t.Step() != 1 {
		return t, nil
	}
	t, err := wholeMessage(ctx, t)
	if err != nil {
		return t, err
	}
	return run.guarded(ctx, t)
}

// endAs is end for a Turn whose message is as it is to be recorded.
func (run *Runner) endAs(
	ctx context.Context, t turnstate.Turn, e turnstate.Ending, known *act.Step, output ...event.Event,
) (*journal.Closed, error) {
	return run.closing(ctx, t, known, func(t turnstate.Turn, calls []event.Event) journal.Record {
		record := recordOf(t)
		record.Events = append(run.opening(t), calls...)
		record.Events = append(record.Events, run.budgetEvents(t)...)
		record.Events = append(record.Events, output...)
		record.Events = append(record.Events, run.failedEvents(t, e)...)
		record.Transition = e.Progress(t, run.micro())
		return record
	})
}

// closing appends the record that ends a Turn. compose builds it from the Turn and the events of its open calls, and
// builds it again each time that another process claims a call, or appends a result or a decision, before the record is
// in the journal.
func (run *Runner) closing(
	ctx context.Context, t turnstate.Turn, given *act.Step, compose func(turnstate.Turn, []event.Event) journal.Record,
) (*journal.Closed, error) {
	storing, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	for {
		known, parts, err := run.addSettled(ctx, t, given)
		if err != nil {
			return nil, err
		}
		claims, err := run.claims(ctx, t, known)
		if err != nil {
			return nil, err
		}
		attempt := t
		attempt.Progress = *t.Progress.DeepCopy()
		events, unclaimed, ended := run.endCalls(attempt, known, claims)
		record := compose(attempt, events)
		if ended != nil {
			addPayments(record.Transition.Summary, attempt.Progress.ToolCalls, ended)
		}
		record.Closing, record.Unclaimed, record.Parts = true, unclaimed, parts
		record.Events = run.storeImages(storing, attempt, record.Events, passTimeout)
		closed, err := run.append(ctx, attempt, record)
		if !errors.Is(err, journal.ErrStale) {
			return closed, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// A call that was taken for never started was claimed meanwhile.
		given = given.Without(unclaimed)
	}
}

// failedEvents returns the events of the end of a Turn without success. The Session's status follows from its active
// Turn and is not an event (LIFE-06, LIFE-07, SM-08, GAP-05).
func (run *Runner) failedEvents(t turnstate.Turn, e turnstate.Ending) []event.Event {
	f := run.events(t)
	return []event.Event{
		f.TurnFailed(event.TurnFailed{
			Error: e.Sentence, ErrorCode: string(e.Failure.Code), ErrorFields: stringFields(e.Failure.Fields),
		}),
		f.SessionIdled(event.SessionIdled{}),
	}
}

// completedEvents returns the events of the end of a Turn that succeeded with this status (LIFE-03, LIFE-04, LIFE-05,
// SM-08).
func (run *Runner) completedEvents(
	t turnstate.Turn, after v1alpha1.TurnProgress, message, text string, now time.Time,
) []event.Event {
	sum, iterations := after.Summary, after.Iteration
	completed := event.TurnCompleted{
		Iterations:         iterations,
		Usage:              event.UsageOf(sum.Usage),
		InputContent:       excerpt.Of(t.Input, turnstate.MaxMessageBytes),
		FinalMessageID:     message,
		FinalAnswerPreview: finalPreview(text),
		ToolCallCount:      &sum.ToolCalls,
		LLMCallCount:       &sum.ModelCalls,
		StopReason:         plan.StopWord(after.Plan.StopReason),
	}
	if sum.StartedAt != nil {
		ms := max(now.Sub(sum.StartedAt.Time).Milliseconds(), 0)
		completed.DurationMS = &ms
	}
	if first := sum.TimeToFirstToken; first != nil {
		ms := first.Milliseconds()
		completed.TimeToFirstTokenMS = &ms
	}
	f := run.events(t)
	return []event.Event{
		f.TurnCompleted(completed),
		f.SessionIdled(event.SessionIdled{Iterations: &iterations, Usage: event.UsageOf(sum.Usage)}),
	}
}

// maxFinalPreview is the length of the preview of the final response, in characters (TURN-15).
const maxFinalPreview = 2000

// finalPreview is the start of the final response.
func finalPreview(text string) string {
	count := 0
	for i := range text {
		if count == maxFinalPreview {
			return text[:i]
		}
		count++
	}
	return text
}

// Withdrawer ensures that no pod of an AtMostOnce call that runs as a Job has started or will start, and reports
// whether it could. It is called if no status is left in which the call could be withdrawn.
type Withdrawer func(ctx context.Context, turn v1alpha1.JournalTurn, step int32, call v1alpha1.ToolCall) (bool, error)

// Abandon ends a Turn that was deleted while it was active, found by following its entries from its admission. Closed
// steps stay unchanged. If another process closes a step meanwhile, such as one with a running model call, another step
// follows: only an entry that ends the Turn is the end. The released pods were recorded only in the Turn's status, so
// that only withdraw can prove that a call was not executed; a nil withdraw proves it for none. Abandon returns nil for
// a Turn that never began, because an earlier Turn had its name.
func (run *Runner) Abandon(
	ctx context.Context, s journal.Session, ref v1alpha1.JournalTurn, admission turnstate.Admission, withdraw Withdrawer,
) (*journal.Closed, error) {
	view, err := run.Log.View(ctx, s, admission.OpenedAtOrdinal-1)
	if err != nil {
		return nil, fmt.Errorf("looking for Turn %s in the journal: %w", ref.Name, err)
	}
	if earlier, used := view.Turns[ref.Name]; used && (earlier.UID != ref.UID || earlier.SteeredInto != nil) {
		return nil, nil
	}
	if admission.At.IsZero() {
		admission.At = run.micro()
	}
	t := turnstate.Turn{Session: s, Ref: ref, Progress: plan.Begin(admission.OpenedAtOrdinal, admission.At)}
	for {
		closed, err := run.Log.Find(ctx, s, ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
		if err != nil {
			return nil, fmt.Errorf("reading the entries of Turn %s: %w", ref.Name, err)
		}
		if closed == nil {
			if err := withdrawCalls(ctx, t, withdraw); err != nil {
				return nil, err
			}
			if closed, err = run.abandonStep(ctx, t); err != nil {
				return nil, err
			}
		}
		if closed.Transition.Plan.Phase == v1alpha1.PlanPhaseComplete {
			return closed, nil
		}
		t.Progress = closed.Transition
	}
}

// withdrawCalls withdraws the calls of the open step of a Turn that does not exist any more.
func withdrawCalls(ctx context.Context, t turnstate.Turn, withdraw Withdrawer) error {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct || withdraw == nil {
		return nil
	}
	for i := range t.Progress.ToolCalls {
		call := &t.Progress.ToolCalls[i]
		if !act.AwaitsWithdrawal(*call) {
			continue
		}
		withdrawn, err := withdraw(ctx, t.Ref, t.Step(), *call)
		if err != nil {
			return fmt.Errorf("withdrawing call %s of Turn %s: %w", call.ID, t.Ref.Name, err)
		}
		if withdrawn {
			act.NeverStarted(call)
		}
	}
	return nil
}

// abandonStep closes the open step of a Turn that does not exist any more.
func (run *Runner) abandonStep(ctx context.Context, t turnstate.Turn) (*journal.Closed, error) {
	e := turnstate.Deleted()
	return run.closing(ctx, t, nil, func(t turnstate.Turn, calls []event.Event) journal.Record {
		return journal.Record{
			Turn: t.Ref, Step: t.Step(), OpenedAt: t.Progress.Plan.OpenedAtOrdinal,
			Events:     append(calls, run.failedEvents(t, e)...),
			Transition: e.Progress(t, run.micro()),
		}
	})
}
