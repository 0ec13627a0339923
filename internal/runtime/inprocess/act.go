package inprocess

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// act is a running act step. A new process can find out all of it from the journal.
type act struct {
	*run
	// config is the Turn's configuration in this round.
	config host.Config
	// planned is the bulk of the calls, by call id.
	planned map[string]journal.PlannedCall
	// outcomes are the ends of calls, sources the ToolResults behind them, kept and settled those in the journal, by
	// call id.
	outcomes map[string]tool.Outcome
	sources  map[string]types.UID
	kept     map[string]journal.SettledRef
	settled  map[string]journal.SettledRef
	// withheld are the calls, by id, that wait for a Secret.
	withheld map[string]*host.Withheld
	// short are the calls, by id, whose texts only the journal has. held is the number of outcomes that only memory has,
	// heldSince when it last changed.
	short     map[string]bool
	held      int
	heldSince time.Time
	// pins compares Tools with those that the calls were planned with.
	pins tool.Pins
	// line serializes the journal writes of the calls.
	line *host.Line
	// begun reports whether a call has been started.
	begun bool
	// ended delivers the ends of calls.
	ended chan callEnd
	// alarmAt is the time of the next check of the step; zero for none.
	alarmAt time.Time
}

// act carries out the calls of the open act step (PHASE-06).
func (r *run) act(ctx context.Context) (*journal.Closed, error) {
	// Calls that still run when the step is closed are stopped.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a := &act{
		run:      r,
		planned:  map[string]journal.PlannedCall{},
		outcomes: map[string]tool.Outcome{},
		sources:  map[string]types.UID{},
		kept:     map[string]journal.SettledRef{},
		short:    map[string]bool{},
		withheld: map[string]*host.Withheld{},
		pins:     tool.Pins{},
		line:     &host.Line{},
		ended:    make(chan callEnd, len(r.turn.Status.ToolCalls)),
	}
	// The entry just before the step opened it, and has the fields that do not fit into status.
	reason, err := r.loop.Host.Log.Step(ctx, host.JournalOf(r.session()), r.turn.UID, r.turn.Status.Plan.OpenedAt-1)
	if err != nil {
		return nil, fmt.Errorf("reading the entry that planned the calls: %w", err)
	}
	for _, call := range reason.Calls {
		a.planned[call.ID] = call
	}
	for {
		closed, err := a.round(ctx)
		if closed != nil || err != nil {
			return closed, err
		}
		if closed, err = a.wait(ctx); closed != nil || err != nil {
			return closed, err
		}
	}
}

// round accepts new results, starts the calls that may start, and closes the step when every call has its result.
func (a *act) round(ctx context.Context) (*journal.Closed, error) {
	a.alarmAt = a.nextLimit()
	if closed, err := a.cutShort(ctx, a.results()); closed != nil || err != nil {
		return closed, err
	}
	var err error
	if a.config, err = a.loop.config(a.session(), a.turn); err != nil {
		return nil, err
	}
	if a.config.Blocker != nil && !a.begun {
		// Nothing of the step has run yet, and nothing of it will (BLK-02).
		return a.loop.Host.Block(ctx, a.hostTurn(), a.config.Blocker, a.results())
	}
	a.settleRefused()
	if closed, err := a.takeGiven(ctx); closed != nil || err != nil {
		return closed, err
	}
	if err := a.giveUpWaiting(ctx); err != nil {
		return nil, err
	}
	if a.config.Blocker == nil {
		if err := a.lookForSecrets(ctx); err != nil {
			return nil, err
		}
		a.start(ctx)
	}
	if a.complete() {
		closed, err := a.loop.Host.Act(ctx, a.hostTurn(), a.results())
		if !errors.Is(err, journal.ErrStale) {
			return closed, err
		}
		// Another process appended an entry that this one does not know.
		a.forgetOthers()
		return a.round(ctx)
	}
	if a.config.Blocker != nil && !a.underWay() {
		return a.loop.Host.Block(ctx, a.hostTurn(), a.config.Blocker, a.results())
	}
	a.update()
	if closed, err := a.keepOutcomes(ctx); closed != nil || err != nil {
		return closed, err
	}
	a.run.show()
	a.alarmAt = earlier(a.alarmAt, a.nextLimit())
	return nil, nil
}

