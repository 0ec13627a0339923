package turn

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// session reads the Turn's Session. If it does not exist yet, the Turn waits and names it in a condition; a Turn whose
// Session is gone is deleted.
func (r *Reconciler) session(ctx context.Context, s *scope) (flow, error) {
	if s.turn.Status.SessionUID == "" {
		s.turn.Status.SessionUID = s.memory.session
	}
	session := &v1alpha1.Session{}
	key := types.NamespacedName{Namespace: s.turn.Namespace, Name: s.turn.Spec.SessionRef.Name}
	err := r.Client.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return stop, err
	}
	if err == nil {
		s.session = session
	}
	switch {
	case orphaned(s.turn, s.session):
		return r.deleteOrphan(ctx, s, key)
	case s.session != nil, queue.Finished(s.turn):
		return proceed, nil
	case s.turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled:
		return r.cancelQueued(ctx, s)
	}
	reason, message := queue.Reason(nil, s.turn, nil, 0)
	return r.waitInQueue(s, reason, message), nil
}

// admission passes only the active Turn of the Session. The others cost nothing until they are admitted.
func (r *Reconciler) admission(ctx context.Context, s *scope) (flow, error) {
	if s.active() {
		return proceed, nil
	}
	if s.plan() != nil {
		return stop, nil
	}
	if s.turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled {
		return r.cancelQueued(ctx, s)
	}
	limit := r.Turns.Limit(s.session.UID)
	next, err := r.next(ctx, s, limit)
	if err != nil {
		return stop, err
	}
	reason, message := queue.Reason(s.session, s.turn, next, limit)
	if queue.Finished(s.turn) {
		return stop, nil
	}
	return r.waitInQueue(s, reason, message), nil
}

// waitInQueue reports why the Turn has not begun, and records an Event once a reference has been missing for a while.
func (r *Reconciler) waitInQueue(s *scope, reason, message string) flow {
	r.notifyMissing(s, reason)
	if s.session != nil && queue.States(s.turn, reason, message) {
		return stop
	}
	turnstate.Queue(&s.turn.Status, s.turn.Generation, metav1.NewTime(r.Clock()), reason, message)
	return writeThenStop(writeWaiting)
}

// next returns the next Turn of a Session that cannot run any now, or whose Turn states why it waits; nil for any other
// Session, whose queue is not read.
func (r *Reconciler) next(ctx context.Context, s *scope, limit int64) (*v1alpha1.Turn, error) {
	if limit == 0 && !queue.Blocked(s.session) && len(s.turn.Status.Conditions) == 0 {
		return nil, nil
	}
	turns, err := r.turnsOf(ctx, client.ObjectKeyFromObject(s.session), fieldindex.OpenTurn)
	if err != nil {
		return nil, err
	}
	return queue.Next(turns), nil
}

// lookUp checks the journal once, for an act step that this process has not opened itself, for an entry that closes it.
// A reason step does so in its activity, before any money is spent, or before it waits.
func (r *Reconciler) lookUp(ctx context.Context, s *scope) (flow, error) {
	s.invalidateIfSteered()
	if s.plan().Phase != v1alpha1.PlanPhaseAct {
		return proceed, nil
	}
	return proceed, r.findClosed(ctx, s)
}

// findClosed looks for the entry that closes the open step, or else for the outcomes of its calls that the journal has,
// unless this process knows that it had none to find.
func (r *Reconciler) findClosed(ctx context.Context, s *scope) error {
	memory := s.memory.of(s.plan().Step)
	if memory.lookedUp || memory.closed != nil {
		return nil
	}
	closed, settled, err := r.Steps.Log.FindSettled(ctx, s.journal(), s.turn.UID, s.plan().Step, s.plan().OpenedAtOrdinal)
	if err != nil {
		return err
	}
	memory.known.Adopt(settled)
	memory.closed, memory.lookedUp = closed, true
	return nil
}

