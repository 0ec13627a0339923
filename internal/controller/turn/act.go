package turn

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/projection"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// actScope is what one pass over an act step works on.
type actScope struct {
	*scope
	step    *stepMemory
	config  host.Config
	jobs    map[string]*batchv1.Job
	pods    map[string][]*corev1.Pod
	results []v1alpha1.ToolResult
	pins    tool.Pins
	// unsure are the indexes of calls that could not be observed in this pass.
	unsure map[int]bool
	// retry reports whether a call has a new attempt that is not in the API server's status yet, approved whether one
	// has its first attempt.
	retry, approved bool
}

// calls returns the calls of the step.
func (a *actScope) calls() []v1alpha1.ToolCall {
	return a.turn.Status.ToolCalls
}

// job returns the name of the Job of a call's current attempt, the Job, and whether the cache has it.
func (a *actScope) job(call v1alpha1.ToolCall) (string, *batchv1.Job) {
	name := tool.JobName(a.turn.UID, a.plan().Step, call.ID, call.Attempt)
	return name, a.jobs[name]
}

// toolSpec returns the Tool that a call was planned with; nil if it is gone. A cache may have left out its texts.
func (a *actScope) toolSpec(call v1alpha1.ToolCall) *v1alpha1.ToolSpec {
	definition := a.config.Tools[call.Name]
	if !a.pins.Hold(call, definition) {
		return nil
	}
	return &definition.Spec
}

// wholeTool returns the Tool that a call was planned with, with all its texts; nil if it is gone or has changed.
func (a *actScope) wholeTool(ctx context.Context, call v1alpha1.ToolCall) (*v1alpha1.Tool, error) {
	definition := a.config.Tools[call.Name]
	if !a.pins.Hold(call, definition) {
		return nil, nil
	}
	return wholeTool(ctx, a.config, call, definition)
}

// wholeTool returns the texts of a Tool that a call was planned with; nil if it has changed.
func wholeTool(
	ctx context.Context, config host.Config, call v1alpha1.ToolCall, cached *v1alpha1.Tool,
) (*v1alpha1.Tool, error) {
	definition, err := config.Texts.Tool(ctx, cached)
	if err != nil {
		return nil, err
	}
	if !(tool.Pins{}).Hold(call, definition) {
		return nil, nil
	}
	return definition, nil
}

// act runs the tool calls of the open step: observe running calls, accept ToolResults, start calls, remove scheduling
// gates, and close the step when every call has its result.
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
	if a.takenElsewhere() {
		return again, nil
	}
	if a.config.Blocker != nil && len(a.jobs) == 0 && len(a.step.attempted) == 0 && !a.requested() {
		return r.block(ctx, a)
	}
	// A call that cannot be observed now does not delay the others.
	flow, failed := r.observe(ctx, a)
	if flow == proceed {
		var err error
		flow, err = r.advance(ctx, a)
		failed = errors.Join(failed, err)
	}
	return flow, failed
}

// advance continues the step after the state of each call was observed.
func (r *Reconciler) advance(ctx context.Context, a *actScope) (flow, error) {
	if a.retry {
		// The new attempt is an intent like any other: it is written before it starts.
		return r.write(ctx, a.scope, writeRetry)
	}
	if err := r.takeResults(ctx, a); err != nil {
		return stop, err
	}
	switch {
	case a.step.closed != nil:
		return again, nil
	case a.approved:
		return r.beginApproved(ctx, a)
	}
	if err := r.giveUpWaiting(ctx, a); err != nil {
		return stop, err
	}
	if a.step.closed != nil {
		return again, nil
	}
	flow, failed := r.startOrBlock(ctx, a)
	if flow != proceed {
		return flow, failed
	}
	flow, err := r.openGates(ctx, a)
	if failed = errors.Join(failed, err); flow != proceed {
		return flow, failed
	}
	if a.settled() {
		flow, err = r.close(ctx, a)
	} else {
		flow, err = r.progress(ctx, a)
	}
	return flow, errors.Join(failed, err)
}

// gather reads everything that the pass needs for its decisions.
func (r *Reconciler) gather(ctx context.Context, s *scope) (*actScope, error) {
	a := &actScope{scope: s, step: s.memory.of(s.plan().Step), pins: tool.Pins{}, unsure: map[int]bool{}}
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
	return a, nil
}

