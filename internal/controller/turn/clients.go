package turn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
)

// takeResults accepts ToolResults for the calls that wait for them: results of client tools, and decisions. Those that
// complete the step go into the entry that closes it; the others, and all approvals, are appended to the journal on
// their own, so that they outlive their ToolResult (CLIENT-04) and the journal decides between two processes.
func (r *Reconciler) takeResults(ctx context.Context, a *actScope) error {
	clients := hasClientCalls(a.calls())
	if !clients && !hasApprovals(a.calls()) {
		return nil
	}
	// Also if the Turn does not wait for clients: it may have done so before the Session was changed, and recorded
	// results count.
	if err := r.readSettled(ctx, a); err != nil {
		return err
	}
	if clients && !host.Waits(a.hostTurn()) {
		a.skipClientCalls()
	}
	now := r.Clock()
	offered := a.offered(now)
	if err := r.dropOutdated(ctx, a, offered); err != nil {
		return err
	}
	if err := r.readTexts(ctx, offered); err != nil {
		return err
	}
	a.timeOut(offered, now)
	complete := a.missing() == len(offered) && !approves(offered)
	// In call order, which is then their order in the journal.
	for _, index := range slices.Sorted(maps.Keys(offered)) {
		result := offered[index]
		if complete {
			a.take(index, host.SettledCallOf(result))
			continue
		}
		if err := r.keepResult(ctx, a, index, result); err != nil || a.step.closed != nil {
			return err
		}
	}
	return nil
}

// skipClientCalls settles the client calls of a Session whose hints exclude client results (TURN-11).
func (a *actScope) skipClientCalls() {
	for i, call := range a.calls() {
		if _, done := a.step.outcomes[call.ID]; call.Executor == v1alpha1.ToolExecutorClient && !done {
			a.settle(i, host.NoClient())
		}
	}
}

// readSettled reads the results and decisions of this step from the journal, once.
func (r *Reconciler) readSettled(ctx context.Context, a *actScope) error {
	if a.step.settled == nil {
		refs, err := r.Host.Log.Settled(ctx, a.journal(), a.turn.UID, a.plan().Step, a.plan().OpenedAt)
		if err != nil {
			return fmt.Errorf("reading the results in the journal: %w", err)
		}
		a.step.settled = map[string]journal.SettledRef{}
		for _, ref := range refs {
			if host.GivenByOthers(ref.Call) {
				a.step.settled[ref.Call.ID] = ref
			}
		}
	}
	var sources []types.UID
	for i, call := range a.calls() {
		ref, ok := a.step.settled[call.ID]
		if !ok {
			continue
		}
		if _, done := a.step.outcomes[call.ID]; !done {
			a.take(i, ref.Call)
		}
		// In each pass, because marking the ToolResult may have failed: once the Turn's status shows the call as
		// answered, the ToolResult would be refused as a second answer.
		sources = append(sources, ref.Call.Source)
	}
	return r.accept(ctx, a.scope, a.results, sources)
}

// offered returns the first undecided ToolResult for each waiting call, by the call's index.
func (a *actScope) offered(now time.Time) map[int]*v1alpha1.ToolResult {
	offered := map[int]*v1alpha1.ToolResult{}
	for i, call := range a.calls() {
		if _, done := a.step.outcomes[call.ID]; done {
			continue
		}
		for j := range a.results {
			result := &a.results[j]
			if result.Spec.CallID == call.ID && answers(result, a.turn, call, now) && !decided(result) &&
				result.DeletionTimestamp.IsZero() {
				offered[i] = result
				break
			}
		}
	}
	return offered
}

// dropOutdated removes decisions about calls that wait only according to the cache: the Turn may be deleted, replaced
// or more advanced. The reconciler of ToolResults refuses them. A pass without decisions reads nothing.
func (r *Reconciler) dropOutdated(ctx context.Context, a *actScope, offered map[int]*v1alpha1.ToolResult) error {
	decides := func(_ int, result *v1alpha1.ToolResult) bool { return result.Spec.Decision != "" }
	decisions := maps.Clone(offered)
	maps.DeleteFunc(decisions, func(index int, result *v1alpha1.ToolResult) bool { return !decides(index, result) })
	if len(decisions) == 0 {
		return nil
	}
	turn := &v1alpha1.Turn{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(a.turn), turn); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the Turn that a decision is about: %w", err)
		}
		maps.DeleteFunc(offered, decides)
		return nil
	}
	maps.DeleteFunc(offered, func(index int, result *v1alpha1.ToolResult) bool {
		return decides(index, result) && toolresult.Judge(result, turn).Reason != ""
	})
	return nil
}

// readTexts reads the texts of ToolResults that the cache has dropped. It removes ToolResults that are gone: their
// calls keep waiting.
func (r *Reconciler) readTexts(ctx context.Context, offered map[int]*v1alpha1.ToolResult) error {
	for index, cached := range offered {
		if !host.ResultLeftOut(cached) {
			continue
		}
		result := &v1alpha1.ToolResult{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), result)
		switch {
		case apierrors.IsNotFound(err), err == nil && result.UID != cached.UID:
			delete(offered, index)
		case err != nil:
			return fmt.Errorf("reading ToolResult %s past the cache: %w", cached.Name, err)
		default:
			offered[index] = result
		}
	}
	return nil
}