// project writes the transition of a closed step into the status, once its preconditions are met.
func (r *Reconciler) project(ctx context.Context, s *scope) (flow, error) {
	step := s.memory.of(s.plan().Step)
	if step.closed == nil {
		return proceed, nil
	}
	// The hooks at the end of the Turn run after everything else has ended.
	if s.plan().Phase == v1alpha1.PlanPhaseAct && !r.Activities.Known(s.endKey(step.closed)) {
		r.Activities.Cancel(s.turn.UID)
		if err := r.acceptResults(ctx, s, step.closed); err != nil {
			return stop, err
		}
		stopped, err := r.stopTools(ctx, s, step)
		if err != nil {
			return stop, err
		}
		agentsStopped, err := r.stopSubAgents(ctx, s, step)
		if err != nil || !stopped || !agentsStopped {
			return stop, err
		}
	}
	closed := step.closed
	if flow, err := r.endHooks(ctx, s, closed); err != nil || flow != proceed {
		return flow, err
	}
	r.wakeSteered(s, closed)
	s.closed = closed
	turnstate.Apply(&s.turn.Status, s.turn.Generation, closed.Transition, closed.Time)
	return writeThenRepeat(writeTransition), nil
}

// cancel closes the open step when the user cancels the Turn, or has deleted it and a foreign finalizer still holds it.
func (r *Reconciler) cancel(ctx context.Context, s *scope) (flow, error) {
	end := r.Steps.Cancel
	switch {
	case !s.turn.DeletionTimestamp.IsZero():
		end = r.Steps.Deleted
	case s.turn.Spec.DesiredState != v1alpha1.DesiredStateCancelled:
		return proceed, nil
	}
	r.Activities.Cancel(s.turn.UID)
	step := s.memory.of(s.plan().Step)
	step.dropUndelivered()
	if flow := s.withdrawFenced(); flow != proceed {
		return flow, nil
	}
	known, err := r.known(ctx, s)
	if err != nil {
		return stop, err
	}
	closed, err := end(ctx, s.turnState(), known)
	if err != nil {
		return stop, err
	}
	step.closed = closed
	return again, nil
}

// reason runs the model call of the open step as an activity and accepts its decision.
func (r *Reconciler) reason(ctx context.Context, s *scope) (flow, error) {
	if s.plan().Phase != v1alpha1.PlanPhaseReason {
		return proceed, nil
	}
	step := s.memory.of(s.plan().Step)
	if flow, err := r.deliver(ctx, s, step); err != nil || flow != proceed {
		return flow, err
	}
	key := s.stepKey()
	if r.Activities.Known(key) {
		// The call passed the gates when it began: recording its result waits for none of them.
		return r.callModel(ctx, s, step, key, executor.Need{}, nil)
	}
	config, err := r.config(ctx, s)
	if err != nil {
		return stop, err
	}
	if flow, err := r.awaitStart(ctx, s, step, config); err != nil || flow != proceed {
		return flow, err
	}
	first, err := r.planFirst(ctx, s, config)
	if err != nil {
		return stop, err
	}
	if first {
		s.fenced = true
		return writeThenRepeat(writePlan), nil
	}
	turn := r.steerable(s)
	earlier, logger := step.earlier(), ctrl.LoggerFrom(ctx)
	step.readySince = turnstate.ReadySince(config)
	turn.StoreFirst = step.appendRefused || !step.startedHere && !r.Steps.Log.Stored()
	turn.ConfigBytes = config.LeftOutBytes()
	return r.callModel(ctx, s, step, key, r.needToReason(s, turn), func(ctx context.Context) (any, error) {
		return r.Steps.ReasonAfter(ctrl.LoggerInto(ctx, logger), turn, config, earlier)
	})
}

// planFirst reports whether the plan must be in status before the step begins: a hook may have effects, and so does a
// reservation in a Budget.
func (r *Reconciler) planFirst(ctx context.Context, s *scope, config turnstate.Config) (bool, error) {
	if s.base.Status.Plan != nil {
		return false, nil
	}
	if len(hook.Of(config.Hooks, hook.UserPromptSubmit)) > 0 {
		return true, nil
	}
	return r.Steps.Budgets.Counts(ctx, s.turnState().Payer())
}