// block ends the Turn before any tool of the step has run (BLK-02).
func (r *Reconciler) block(ctx context.Context, a *actScope) (flow, error) {
	if flow, err := r.withdraw(ctx, a.scope, a.step.outcomes); err != nil || flow != proceed {
		return flow, err
	}
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	closed, err := r.Host.Block(ctx, a.hostTurn(), a.config.Blocker, known)
	if err != nil {
		return stop, err
	}
	a.step.closed = closed
	return again, nil
}

// settle records the end of a call.
func (a *actScope) settle(index int, outcome tool.Outcome) {
	call := &a.turn.Status.ToolCalls[index]
	if a.step.unstarted[call.ID] < call.Attempt-1 {
		outcome = tool.WithEarlierAttempts(*call, outcome)
	}
	if _, known := a.step.outcomes[call.ID]; !known && call.Attempt > 0 {
		countCall(call.Executor, outcome)
	}
	if tool.Withdrawable(*call) && outcome.State == v1alpha1.ToolCallStateNotExecuted {
		a.step.unfenced[call.ID] = true
	}
	a.step.outcomes[call.ID] = outcome
	delete(a.step.short, call.ID)
	host.Describe(call, outcome)
}

// settled reports whether every call of the step has its result.
func (a *actScope) settled() bool {
	for _, call := range a.calls() {
		if _, ok := a.step.outcomes[call.ID]; !ok {
			return false
		}
	}
	return true
}

// close appends the entry that closes the step.
func (r *Reconciler) close(ctx context.Context, a *actScope) (flow, error) {
	if flow, err := r.withdraw(ctx, a.scope, a.step.outcomes); err != nil || flow != proceed {
		return flow, err
	}
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	closed, err := r.Host.Act(ctx, r.steerable(a.scope), known)
	if errors.Is(err, journal.ErrStale) {
		// Another process recorded an outcome or a decision, or claimed a call, that this one does not know: read the
		// journal and fold again.
		a.forgetOthers()
		a.step.forgetRequests(a.calls())
		a.step.stale = true
		return again, nil
	}
	if err != nil {
		return stop, err
	}
	a.step.closed = closed
	return again, nil
}

// show updates phase, counts and conditions of the working copy from its calls.
func (r *Reconciler) show(a *actScope) {
	waits := host.WaitsForOthers(a.hostTurn(), a.calls(), a.step.outcomes, a.config.Effective.ToolConcurrency)
	host.Progress(&a.turn.Status.TurnProgress, a.step.outcomes, waits, a.lacks())
	projection.SetConditions(&a.turn.Status, a.turn.Generation, nowSeconds(r.Clock()))
}

// progress records the state of the step between two events: outcomes in the journal, once the Turn waits, and changes
// of the status.
func (r *Reconciler) progress(ctx context.Context, a *actScope) (flow, error) {
	r.show(a)
	r.tellReference(a.scope)
	// A journal that accepts no entry does not hide that the Turn waits.
	failed := r.keepOutcomes(ctx, a)
	r.standBack(a.scope)
	if a.step.closed != nil {
		return again, failed
	}
	return stop, errors.Join(failed, r.writeProgress(ctx, a))
}

// writeProgress writes changes since the last write at most once a second, but at once if only ToolResults are missing.
func (r *Reconciler) writeProgress(ctx context.Context, a *actScope) error {
	began := a.base.Status.Phase != a.turn.Status.Phase
	next := a.memory.wroteAt.Add(progressInterval)
	if now := r.Clock(); !began && now.Before(next) {
		if !sameCalls(a.base.Status.ToolCalls, a.turn.Status.ToolCalls) ||
			a.base.Status.ObservedGeneration != a.turn.Generation {
			a.deadline(next)
		}
		return nil
	}
	if !began && !r.mayShow(a) {
		return nil
	}
	_, err := r.write(ctx, a.scope, writeProgress)
	return err
}

// mayShow reports whether changes may be written that only show progress. If not, the Turn is woken when they may.
func (r *Reconciler) mayShow(a *actScope) bool {
	if a.base.Status.ObservedGeneration == a.turn.Generation &&
		apiequality.Semantic.DeepEqual(a.base.Status, a.turn.Status) {
		return true
	}
	key := a.key()
	if a.step.showing == nil {
		a.step.showing = r.Progress.Ask(key.Namespace, func() { r.Wakes.Wake(key) })
	}
	if !a.step.showing.Granted() {
		return false
	}
	a.step.showing = nil
	return true
}
