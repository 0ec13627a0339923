package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// actScope is the data of one pass over an act step.
type actScope struct {
	*scope
	step    *stepMemory
	config  turnstate.Config
	jobs    map[string]*batchv1.Job
	pods    map[string][]*corev1.Pod
	results []v1alpha1.ToolResult
	// round decides the actions of this pass.
	round *act.Round
}

// calls returns the calls of the step.
func (a *actScope) calls() []v1alpha1.ToolCall {
	return a.turn.Status.ToolCalls
}

// job returns the name of the Job of a call's current attempt, the Job, and whether the cache has it.
func (a *actScope) job(call v1alpha1.ToolCall) (string, *batchv1.Job) {
	name := jobspec.Name(a.turn.UID, a.plan().Step, call.ID, call.Attempt)
	return name, a.jobs[name]
}

// toolSpec returns the Tool that a call was planned with; nil if it is gone. A cache may have left out its texts.
func (a *actScope) toolSpec(call v1alpha1.ToolCall) *v1alpha1.ToolSpec {
	return a.config.Tools.Planned(call).Spec()
}

// act runs the tool calls of the open step: it carries out the decisions of package act, until the step is closed, the
// status has changed or the Turn waits.
func (r *Reconciler) act(ctx context.Context, s *scope) (flow, error) {
	if s.plan().Phase != v1alpha1.PlanPhaseAct {
		return stop, nil
	}
	if err := r.recallOutcomes(ctx, s); err != nil {
		return stop, err
	}
	a, err := r.gather(ctx, s)
	if err != nil {
		return stop, err
	}
	if a.acceptedByFormerLeader() {
		return again, nil
	}
	if a.step.violation != nil {
		return r.endViolation(ctx, a)
	}
	// A call that cannot be observed or started now does not delay the others.
	var failed []error
	for {
		actions := a.round.Next(r.Clock())
		a.deadline(a.round.WakeAt())
		if len(actions) == 0 {
			return stop, errors.Join(failed...)
		}
		for _, action := range actions {
			flow, err := r.carryOut(ctx, a, action)
			if failed = append(failed, err); flow != proceed {
				return flow, errors.Join(failed...)
			}
		}
	}
}

// carryOut carries out one action of the step. An error ends the pass at once unless the flow is proceed.
func (r *Reconciler) carryOut(ctx context.Context, a *actScope, action act.Action) (flow, error) {
	switch does := action.(type) {
	case act.Block:
		return r.block(ctx, a)
	case act.ReadPlan:
		return unless(r.planned(ctx, a.scope))
	case act.Observe:
		return r.observe(ctx, a, does.Index)
	case act.WriteRetry:
		return writeThenRepeat(writeRetry), nil
	case act.ReadJournal:
		return unless(r.readSettled(ctx, a))
	case act.Collect:
		return unless(r.collect(ctx, a))
	case act.Keep:
		return r.keepResult(ctx, a, does.Offer)
	case act.WriteApproval:
		r.show(a, does.Waits)
		return writeThenRepeat(writeApproval), nil
	case act.CheckForMessage:
		return r.abandonWaits(ctx, a)
	case act.CheckSecrets:
		return proceed, r.checkSecrets(ctx, a, does.Indexes)
	case act.StartCalls:
		return r.start(ctx, a, does.Indexes)
	case act.OpenGates:
		return r.openGates(ctx, a, does.Record)
	case act.Close:
		return r.close(ctx, a)
	case act.Rest:
		return r.rest(ctx, a, does)
	}
	return stop, fmt.Errorf("running the tool calls: unknown action %T", action)
}

// unless proceeds, or stops with an error.
func unless(err error) (flow, error) {
	if err != nil {
		return stop, err
	}
	return proceed, nil
}

// gather reads everything that the pass needs for its decisions.
func (r *Reconciler) gather(ctx context.Context, s *scope) (*actScope, error) {
	a := &actScope{scope: s, step: s.memory.of(s.plan().Step)}
	var err error
	if a.config, err = r.config(ctx, s); err != nil {
		return nil, err
	}
	if a.jobs, err = r.jobs(ctx, s.turn, s.plan().Step); err != nil {
		return nil, err
	}
	if a.pods, err = r.pods(ctx, s.turn, s.plan().Step); err != nil {
		return nil, err
	}
	if a.results, err = r.results(ctx, s.turn); err != nil {
		return nil, err
	}
	a.round = act.NewRound(a.step.known, a.calls(), act.Facts{
		Blocked:     a.config.Blocker != nil,
		Begun:       a.begun(),
		Clients:     turnstate.Waits(a.turnState()),
		Concurrency: a.config.Effective.ToolConcurrency,
		Exists:      a.exists,
	})
	return a, nil
}

