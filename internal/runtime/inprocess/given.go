package inprocess

import (
	"context"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
)

// given is a result, an error or a decision for a call of a Turn.
type given struct {
	result *v1alpha1.ToolResult
	// reply gets nil when it has become part of the Turn, or why it never will.
	reply chan error
}

// RefusedError is why an answer to a call is not accepted. Reason and Message are those of the condition Accepted of a
// ToolResult.
type RefusedError struct {
	// Reason in CamelCase, and Message for people.
	Reason, Message string
}

// Error is the message.
func (e *RefusedError) Error() string {
	return e.Message + " (" + e.Reason + ")"
}

// judge returns why a Turn in this state does not accept it; nil if it does. An answer that is too early is refused as
// well: it is not kept until the call waits.
func (g *given) judge(turn *v1alpha1.Turn) error {
	if said := toolresult.Judge(g.result, turn); said.Reason != "" {
		return &RefusedError{Reason: said.Reason, Message: said.Message}
	}
	return nil
}

// Give passes a ToolResult to the Turn that it names, and then waits for that Turn as Run does (CLIENT-04). The error
// is a *RefusedError if the Turn does not accept it. The answer is in the journal when Give returns without an error,
// even if the Turn waits for more.
func (l *Loop) Give(ctx context.Context, result *v1alpha1.ToolResult) (*v1alpha1.Turn, error) {
	r, err := l.find(result.Spec.TurnRef.Name)
	if err != nil {
		return nil, err
	}
	g := &given{result: result, reply: make(chan error, 1)}
	l.mu.Lock()
	refused := r.err
	if refused == nil {
		refused = g.judge(r.shown)
	}
	if refused != nil {
		l.mu.Unlock()
		return nil, refused
	}
	r.inbox, r.waits = append(r.inbox, g), false
	r.alert()
	l.mu.Unlock()
	select {
	case err := <-g.reply:
		if err != nil {
			return nil, err
		}
		return l.await(ctx, r)
	case <-l.life.Done():
		return nil, ErrStopped
	case <-ctx.Done():
		return nil, fmt.Errorf(
			"giving Turn %s a result for call %s: %w",
			result.Spec.TurnRef.Name,
			result.Spec.CallID,
			context.Cause(ctx),
		)
	}
}

// open takes the new answers from the inbox.
func (a *act) open() []*given {
	a.loop.mu.Lock()
	defer a.loop.mu.Unlock()
	inbox := a.inbox
	a.inbox = nil
	return inbox
}

// takeGiven accepts answers for the calls that wait for them, as the Turn reconciler does: those that complete the step
// go into the entry that closes it, and the others are appended to the journal on their own (CLIENT-04). An approval
// never completes a step.
func (a *act) takeGiven(ctx context.Context) (*journal.Closed, error) {
	if err := a.readSettled(ctx); err != nil {
		return nil, err
	}
	if !host.Waits(a.hostTurn()) {
		a.skipClientCalls()
	}
	a.timeOut(a.loop.Clock.Now())
	offered := map[string]*given{}
	var order []*given
	for _, g := range a.open() {
		id := g.result.Spec.CallID
		err := g.judge(a.turn)
		if err == nil && offered[id] != nil {
			err = &RefusedError{
				Reason:  v1alpha1.ReasonAlreadyAnswered,
				Message: fmt.Sprintf("Another ToolResult answered call %s first.", id),
			}
		}
		if err != nil {
			g.reply <- err
			continue
		}
		offered[id] = g
		order = append(order, g)
	}
	missing, approves := len(a.calls())-len(a.outcomes), false
	for _, g := range order {
		approves = approves || g.result.Spec.Decision == v1alpha1.DecisionApprove
	}
	complete := missing == len(order) && !approves
	for i, g := range order {
		if complete {
			a.take(host.SettledCallOf(g.result))
			g.reply <- nil
			continue
		}
		ref, closed, err := a.loop.Host.Keep(ctx, a.hostTurn(), host.SettledCallOf(g.result), a.results())
		if err != nil || closed != nil {
			for _, left := range order[i:] {
				left.reply <- overtaken(left, err)
			}
			return closed, err
		}
		a.settled[ref.Call.ID] = ref
		a.take(ref.Call)
		g.reply <- nil
	}
	return nil, nil
}

// overtaken is why an answer could not be appended to the journal.
func overtaken(g *given, err error) error {
	if err != nil {
		return err
	}
	return &RefusedError{
		Reason:  v1alpha1.ReasonCallClosed,
		Message: fmt.Sprintf("Call %s waits for no result any more. Its step was closed meanwhile.", g.result.Spec.CallID),
	}
}

// readSettled reads the results, outcomes and decisions of this step from the journal, once.
func (a *act) readSettled(ctx context.Context) error {
	if a.settled != nil {
		return nil
	}
	a.settled = map[string]journal.SettledRef{}
	plan := a.turn.Status.Plan
	refs, err := a.loop.Host.Log.Settled(ctx, host.JournalOf(a.session()), a.turn.UID, plan.Step, plan.OpenedAt)
	if err != nil {
		return fmt.Errorf("reading the results in the journal: %w", err)
	}
	a.results().Adopt(refs)
	for _, ref := range refs {
		if host.GivenByOthers(ref.Call) {
			a.settled[ref.Call.ID] = ref
			a.take(ref.Call)
		}
	}
	for i, call := range a.calls() {
		if a.done(call) {
			host.Describe(&a.calls()[i], a.outcomes[call.ID])
		}
	}
	return nil
}

// take records the result or decision for a call.
func (a *act) take(call journal.SettledCall) {
	for i := range a.calls() {
		shown := &a.calls()[i]
		if shown.ID != call.ID || a.done(*shown) {
			continue
		}
		a.sources[call.ID] = call.Source
		switch {
		case call.Decision == v1alpha1.DecisionReject:
			a.settle(i, tool.Rejected())
		case call.Decision == v1alpha1.DecisionApprove && tool.Unapproved(*shown):
			tool.Approve(shown)
		case call.Decision == "":
			a.settle(i, host.ClientOutcome(call))
		}
	}
}

// skipClientCalls settles the client calls of a Session whose hints exclude client results (TURN-11).
func (a *act) skipClientCalls() {
	for i, call := range a.calls() {
		if call.Executor == v1alpha1.ToolExecutorClient && !a.done(call) {
			a.settle(i, host.NoClient())
		}
	}
}

// timeOut ends the calls without a decision in time.
func (a *act) timeOut(now time.Time) {
	for i, call := range a.calls() {
		switch {
		case a.done(call) || !tool.Unapproved(call) || call.ApproveBy == nil:
		case now.Before(call.ApproveBy.Time):
			a.alarmAt = earlier(a.alarmAt, call.ApproveBy.Time)
		default:
			a.settle(i, tool.ApprovalTimedOut())
		}
	}
}
