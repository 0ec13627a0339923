package inprocess

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// run is one Turn that was passed to the loop.
type run struct {
	loop   *Loop
	queue  *queue
	number int64

	// The following fields are guarded by the Loop's lock.

	// shown is the Turn as all callers see it.
	shown *v1alpha1.Turn
	// done reports whether the Turn has ended, or the loop abandoned it with err. waits reports whether it waits for
	// ToolResults or a Secret.
	done, waits bool
	err         error
	// cancelled reports whether the Turn is to end.
	cancelled bool
	// caller is the run that this one is a sub-agent of; nil for none. agents are the sub-agents of this one.
	caller *run
	agents []*run
	// inbox holds ToolResults that are not processed yet.
	inbox []*submission
	// changed is closed whenever shown, done or waits change.
	changed chan struct{}

	// alerts wakes the goroutine that works on the Turn.
	alerts chan struct{}

	// The following fields belong to that goroutine.

	// budgets are the changes of Budgets that concern the Turn.
	budgets budget.Notices
	// turn is its working copy.
	turn *v1alpha1.Turn
	// adopted reports whether the open step was opened by another process, which may have closed it as well.
	adopted bool
	// known is the knowledge about the calls of the open step; nil for a step without calls. undecided are the submissions
	// for them that have no reply yet.
	known     *act.Step
	undecided []*submission
}

func newRun(l *Loop, q *queue, turn *v1alpha1.Turn) *run {
	turn = turn.DeepCopy()
	turn.Status = v1alpha1.TurnStatus{}
	if turn.CreationTimestamp.IsZero() {
		turn.CreationTimestamp = metav1.NewTime(l.Clock.Now())
	}
	turnstate.Queue(
		&turn.Status,
		turn.Generation,
		metav1.NewTime(l.Clock.Now()),
		v1alpha1.ReasonQueued,
		turnstate.QueuedMessage,
	)
	return &run{
		loop: l, queue: q, shown: turn, cancelled: turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled,
		changed: make(chan struct{}), alerts: make(chan struct{}, 1),
	}
}

// same reports whether a Turn has the message of this one.
func (r *run) same(turn *v1alpha1.Turn) bool {
	if r.shown.Spec.SessionRef != turn.Spec.SessionRef {
		return false
	}
	input, content := turnstate.MessageOf(r.shown.Spec)
	otherInput, otherContent := turnstate.MessageOf(turn.Spec)
	return input == otherInput && reflect.DeepEqual(content, otherContent)
}

// alert wakes the goroutine that works on the Turn.
func (r *run) alert() {
	select {
	case r.alerts <- struct{}{}:
	default: // It is about to wake.
	}
}

// announce notifies the observers of a change, also those of the Turns that wait for this one. The lock is held.
func (r *run) announce() {
	for of := r; of != nil; of = of.caller {
		close(of.changed)
		of.changed = make(chan struct{})
	}
}

// finish ends the run. The lock is held.
func (r *run) finish(err error) {
	r.done, r.waits, r.err = true, false, err
	for _, g := range r.inbox {
		if err == nil {
			g.reply <- g.validate(r.shown)
		} else {
			g.reply <- err
		}
	}
	r.inbox = nil
	r.announce()
}

// current returns the current Turn, and a channel that is closed when it changes: nil if there is nothing to wait for.
// The error is that of the run.
func (r *run) current() (turn *v1alpha1.Turn, changed <-chan struct{}, err error) {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	if !r.done && !r.idle() {
		changed = r.changed
	}
	return r.shown.DeepCopy(), changed, r.err
}

// over reports whether the run has ended.
func (r *run) over() bool {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	return r.done
}

// toEnd reports whether the Turn was cancelled.
func (r *run) toEnd() bool {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	return r.cancelled
}

// publish shows the working copy to all callers. settled reports whether all ToolResults were processed, so that the
// Turn only waits if its status shows it.
func (r *run) publish(settled bool) {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	r.turn.Status.ObservedGeneration = r.turn.Generation
	r.turn.Status.DeepCopyInto(&r.shown.Status)
	waits := r.turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults ||
		turnstate.WaitsForReference(&r.turn.Status.TurnProgress) ||
		turnstate.WaitsForBudget(&r.turn.Status.TurnProgress)
	r.waits = settled && waits && len(r.inbox) == 0 && !r.cancelled
	r.announce()
}