// awaitStart passes a model call that may start now. Each of these gates checks the journal before it holds the call
// back.
func (r *Reconciler) awaitStart(
	ctx context.Context,
	s *scope,
	step *stepMemory,
	config turnstate.Config,
) (flow, error) {
	if flow, err := r.backsOff(ctx, s, step); err != nil || flow != proceed {
		return flow, err
	}
	if flow, err := r.awaitPolicies(ctx, s, config); err != nil || flow != proceed {
		return flow, err
	}
	if flow, err := r.awaitKey(ctx, s, step, config); err != nil || flow != proceed {
		return flow, err
	}
	if flow, err := r.awaitBudget(ctx, s, step, config); err != nil || flow != proceed {
		return flow, err
	}
	if flow, err := r.awaitRoom(ctx, s, step); err != nil || flow != proceed {
		return flow, err
	}
	mayStart, err := r.mayStart(ctx, s)
	if err != nil || mayStart {
		return proceed, err
	}
	step.awaitsSlot = true
	return r.findClosedOrStop(ctx, s)
}

// findClosedOrStop ends a pass whose step must wait, unless the journal has the entry that closes the step: then the
// pass starts over and projects it.
func (r *Reconciler) findClosedOrStop(ctx context.Context, s *scope) (flow, error) {
	if err := r.findClosed(ctx, s); err != nil {
		return stop, err
	}
	if s.memory.of(s.plan().Step).closed != nil {
		return again, nil
	}
	return stop, nil
}

// callModel runs the model call of the open step, or takes its result.
func (r *Reconciler) callModel(
	ctx context.Context, s *scope, step *stepMemory, key executor.Key, need executor.Need, call executor.Func,
) (flow, error) {
	value, done, err := r.do(s, step, key, need, call)
	if err != nil {
		return r.reasonFailed(ctx, s, step, err)
	}
	if !done {
		return stop, nil
	}
	closed, ok := value.(*journal.Closed)
	if !ok {
		return stop, fmt.Errorf("unexpected result of the model call: %T", value)
	}
	step.closed = closed
	return again, nil
}

// maxPanics is how often a model call may panic before the Turn ends: each may have been paid for.
const maxPanics = 3

// reasonFailed handles a model call without a decision: a response that could not be appended is kept, and a defect of
// the manager ends the Turn instead of costing money again and again.
func (r *Reconciler) reasonFailed(ctx context.Context, s *scope, memory *stepMemory, cause error) (flow, error) {
	var undelivered *step.UndeliveredResponse
	var panicked *executor.PanicError
	var backoff *step.Backoff
	var keyless *turnstate.MissingKey
	var tooLarge *fairshare.TooLargeError
	var refusal *budget.Refusal
	var held *step.Held
	var limited *step.RateLimited
	// The call may have closed the step before it failed. One that is to be repeated later has checked the journal, and
	// has appended nothing.
	memory.lookedUp = false
	switch {
	case errors.As(cause, &tooLarge):
		return r.refuse(ctx, s, memory, tooLarge)
	case errors.As(cause, &limited):
		memory.lookedUp = true
		return r.handleRateLimit(ctx, s, memory, limited)
	case errors.As(cause, &backoff):
		memory.backoff, memory.continues, memory.limited, memory.lookedUp = backoff, nil, nil, true
		delete(memory.pauses, s.stepKey())
		return r.backsOff(ctx, s, memory)
	case errors.As(cause, &keyless):
		// The key may be that of a Model which the earlier attempts have passed over.
		memory.continues, memory.limited, memory.lookedUp = nil, nil, true
		return r.handleMissingKey(s, memory, keyless), nil
	case errors.As(cause, &refusal):
		memory.lookedUp = true
		if errors.As(cause, &held) {
			memory.continues, memory.limited = held.Earlier, nil
		}
		return r.refused(ctx, s, memory, refusal)
	case errors.As(cause, &undelivered):
		memory.undelivered = undelivered
	case errors.As(cause, &panicked):
		memory.panics++
		if memory.panics < maxPanics {
			return stop, cause
		}
		ctrl.LoggerFrom(ctx).Error(cause, "Model call panicked repeatedly; failing the Turn")
		closed, err := r.Steps.Fail(ctx, s.turnState(), plan.Failure{Code: v1alpha1.ErrorCodeProcessingError}, memory.known)
		if err != nil {
			return stop, err
		}
		memory.closed = closed
		return again, nil
	}
	return stop, cause
}