// answers reports whether the ToolResult is of the kind that the call waits for: a result or a decision.
func answers(result *v1alpha1.ToolResult, turn *v1alpha1.Turn, call v1alpha1.ToolCall, now time.Time) bool {
	if tool.AwaitsApproval(call) {
		return decidesInTime(result, turn, call, now)
	}
	return call.Executor == v1alpha1.ToolExecutorClient && result.Spec.Decision == ""
}

// missing returns the number of calls without an outcome.
func (a *actScope) missing() int {
	return len(a.calls()) - len(a.step.outcomes)
}

// keepResult appends one result or decision to the journal before the step is complete, and marks its ToolResult as
// accepted.
func (r *Reconciler) keepResult(ctx context.Context, a *actScope, index int, result *v1alpha1.ToolResult) error {
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return err
	}
	ref, closed, err := r.Host.Keep(ctx, a.hostTurn(), host.SettledCallOf(result), known)
	if err != nil {
		return err
	}
	if closed != nil {
		a.step.closed = closed
		return nil
	}
	a.step.settled[ref.Call.ID] = ref
	a.take(index, ref.Call)
	return r.accept(ctx, a.scope, a.results, []types.UID{ref.Call.Source})
}

// acceptResults marks each ToolResult that went into a closed step as accepted. It precedes the status write of the
// Turn, so that a reader who sees a closed call finds its ToolResult marked.
func (r *Reconciler) acceptResults(ctx context.Context, s *scope, closed *journal.Closed) error {
	if calls := s.turn.Status.ToolCalls; !hasClientCalls(calls) && !hasApprovals(calls) {
		return nil
	}
	results, err := r.results(ctx, s.turn)
	if err != nil {
		return err
	}
	return r.accept(ctx, s, results, host.Sources(closed))
}

// accept marks the ToolResults with the given UIDs as part of their Turn.
func (r *Reconciler) accept(
	ctx context.Context, s *scope, results []v1alpha1.ToolResult, uids []types.UID,
) error {
	step := s.memory.of(s.plan().Step)
	for _, uid := range uids {
		for i := range results {
			if results[i].UID != uid || step.accepted[uid] || decided(&results[i]) {
				continue
			}
			if err := r.acceptOne(ctx, s.turn.UID, &results[i]); err != nil {
				return fmt.Errorf("accepting ToolResult %s: %w", results[i].Name, err)
			}
			step.accepted[uid] = true
		}
	}
	return nil
}

// acceptOne marks one ToolResult, unless it is gone. If the cache lags another write to it, which may be the mark of
// another process, the version of the API server counts.
func (r *Reconciler) acceptOne(ctx context.Context, turn types.UID, result *v1alpha1.ToolResult) error {
	err := r.markAccepted(ctx, turn, result)
	if apierrors.IsConflict(err) {
		live := &v1alpha1.ToolResult{}
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(result), live)
		if err == nil && live.UID == result.UID && !decided(live) {
			err = r.markAccepted(ctx, turn, live)
		}
	}
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) markAccepted(ctx context.Context, turn types.UID, result *v1alpha1.ToolResult) error {
	base := result.DeepCopy()
	result.Status.ObservedGeneration, result.Status.TurnUID = result.Generation, turn
	condition.SetAccepted(&result.Status.Conditions, result.Generation, metav1.NewTime(r.Clock()), metav1.ConditionTrue,
		v1alpha1.ReasonAccepted, acceptedMessage(result.Spec.Decision))
	_, err := status.Patch(ctx, r.Client, base, result)
	return err
}

// acceptedMessage returns the condition message of an accepted ToolResult.
func acceptedMessage(decision v1alpha1.Decision) string {
	switch decision {
	case v1alpha1.DecisionApprove:
		return "The call is approved."
	case v1alpha1.DecisionReject:
		return "The call is rejected. It was not executed."
	default:
		return "The result is part of its Turn."
	}
}

// decided reports whether the ToolResult was accepted or refused.
func decided(result *v1alpha1.ToolResult) bool {
	c := condition.Find(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// wasAccepted reports whether the ToolResult was accepted.
func wasAccepted(result *v1alpha1.ToolResult) bool {
	c := condition.Find(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status == metav1.ConditionTrue
}

// take records the result or decision for a call.
func (a *actScope) take(index int, given journal.SettledCall) {
	a.step.sources[given.ID] = given.Source
	switch given.Decision {
	case v1alpha1.DecisionApprove:
		a.approve(index)
	case v1alpha1.DecisionReject:
		a.settle(index, tool.Rejected())
	default:
		a.settle(index, host.ClientOutcome(given))
	}
}

// forgetOthers drops the known results and decisions, so that the journal is read again.
func (a *actScope) forgetOthers() {
	a.step.settled = nil
	for i, call := range a.calls() {
		if call.Executor == v1alpha1.ToolExecutorClient || tool.Unapproved(call) {
			delete(a.step.outcomes, call.ID)
			delete(a.step.short, call.ID)
			delete(a.step.sources, call.ID)
			a.turn.Status.ToolCalls[i] = *a.base.Status.ToolCalls[i].DeepCopy()
		}
	}
}

func hasClientCalls(calls []v1alpha1.ToolCall) bool {
	for _, call := range calls {
		if call.Executor == v1alpha1.ToolExecutorClient {
			return true
		}
	}
	return false
}