// drive runs the Turn to its end and lets the next one of the Session begin.
func (r *run) drive() {
	l := r.loop
	l.mu.Lock()
	r.turn = r.shown.DeepCopy()
	l.mu.Unlock()
	err := r.advance(l.life)
	if err != nil && l.life.Err() != nil {
		err = ErrStopped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.finish(err)
	if l.life.Err() == nil {
		r.queue.release()
	}
}

// advance runs the Turn from step to step.
func (r *run) advance(ctx context.Context) error {
	if r.toEnd() {
		now := metav1.NewMicroTime(r.loop.Clock.Now())
		turnstate.Apply(&r.turn.Status, r.turn.Generation, turnstate.CancelledBeforeStart(now), now)
		r.publish(false)
		return nil
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for !turnstate.Finished(&r.turn.Status) {
		closed, failed := r.step(ctx)
		err := failed
		if failed != nil && ctx.Err() == nil {
			closed, err = r.giveUp(ctx, failed)
		}
		if err == nil {
			err = r.project(ctx, closed)
		}
		if ctx.Err() == nil {
			r.replyClosed(closed, failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// giveUp ends a Turn whose step cannot run: there would be no retry, and the Session would stay active (GAP-08). The
// results that are known are recorded with the end.
func (r *run) giveUp(ctx context.Context, cause error) (*journal.Closed, error) {
	r.loop.Log.Error("Failed to run a step; failing the Turn", "error", cause, "turn", r.turn.Name)
	closed, err := r.loop.Steps.Fail(
		ctx,
		r.turnState(),
		plan.Failure{Code: v1alpha1.ErrorCodeProcessingError},
		r.known,
	)
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	return closed, nil
}

// begin opens the first step, unless the journal has the Turn: then it takes over its outcome, or continues it.
func (r *run) begin(ctx context.Context) error {
	session := r.session()
	r.turn.Status.SessionUID = session.UID
	now := metav1.NewMicroTime(r.loop.Clock.Now())
	recalled, err := r.loop.Steps.Recall(ctx, r.turnState(), 0)
	if err != nil {
		return err
	}
	if recalled == nil {
		view, err := r.loop.Steps.Log.View(ctx, turnstate.JournalOf(session), 0)
		if err != nil {
			return fmt.Errorf("reading the journal of Session %s: %w", session.Name, err)
		}
		if view.Head == 0 {
			if err := r.startSession(ctx, session); err != nil {
				return err
			}
		}
		turnstate.Apply(&r.turn.Status, r.turn.Generation, plan.Begin(view.Head+1, now), now)
		r.publish(false)
		return nil
	}
	if open := recalled.Open; open != nil {
		// No other Turn of the Session runs: the process that ran this one has ended.
		r.turn.UID, r.adopted = open.Turn.UID, true
		r.loop.mu.Lock()
		r.shown.UID = open.Turn.UID
		r.loop.mu.Unlock()
		return r.project(ctx, open)
	}
	if recalled.Ended != nil {
		if err := r.endHooks(ctx, recalled.Ended); err != nil {
			return err
		}
	}
	if into := recalled.SteeredInto; into != nil {
		r.turn.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
	}
	turnstate.Apply(&r.turn.Status, r.turn.Generation, recalled.Progress, now)
	if recalled.SameMessage {
		turnstate.AlreadyRan(&r.turn.Status, r.turn.Generation, metav1.NewTime(now.Time))
	}
	r.publish(false)
	return nil
}

// session is the Turn's Session as it is now.
func (r *run) session() *v1alpha1.Session {
	return r.loop.Objects.Session(r.turn.Spec.SessionRef.Name)
}

// turnState is the Turn as its steps see it, with the messages that wait to go into it.
func (r *run) turnState() turnstate.Turn {
	t := turnstate.TurnOf(r.turn, r.session())
	t.Local, t.Steers, t.Budgets = true, r.steers, &r.budgets
	return t
}

// steers are the messages that wait to go into the Turn.
func (r *run) steers(context.Context) ([]turnstate.Steer, error) {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	var steers []turnstate.Steer
	for _, other := range r.queue.steers {
		s := turnstate.Steer{
			Ref:         v1alpha1.JournalTurn{Name: other.shown.Name, UID: other.shown.UID},
			Controls:    other.shown.Spec.Controls,
			SubmittedBy: other.shown.Spec.SubmittedBy,
			Task:        other.shown.Spec.Origin.TaskOf() != nil,
		}
		s.Input, s.Content = turnstate.MessageOf(other.shown.Spec)
		steers = append(steers, s)
	}
	return steers, nil
}

// endHooks runs the hooks at the end of the Turn, if that is what a closed step is (TURN-16).
func (r *run) endHooks(ctx context.Context, closed *journal.Closed) error {
	if !step.EndsTurn(closed) {
		return nil
	}
	config, err := r.loop.config(ctx, r.session(), r.turn)
	if err != nil {
		return err
	}
	return r.loop.Steps.End(ctx, r.turnState(), config, closed)
}

// project writes the decision of a closed step to the status, and ends the Turns whose messages were steered into this
// one.
func (r *run) project(ctx context.Context, closed *journal.Closed) error {
	r.stopSubAgents(ctx, closed)
	if err := r.endHooks(ctx, closed); err != nil {
		return err
	}
	r.loop.Steps.Trace(turnstate.TurnOf(r.turn, r.session()), r.turn.Status.ToolCalls, closed)
	turnstate.Apply(&r.turn.Status, r.turn.Generation, closed.Transition, closed.Time)
	for _, steered := range closed.Steered {
		if err := r.endSteered(ctx, steered, closed); err != nil {
			return err
		}
	}
	r.publish(false)
	return nil
}

// endSteered ends a Turn whose message was steered into this one.
func (r *run) endSteered(ctx context.Context, steered journal.RecordedTurn, closed *journal.Closed) error {
	l := r.loop
	l.mu.Lock()
	other := l.turns[steered.Name]
	var message *v1alpha1.Turn
	if other != nil && other.shown.UID == steered.UID && !other.done {
		message = other.shown.DeepCopy()
	}
	l.mu.Unlock()
	if message == nil {
		return nil // It was cancelled meanwhile, or another process had it.
	}
	progress, into, err := l.Steps.Steered(ctx, turnstate.TurnOf(message, r.session()), closed.Ordinal)
	if err != nil {
		return err
	}
	if progress == nil {
		return fmt.Errorf("the journal does not show that Turn %s was steered into Turn %s", steered.Name, r.turn.Name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.queue.remove(other)
	other.shown.Status.SessionUID = r.turn.Status.SessionUID
	other.shown.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
	turnstate.Apply(&other.shown.Status, other.shown.Generation, *progress, metav1.NewMicroTime(l.Clock.Now()))
	other.finish(nil)
	return nil
}