// wait waits until something has happened, and receives the ends of calls.
func (a *act) wait(ctx context.Context) (*journal.Closed, error) {
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
func (a *act) calls() []v1alpha1.ToolCall {
	return a.turn.Status.ToolCalls
}

// results returns the known results of the calls.
func (a *act) results() host.ActResults {
	return host.ActResults{
		Outcomes: a.outcomes, Settled: a.settled, Kept: a.kept, Dropped: a.short, Sources: a.sources, Planned: a.planned,
	}
}

// settle records the end of a call.
func (a *act) settle(index int, outcome tool.Outcome) {
	call := &a.calls()[index]
	outcome = tool.WithEarlierAttempts(*call, outcome)
	a.outcomes[call.ID] = outcome
	delete(a.short, call.ID)
	host.Describe(call, outcome)
}

// done reports whether a call has its result.
func (a *act) done(call v1alpha1.ToolCall) bool {
	_, done := a.outcomes[call.ID]
	return done
}

// complete reports whether every call has its result.
func (a *act) complete() bool {
	return len(a.outcomes) == len(a.calls())
}

// settleRefused settles the calls that are not to be carried out.
func (a *act) settleRefused() {
	for i, call := range a.calls() {
		if call.Executor == v1alpha1.ToolExecutorNone && !a.done(call) {
			a.settle(
				i,
				tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Reason: call.Reason, Error: a.planned[call.ID].Refusal},
			)
		}
	}
}

// underWay reports whether a call that was started has no result yet.
func (a *act) underWay() bool {
	for _, call := range a.calls() {
		if call.State == v1alpha1.ToolCallStateRunning && !a.done(call) {
			return true
		}
	}
	return false
}

// conclude treats the end of an attempt as the end of its call, unless the call may be retried.
func (a *act) conclude(end callEnd) (*journal.Closed, error) {
	call := &a.calls()[end.index]
	var missing *host.Withheld
	if errors.As(end.err, &missing) {
		a.withhold(call, missing)
		return nil, nil
	}
	if end.err != nil || end.Closed != nil {
		return end.Closed, end.err
	}
	if a.done(*call) {
		return nil, nil // Another process has carried the call out too, and the journal has its outcome.
	}
	if end.Outcome.Retryable && !tool.AtMostOnce(*call) && call.Attempt < tool.MaxAttempts {
		notBefore := metav1.NewTime(a.loop.Clock.Now().Add(tool.RetryPause(call.Attempt)))
		call.NotBefore = &notBefore
		call.Attempt++
		call.State, call.Reason = v1alpha1.ToolCallStatePending, end.Outcome.Reason
		return nil, nil
	}
	if end.Kept.Ordinal != 0 {
		a.kept[call.ID] = end.Kept
	}
	a.settle(end.index, end.Outcome)
	return nil, nil
}

// giveUpWaiting abandons the waits of the Turn when there is a message for it, so that the next model call can read the
// message (CLIENT-05).
func (a *act) giveUpWaiting(ctx context.Context) error {
	t := a.hostTurn()
	if !host.WaitsForOthers(t, a.calls(), a.outcomes, a.config.Effective.ToolConcurrency) {
		return nil
	}
	pending, _, err := a.loop.Host.Pending(ctx, t)
	if err != nil || len(pending) == 0 {
		return err
	}
	for i, call := range a.calls() {
		if !a.done(call) && call.State == v1alpha1.ToolCallStateWaiting {
			a.settle(i, host.GivenUp(call))
		}
	}
	return nil
}

// update updates the phase and the counts of the status from the calls.
func (a *act) update() {
	waits := host.WaitsForOthers(a.hostTurn(), a.calls(), a.outcomes, a.config.Effective.ToolConcurrency)
	host.Progress(&a.turn.Status.TurnProgress, a.outcomes, waits, host.ReferenceWaits(a.calls(), a.withheld))
}

// forgetOthers drops the known results and decisions, so that the journal is read again.
func (a *act) forgetOthers() {
	a.settled = nil
	for i, call := range a.calls() {
		if call.Executor != v1alpha1.ToolExecutorClient && !tool.Unapproved(call) {
			continue
		}
		delete(a.outcomes, call.ID)
		delete(a.short, call.ID)
		delete(a.sources, call.ID)
		shown := &a.calls()[i]
		shown.State, shown.Reason, shown.Preview = v1alpha1.ToolCallStateWaiting, "", ""
		if tool.Unapproved(call) {
			shown.Reason = v1alpha1.ReasonApproval
		}
	}
}
