package inprocess

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// acting is a running act step. A new process can restore all of it from the journal.
type acting struct {
	*run
	// step is the knowledge about the calls, base their status when the process reached the step.
	step *act.Step
	base []v1alpha1.ToolCall
	// config is the Turn's configuration in this round.
	config turnstate.Config
	// runs are the newest attempts of the calls. They write to the journal in line.
	runs []attempt
	line *invocation.Line
	// begun reports whether a call has been started.
	begun bool
	// ended delivers the ends of calls.
	ended chan callEnd
	// alarmAt is the time of the next check of the step; zero for none.
	alarmAt time.Time
}

// attempt is the state of one attempt of a call.
type attempt struct {
	number, round int32
	run           *invocation.Attempt
}

// act carries out the calls of the open act step (PHASE-06).
func (r *run) act(ctx context.Context) (*journal.Closed, error) {
	// Calls that still run when the step is closed are stopped.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The entry just before the step opened it, and has the fields that do not fit into status.
	reason, err := r.loop.Steps.Log.Step(
		ctx,
		turnstate.JournalOf(r.session()),
		r.turn.UID,
		r.turn.Status.Plan.OpenedAtOrdinal-1,
	)
	if err != nil {
		return nil, fmt.Errorf("reading the journal entry of the planned calls: %w", err)
	}
	calls := r.turn.Status.ToolCalls
	a := &acting{
		run:   r,
		step:  &act.Step{Local: true, Planned: reason.Calls},
		base:  r.turn.DeepCopy().Status.ToolCalls,
		runs:  make([]attempt, len(calls)),
		line:  &invocation.Line{},
		ended: make(chan callEnd, len(calls)),
	}
	r.known = a.step
	for {
		closed, err := a.round(ctx)
		if closed == nil && err == nil {
			closed, err = a.wait(ctx)
		}
		if closed != nil && err == nil {
			stop(executor.ErrCallEnded)
		}
		if closed != nil || err != nil {
			return closed, err
		}
	}
}

// round carries out the decisions of package act, until the step is closed or waits.
func (a *acting) round(ctx context.Context) (*journal.Closed, error) {
	a.alarmAt = a.nextLimit()
	if closed, err := a.cutShort(ctx, a.step); closed != nil || err != nil {
		return closed, err
	}
	var err error
	if a.config, err = a.loop.config(ctx, a.session(), a.turn); err != nil {
		return nil, err
	}
	round := act.NewRound(a.step, a.calls(), act.Facts{
		Blocked:     a.config.Blocker != nil,
		Begun:       a.begun,
		Clients:     turnstate.Waits(a.turnState()),
		Concurrency: a.config.Effective.ToolConcurrency,
	})
	for {
		actions := round.Next(a.loop.Clock.Now())
		if len(actions) == 0 {
			a.alarmAt = act.Earlier(a.alarmAt, round.WakeAt())
			return nil, nil
		}
		for _, action := range actions {
			closed, err := a.carryOut(ctx, round, action)
			if closed != nil || err != nil {
				return closed, err
			}
			a.replyRecorded()
		}
	}
}

// carryOut carries out one action. Intents need no write: the status of the Turn is in this process.
func (a *acting) carryOut(ctx context.Context, round *act.Round, action act.Action) (*journal.Closed, error) {
	switch does := action.(type) {
	case act.Block:
		return a.loop.Steps.Block(ctx, a.turnState(), a.config.Blocker, a.step)
	case act.ReadJournal:
		return nil, a.readSettled(ctx)
	case act.Collect:
		a.collect(round)
	case act.Keep:
		return a.keep(ctx, round, does.Offer)
	case act.CheckForMessage:
		return nil, a.lookForMessage(ctx)
	case act.CheckSecrets:
		return nil, a.lookForSecrets(ctx, does.Indexes)
	case act.StartCalls:
		return nil, a.start(ctx, does.Indexes)
	case act.Close:
		return a.close(ctx)
	case act.Rest:
		return a.rest(ctx, does)
	}
	return nil, nil
}

// close appends the entry that closes the step. It returns nil if another process has appended an entry that this one
// does not know: the next round reads it.
func (a *acting) close(ctx context.Context) (*journal.Closed, error) {
	closed, err := a.loop.Steps.Act(ctx, a.turnState(), a.step)
	if !errors.Is(err, journal.ErrStale) {
		return closed, err
	}
	a.step.Forget(a.calls(), a.base)
	return a.round(ctx)
}

// rest shows the state of the step, and appends outcomes to the journal.
func (a *acting) rest(ctx context.Context, does act.Rest) (*journal.Closed, error) {
	turnstate.ShowCalls(&a.turn.Status.TurnProgress, a.step, does.Waits, a.waits())
	if does.KeepOutcomes {
		if closed, err := a.keepOutcomes(ctx); closed != nil || err != nil {
			return closed, err
		}
	}
	a.run.show()
	a.alarmAt = act.Earlier(a.alarmAt, a.nextLimit())
	for _, call := range a.calls() {
		if a.loop.OnPause != nil && call.State == v1alpha1.ToolCallStatePending && call.NotBefore != nil {
			a.loop.OnPause(call.NotBefore.Time)
		}
	}
	return nil, nil
}

// wait waits until something has happened, and receives the ends of calls.
func (a *acting) wait(ctx context.Context) (*journal.Closed, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case end := <-a.ended:
		return a.conclude(end)
	case <-a.alerts:
	case <-a.alarm(ctx, a.alarmAt):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, nil
}

// calls are the calls of the step.
func (a *acting) calls() []v1alpha1.ToolCall {
	return a.turn.Status.ToolCalls
}

// conclude treats the end of an attempt as the end of its call, unless the call may be retried.
func (a *acting) conclude(end callEnd) (*journal.Closed, error) {
	call := &a.calls()[end.index]
	var missing *act.MissingSecret
	if errors.As(end.err, &missing) {
		a.step.Withhold(call, missing, a.loop.Clock.Now())
		return nil, nil
	}
	if end.err != nil || end.Closed != nil {
		return end.Closed, end.err
	}
	if end.Defect != nil {
		a.loop.Log.Error("Failed to run a built-in tool", "error", end.Defect, "turn", a.turn.Name, "call", call.ID,
			"tool", call.Name)
	}
	if end.Asked.Ordinal != 0 {
		turnstate.Ask(a.step, a.calls(), end.index, end.Asked)
		return nil, nil
	}
	if a.step.Done(call.ID) {
		return nil, nil // Another process has carried the call out too, and the journal has its outcome.
	}
	if a.step.Retries(call, end.Outcome, a.loop.Clock.Now()) {
		return nil, nil
	}
	if end.Kept.Ordinal != 0 {
		a.step.Row(call.ID).RecordedOutcome = end.Kept
	}
	a.step.Settle(call, end.Outcome)
	return nil, nil
}

// lookForMessage abandons the waits of the Turn when there is a message of a user for it.
func (a *acting) lookForMessage(ctx context.Context) error {
	pending, _, err := a.loop.Steps.Pending(ctx, a.turnState())
	if err != nil || !turnstate.AnyOfUser(pending) {
		return err
	}
	a.step.Abandon(a.calls())
	return nil
}