// begun reports whether a call of the step has begun, or may have.
func (a *actScope) begun() bool {
	return len(a.jobs) > 0 || a.step.requestedJobs() || a.requested() || slices.ContainsFunc(a.calls(), hasSubAgent)
}

// block ends the Turn before any tool of the step has run (BLK-02).
func (r *Reconciler) block(ctx context.Context, a *actScope) (flow, error) {
	if flow := a.withdraw(); flow != proceed {
		return flow, nil
	}
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	closed, err := r.Steps.Block(ctx, a.turnState(), a.config.Blocker, known)
	if err != nil {
		return stop, err
	}
	a.step.closed = closed
	return again, nil
}

// settle records the end of a call.
func (a *actScope) settle(index int, outcome tool.Outcome) {
	call := &a.turn.Status.ToolCalls[index]
	known := a.step.known.Done(call.ID)
	if outcome = a.step.known.Settle(call, outcome); !known && call.Attempt > 0 {
		countCall(call.Executor, outcome)
	}
}

// exists reports whether a Job of a call may exist.
func (a *actScope) exists(call v1alpha1.ToolCall) bool {
	name, job := a.job(call)
	return job != nil || a.step.job(name).requested
}

// close appends the entry that closes the step.
func (r *Reconciler) close(ctx context.Context, a *actScope) (flow, error) {
	if flow := a.withdraw(); flow != proceed {
		return flow, nil
	}
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	closed, err := r.Steps.Act(ctx, r.steerable(a.scope), known)
	if errors.Is(err, journal.ErrStale) {
		// Another process recorded an outcome or a decision, or claimed a call, that this one does not know: read the
		// journal and fold again.
		a.step.known.Forget(a.calls(), a.base.Status.ToolCalls)
		a.step.stale = true
		return again, nil
	}
	if err != nil {
		return stop, err
	}
	a.step.closed = closed
	return again, nil
}

// show updates phase, counts and conditions of the working copy from its calls. waits reports whether the step only
// waits for others.
func (r *Reconciler) show(a *actScope, waits bool) {
	turnstate.ShowCalls(&a.turn.Status.TurnProgress, a.step.known, waits, a.missingObjects())
	turnstate.SetConditions(&a.turn.Status, a.turn.Generation, nowSeconds(r.Clock()))
}

// rest records the state of the step between two events: outcomes in the journal, once the Turn waits, and changes of
// the status.
func (r *Reconciler) rest(ctx context.Context, a *actScope, does act.Rest) (flow, error) {
	r.show(a, does.Waits)
	r.notifyMissingReference(a.scope)
	// A journal that accepts no entry does not hide that the Turn waits.
	var failed error
	if does.KeepOutcomes {
		failed = r.keepOutcomes(ctx, a)
	}
	r.releaseSlot(a.scope)
	if a.step.closed != nil {
		return again, failed
	}
	if r.shouldWriteProgress(a) {
		return writeThenStop(writeProgress), failed
	}
	return stop, failed
}

// shouldWriteProgress reports whether changes since the last write are to be written: at most once a second, but at
// once if only ToolResults are missing.
func (r *Reconciler) shouldWriteProgress(a *actScope) bool {
	began := a.base.Status.Phase != a.turn.Status.Phase
	next := a.memory.wroteAt.Add(progressInterval)
	if now := r.Clock(); !began && now.Before(next) {
		if !a.statusCurrent() {
			a.deadline(next)
		}
		return false
	}
	return began || r.progressWriteAllowed(a)
}

// statusCurrent reports whether the status has all findings of the pass.
func (a *actScope) statusCurrent() bool {
	return a.base.Status.ObservedGeneration == a.turn.Generation &&
		apiequality.Semantic.DeepEqual(a.base.Status, a.turn.Status)
}

// progressWriteAllowed reports whether changes may be written that only show progress. If not, the Turn is woken when
// they may.
func (r *Reconciler) progressWriteAllowed(a *actScope) bool {
	if a.statusCurrent() {
		return true
	}
	key := a.key()
	if a.step.showing == nil {
		a.step.showing = r.Progress.Request(key.Namespace, func() { r.Wakes.Wake(key) })
	}
	if !a.step.showing.Granted() {
		return false
	}
	a.step.showing = nil
	return true
}
