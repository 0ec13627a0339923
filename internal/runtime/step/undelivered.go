package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// UndeliveredRetention is how long a model response that the journal does not accept is kept for retries. A tenant can
// make the manager hold this memory.
const UndeliveredRetention = 10 * time.Minute

// UndeliveredResponse is a model response that was paid for and is not in the journal yet. Deliver retries to append
// it.
type UndeliveredResponse struct {
	// Since is when the response was complete.
	Since time.Time
	// Err is why it could not be appended.
	Err error

	// dropped is the record of the drop of the response; nil for a response that nothing was paid for.
	dropped *Dropped
	record  journal.Record
	// compose builds the record again, for the Turns that the journal has.
	compose func(context.Context, map[string]journal.RecordedTurn) journal.Record
}

// undelivered returns a response that is about to be appended, with its images stored.
func (run *Runner) undelivered(
	ctx context.Context, t turnstate.Turn, record journal.Record,
	compose func(context.Context, map[string]journal.RecordedTurn) journal.Record,
) *UndeliveredResponse {
	record.Events = run.storeImages(ctx, t, record.Events, storeTimeout)
	return &UndeliveredResponse{Since: run.Clock(), record: record, compose: compose}
}

// Error implements error.
func (u *UndeliveredResponse) Error() string {
	return fmt.Sprintf("failed to append the model response to the journal: %v", u.Err)
}

// Unwrap returns the cause.
func (u *UndeliveredResponse) Unwrap() error { return u.Err }

// Bytes is the size in memory: the record, and the response from which it is composed again if necessary.
func (u *UndeliveredResponse) Bytes() int64 {
	var n int
	for _, e := range u.record.Events {
		if e.Data != nil {
			n += len(e.Data.Raw)
		}
	}
	for _, call := range u.record.Calls {
		n += len(call.Arguments)
	}
	if u.record.Context != nil {
		n += len(u.record.Context.Content)
	}
	return 2 * int64(n)
}

// Expired reports whether the response was kept for the maximum time.
func (u *UndeliveredResponse) Expired(now time.Time) bool {
	return !now.Before(u.Since.Add(UndeliveredRetention))
}

// Dropped is a model response that was paid for and was dropped, because the journal did not accept it for too long, or
// that an earlier process may have lost.
type Dropped struct {
	message, model string
}

// Drop returns the record of the dropped response; nil for a response that nothing was paid for.
func (u *UndeliveredResponse) Drop() *Dropped { return u.dropped }

// RecordDrop records in the journal that a response was dropped. Only then may a model be called again: a success shows
// that entries are stored, which no dry run does. It returns the entry that closes the step; nil for none.
func (run *Runner) RecordDrop(ctx context.Context, t turnstate.Turn, d *Dropped) (*journal.Closed, error) {
	closed, err := run.draft(t, journal.Partial{Message: d.message, Model: d.model, Holder: run.holder()}).Discard(ctx)
	if err != nil || !closed {
		return nil, err
	}
	return run.Log.Find(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
}

// Probe reports whether the open step could be closed, and spends nothing on it: it reads the journal and, where that
// is possible, has an append checked without writing it. A step that is closed already is returned.
func (run *Runner) Probe(ctx context.Context, t turnstate.Turn) (*journal.Closed, error) {
	closed, err := run.Log.Probe(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return nil, fmt.Errorf("checking the journal before step %d of Turn %s: %w", t.Step(), t.Ref.Name, err)
	}
	return closed, nil
}

// Deliver retries to close the step with a response that could not be appended before.
func (run *Runner) Deliver(ctx context.Context, t turnstate.Turn, u *UndeliveredResponse) (*journal.Closed, error) {
	return run.deliver(ctx, t, u, passTimeout)
}

// maxRecompositions bounds how often a response is composed again because messages to be steered in were withdrawn.
const maxRecompositions = 8

// deliver closes the step with a response. One that the journal can never hold ends the Turn; any other that is not
// appended stays with the caller. Images of messages that were steered in meanwhile are waited for as long as given.
func (run *Runner) deliver(
	ctx context.Context, t turnstate.Turn, u *UndeliveredResponse, wait time.Duration,
) (*journal.Closed, error) {
	record := u.record
	closed, err := run.append(ctx, t, record)
	for range maxRecompositions {
		if !errors.Is(err, journal.ErrStale) {
			break
		}
		view, readErr := run.Log.View(ctx, t.Session, t.Progress.Plan.OpenedAtOrdinal-1)
		if readErr != nil {
			err = readErr
			break
		}
		record = u.compose(ctx, view.Turns)
		record.Events = run.storeImages(ctx, t, record.Events, wait)
		closed, err = run.append(ctx, t, record)
	}
	switch {
	case errors.Is(err, journal.ErrFull):
		closed, err = run.full(ctx, t, nil, err)
	case errors.Is(err, journal.ErrTooLarge):
		closed, err = run.Fail(ctx, t, plan.Failure{Code: v1alpha1.ErrorCodeRequestTooLarge}, nil)
	case errors.Is(err, journal.ErrInvalid):
		closed, err = run.endRejected(ctx, t, err)
	}
	if err == nil || ctx.Err() != nil {
		return closed, err
	}
	if run.OnUndelivered != nil {
		run.OnUndelivered(ctx, t, err)
	}
	return nil, &UndeliveredResponse{Since: u.Since, Err: err, dropped: u.dropped, record: record, compose: u.compose}
}

// endRejected ends the Turn because the API server rejects the response itself, and would reject it again.
func (run *Runner) endRejected(ctx context.Context, t turnstate.Turn, cause error) (*journal.Closed, error) {
	sentence := excerpt.Of(
		"The API server rejected the journal entry with the model response: "+cause.Error(),
		turnstate.MaxMessageBytes,
	)
	closed, err := run.end(ctx, t, turnstate.Failed(plan.Failure{Code: v1alpha1.ErrorCodeProcessingError}, sentence), nil)
	if err != nil {
		return nil, fmt.Errorf("%w (after: %w)", err, cause)
	}
	return closed, nil
}

// ReasonInPlace runs the open reason step to its end as Reason does, for callers without other work: it waits for the
// next attempt of a model, and for the journal to accept the response. It ends with the context, and when the journal
// is damaged. earlier is what the call continues after; nil for nothing.
func (run *Runner) ReasonInPlace(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, earlier *Backoff,
) (*journal.Closed, error) {
	closed, err := run.ReasonAfter(ctx, t, c, earlier)
	for backoff := (*Backoff)(nil); errors.As(err, &backoff); {
		if paused := run.caller().WaitFor(ctx, backoff.Backoff); paused != nil {
			return nil, paused
		}
		closed, err = run.ReasonAfter(ctx, t, c, backoff)
	}
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		var undelivered *UndeliveredResponse
		if !errors.As(err, &undelivered) || errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrFormat) {
			return closed, err
		}
		if backoff.Wait(ctx, delay) != nil {
			return nil, err
		}
		closed, err = run.Deliver(ctx, t, undelivered)
	}
}
