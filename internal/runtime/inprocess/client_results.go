package inprocess

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// submission is a result, an error or a decision for a call of a Turn.
type submission struct {
	result *v1alpha1.ToolResult
	// reply gets nil when the journal has it, or why it never will.
	reply chan error
}

// RefusedError reports that a Turn does not accept a result or decision. Reason and Message are those of the condition
// Accepted of a ToolResult.
type RefusedError struct {
	// Reason in CamelCase, and Message for people.
	Reason, Message string
}

// Error is the message.
func (e *RefusedError) Error() string {
	return e.Message + " (" + e.Reason + ")"
}

// validate returns why a Turn in this state does not accept it; nil if it does. A result that is too early is refused
// as well: it is not kept until the call waits.
func (g *submission) validate(turn *v1alpha1.Turn) error {
	if acceptance := toolresult.Evaluate(g.result, turn); acceptance.Reason != "" {
		return &RefusedError{Reason: acceptance.Reason, Message: acceptance.Message}
	}
	return nil
}

// ProvideResult passes a ToolResult to the Turn that it names, and then waits for that Turn as Run does (CLIENT-04).
// The error is a *RefusedError if the Turn does not accept it. The journal has the result when ProvideResult returns
// without an error, even if the Turn waits for more.
func (l *Loop) ProvideResult(ctx context.Context, result *v1alpha1.ToolResult) (*v1alpha1.Turn, error) {
	r, err := l.find(result.Spec.TurnRef.Name)
	if err != nil {
		return nil, err
	}
	if result = result.DeepCopy(); result.CreationTimestamp.IsZero() {
		result.CreationTimestamp = metav1.NewTime(l.Clock.Now())
	}
	g := &submission{result: result, reply: make(chan error, 1)}
	l.mu.Lock()
	refused := r.err
	if refused == nil {
		refused = g.validate(r.shown)
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
			"providing Turn %s with the result of call %s: %w",
			result.Spec.TurnRef.Name,
			result.Spec.CallID,
			context.Cause(ctx),
		)
	}
}

// drainInbox returns the new submissions, and empties the inbox.
func (a *acting) drainInbox() []*submission {
	a.loop.mu.Lock()
	defer a.loop.mu.Unlock()
	inbox := a.inbox
	a.inbox = nil
	return inbox
}

// collect offers the submissions that the Turn may accept: the new ones from the inbox, and those that had no reply
// when the step was read again from the journal.
func (a *acting) collect(round *act.Round) {
	undecided := slices.Concat(a.undecided, a.drainInbox())
	a.undecided = nil
	var offers []act.Offer
	for _, g := range undecided {
		if err := g.validate(a.turn); err != nil {
			g.reply <- err
			continue
		}
		a.undecided = append(a.undecided, g)
		offers = append(offers, a.offer(g.result))
	}
	now := a.loop.Clock.Now()
	round.Offer(a.step.Accept(a.calls(), offers, now), now)
}

// offer returns the offer of a ToolResult for one of the calls.
func (a *acting) offer(result *v1alpha1.ToolResult) act.Offer {
	index := slices.IndexFunc(a.calls(), func(call v1alpha1.ToolCall) bool { return call.ID == result.Spec.CallID })
	return act.Offer{
		Index:  index,
		Result: result,
		Binds:  toolresult.Binds(result, a.turn, &a.calls()[index]),
		Call:   turnstate.SettledCallOf(result, a.calls()[index]),
	}
}

// keep appends an offer to the journal.
func (a *acting) keep(ctx context.Context, round *act.Round, o act.Offer) (*journal.Closed, error) {
	ref, closed, err := a.loop.Steps.Keep(ctx, a.turnState(), o.Call, a.step)
	if err != nil || closed != nil {
		return closed, err
	}
	round.SetRecorded(o.Index, ref)
	return nil, nil
}

// replyRecorded replies to the submissions that are in the journal while the step stays open, and to those that the
// Turn does not accept any more: they came too late, or after another one.
func (a *acting) replyRecorded() {
	kept := a.step.RecordedSources(a.calls())
	a.undecided = slices.DeleteFunc(a.undecided, func(g *submission) bool {
		if slices.Contains(kept, g.result.UID) {
			g.reply <- nil
			return true
		}
		refused := g.validate(a.turn)
		if refused != nil {
			g.reply <- refused
		}
		return refused != nil
	})
}

// replyClosed replies to the submissions for a step that is closed: those in the entry that closes it are part of the
// Turn. failed is why the step could not be closed with them; nil if nothing has failed.
func (r *run) replyClosed(closed *journal.Closed, failed error) {
	var sources []types.UID
	if closed != nil {
		sources = step.Sources(closed)
	}
	for _, g := range r.undecided {
		switch {
		case slices.Contains(sources, g.result.UID):
			g.reply <- nil
		case failed != nil:
			g.reply <- failed
		default:
			g.reply <- g.lateError(r.turn)
		}
	}
	r.undecided = nil
}

// lateError returns why a submission is not in the entry that has closed its step. turn is the Turn after that entry.
func (g *submission) lateError(turn *v1alpha1.Turn) error {
	if refused := g.validate(turn); refused != nil {
		return refused
	}
	return &RefusedError{
		Reason: v1alpha1.ReasonCallClosed,
		Message: fmt.Sprintf("Call %s no longer waits for a result. Its step was closed in the meantime.",
			g.result.Spec.CallID),
	}
}

// readSettled reads the results, outcomes and decisions of this step from the journal, once.
func (a *acting) readSettled(ctx context.Context) error {
	if a.step.Read {
		return nil
	}
	plan := a.turn.Status.Plan
	refs, err := a.loop.Steps.Log.Settled(
		ctx,
		turnstate.JournalOf(a.session()),
		a.turn.UID,
		plan.Step,
		plan.OpenedAtOrdinal,
	)
	if err != nil {
		return fmt.Errorf("reading the results in the journal: %w", err)
	}
	a.step.Adopt(refs)
	a.step.Record(refs)
	for i := range a.calls() {
		a.step.Show(&a.calls()[i])
	}
	return nil
}
