package host

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// CodeJournalFull is the error code of a Turn for which the Session's journal has no room.
const CodeJournalFull plan.ErrorCode = "journal_full"

// Block ends the Turn because its Harness or Agent may not be used (LIFE-10).
//
// The known results of the calls of an open act step are appended with the end, here as in the other functions that end
// a Turn: the next Turn's model must not mistake an executed call for one that was not executed.
func (h *Host) Block(ctx context.Context, t Turn, b *config.Blocker, known ActResults) (*journal.Closed, error) {
	failure := plan.Failure{Code: plan.ErrorCode(b.Code()), Fields: map[string]any{}}
	for name, value := range b.Fields() {
		failure.Fields[name] = value
	}
	outcome := plan.FailAs(t.state(), failure, b.Sentence())
	said := h.events(t).OutputMessage(event.OutputMessageCompleted{
		Message:     event.NewErrorMessage(b.Sentence(), b.Code(), b.Fields()),
		ErrorCode:   b.Code(),
		ErrorFields: b.Fields(),
	})
	return h.end(ctx, t, outcome, known, b.Sentence(), said)
}

// Cancel ends the Turn because the user wants it to.
func (h *Host) Cancel(ctx context.Context, t Turn, known ActResults) (*journal.Closed, error) {
	return h.end(ctx, t, plan.Cancel(t.state()), known, "")
}

// Deleted ends the Turn because the user has deleted it.
func (h *Host) Deleted(ctx context.Context, t Turn, known ActResults) (*journal.Closed, error) {
	return h.end(ctx, t, plan.Cancel(t.state()), known, deletedSentence)
}

// deletedSentence is the error of a Turn that was deleted.
const deletedSentence = "The Turn was deleted while it ran."

// Fail ends the Turn with an error that the manager has determined.
func (h *Host) Fail(ctx context.Context, t Turn, failure plan.Failure, known ActResults) (*journal.Closed, error) {
	return h.end(ctx, t, plan.FailAs(t.state(), failure, ""), known, "")
}

// full ends the Turn because the journal has no room for the next entry.
func (h *Host) full(ctx context.Context, t Turn, known ActResults, cause error) (*journal.Closed, error) {
	sentence := fullSentence(t.Session, cause)
	closed, err := h.end(
		ctx,
		t,
		plan.FailAs(t.state(), plan.Failure{Code: CodeJournalFull}, sentence),
		known.brief(),
		sentence,
	)
	if err != nil {
		return nil, fmt.Errorf("%w (after: %w)", err, cause)
	}
	return closed, nil
}

// fullSentence returns the bound that a journal has reached, and what to do.
func fullSentence(s journal.Session, cause error) string {
	var full *journal.FullError
	if !errors.As(cause, &full) {
		full = &journal.FullError{By: journal.BySession, Limit: s.Limit}
	}
	switch full.By {
	case journal.ByNamespace:
		return fmt.Sprintf("The journals of namespace %q are full (%d bytes, the manager's "+
			"--max-journal-bytes-per-namespace). "+
			"Delete Sessions that are not needed any more.", s.Namespace, full.Limit)
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

// end closes the open step and with it the Turn. said holds the events that precede the end, if any.
func (h *Host) end(
	ctx context.Context,
	t Turn,
	outcome plan.Outcome,
	known ActResults,
	sentence string,
	said ...v1alpha1.JournalEvent,
) (*journal.Closed, error) {
	complete, ok := outcome.Plan.(plan.Complete)
	if !ok {
		return nil, fmt.Errorf("ending Turn %s: the planner gave a %T", t.Ref.Name, outcome.Plan)
	}
	if t.step() == 1 {
		var err error
		if t, err = t.whole(ctx); err != nil {
			return nil, err
		}
	}
	return h.closing(ctx, t, known, func(t Turn, calls []v1alpha1.JournalEvent) journal.Record {
		record := t.record()
		record.Events = append(h.opening(t), calls...)
		record.Events = append(record.Events, said...)
		record.Events = append(record.Events, h.effects(t, outcome.Effects)...)
		record.Transition = t.complete(complete, "", sentence, h.micro())
		return record
	})
}

// closing appends the record that ends a Turn. compose builds it from the Turn and the events of its open calls, and
// builds it again each time that another process claims a call, or appends a result or a decision, before the record is
// in the journal.
func (h *Host) closing(
	ctx context.Context, t Turn, given ActResults, compose func(Turn, []v1alpha1.JournalEvent) journal.Record,
) (*journal.Closed, error) {
	for {
		known, parts, err := h.takeIn(ctx, t, given)
		if err != nil {
			return nil, err
		}
		claims, err := h.claims(ctx, t, known)
		if err != nil {
			return nil, err
		}
		attempt := t
		attempt.Progress = *t.Progress.DeepCopy()
		events, unclaimed := h.endCalls(attempt, known, claims)
		record := compose(attempt, events)
		record.Closing, record.Unclaimed, record.Parts = true, unclaimed, parts
		closed, err := h.append(ctx, attempt, record)
		if !errors.Is(err, journal.ErrStale) {
			return closed, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// A call that was taken for never started was claimed meanwhile.
		given.Outcomes = withoutAll(given.Outcomes, unclaimed)
	}
}

// withoutAll are the outcomes but for those of some calls.
func withoutAll(outcomes map[string]tool.Outcome, ids []string) map[string]tool.Outcome {
	rest := maps.Clone(outcomes)
	for _, id := range ids {
		delete(rest, id)
	}
	return rest
}

// effects turns the planner's effects into events. The Session's status follows from its active Turn and is not an
// event (LIFE-07).
func (h *Host) effects(t Turn, effects []plan.Effect) []v1alpha1.JournalEvent {
	f := h.events(t)
	var events []v1alpha1.JournalEvent
	for _, effect := range effects {
		switch e := effect.(type) {
		case plan.EffectTurnCompleted:
			events = append(events, f.TurnCompleted(event.TurnCompleted{
				Iterations:         int32(e.Iterations),
				DurationMS:         e.DurationMS,
				Usage:              eventUsage(e.Usage),
				InputContent:       cut(t.Input, maxMessageBytes),
				FinalMessageID:     e.FinalMessageID,
				FinalAnswerPreview: e.FinalAnswerPreview,
				TimeToFirstTokenMS: e.TimeToFirstTokenMS,
				ToolCallCount:      pointer(e.ToolCallCount),
				LLMCallCount:       pointer(e.LLMCallCount),
				Status:             e.Status,
				StopReason:         e.StopReason,
			}))
		case plan.EffectTurnFailed:
			events = append(events, f.TurnFailed(event.TurnFailed{
				Error:       e.Error,
				ErrorCode:   string(e.Code),
				ErrorFields: stringFields(e.Fields),
			}))
		case plan.EffectSessionIdled:
			data := event.SessionIdled{Usage: eventUsage(e.Usage)}
			if e.Iterations != nil {
				data.Iterations = pointer(*e.Iterations)
			}
			events = append(events, f.SessionIdled(data))
		}
	}
	return events
}

func eventUsage(u *plan.Usage) *event.Usage {
	if u == nil {
		return nil
	}
	return event.UsageOf(usageOf(u))
}

func pointer(count uint32) *int32 {
	n := int32(min(count, 1<<31-1))
	return &n
}

// Withdrawer ensures that no pod of an AtMostOnce call that runs as a Job has started or will start, and reports
// whether it could. It is called if no status is left in which the call could be withdrawn.
type Withdrawer func(ctx context.Context, turn v1alpha1.JournalTurn, step int32, call v1alpha1.ToolCall) (bool, error)

// Abandon ends a Turn that was deleted while it was active, found by following its entries from the ordinal at which it
// may have begun. Closed steps stay unchanged. If another process closes a step meanwhile, such as one with a running
// model call, another step follows: only an entry that ends the Turn is the end. The released pods were recorded only
// in the Turn's status, so that only withdraw can prove that a call was not executed; a nil withdraw proves it for
// none. Abandon returns nil for a Turn that never began, because an earlier Turn had its name.
func (h *Host) Abandon(
	ctx context.Context, s journal.Session, ref v1alpha1.JournalTurn, from int64, withdraw Withdrawer,
) (*journal.Closed, error) {
	view, err := h.Log.View(ctx, s, from-1)
	if err != nil {
		return nil, fmt.Errorf("looking for Turn %s in the journal: %w", ref.Name, err)
	}
	if earlier, used := view.Turns[ref.Name]; used && (earlier.UID != ref.UID || earlier.SteeredInto != nil) {
		return nil, nil
	}
	t := Turn{Session: s, Ref: ref, Progress: Begin(from, h.micro())}
	for {
		closed, err := h.Log.Find(ctx, s, ref.UID, t.step(), t.Progress.Plan.OpenedAt)
		if err != nil {
			return nil, fmt.Errorf("following the entries of Turn %s: %w", ref.Name, err)
		}
		if closed == nil {
			if err := t.withdrawCalls(ctx, withdraw); err != nil {
				return nil, err
			}
			if closed, err = h.abandonStep(ctx, t); err != nil {
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
func (t Turn) withdrawCalls(ctx context.Context, withdraw Withdrawer) error {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct || withdraw == nil {
		return nil
	}
	for i := range t.Progress.ToolCalls {
		call := &t.Progress.ToolCalls[i]
		if !tool.Withdrawable(*call) || call.State.Settled() {
			continue
		}
		withdrawn, err := withdraw(ctx, t.Ref, t.step(), *call)
		if err != nil {
			return fmt.Errorf("withdrawing call %s of Turn %s: %w", call.ID, t.Ref.Name, err)
		}
		if withdrawn {
			Describe(call, neverStarted())
		}
	}
	return nil
}

// abandonStep closes the open step of a Turn that does not exist any more.
func (h *Host) abandonStep(ctx context.Context, t Turn) (*journal.Closed, error) {
	outcome := plan.Cancel(t.state())
	complete, ok := outcome.Plan.(plan.Complete)
	if !ok {
		return nil, fmt.Errorf("ending Turn %s: the planner gave a %T", t.Ref.Name, outcome.Plan)
	}
	return h.closing(ctx, t, ActResults{}, func(t Turn, calls []v1alpha1.JournalEvent) journal.Record {
		return journal.Record{
			Turn: t.Ref, Step: t.step(), OpenedAt: t.Progress.Plan.OpenedAt,
			Events:     append(calls, h.effects(t, outcome.Effects)...),
			Transition: t.complete(complete, "", deletedSentence, h.micro()),
		}
	})
}
