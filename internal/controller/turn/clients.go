package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/condition"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// takeResults takes what clients gave for the calls that wait for them. A result that completes the step goes into the entry that closes it;
// one that does not is put into the log by itself, so that it outlives its ToolResult (CLIENT-04).
func (r *Reconciler) takeResults(ctx context.Context, a *actScope) error {
	if !hasClientCalls(a.calls()) {
		return nil
	}
	if !host.Waits(a.hostTurn()) {
		a.skipClientCalls()
		return nil
	}
	if err := r.readSettled(ctx, a); err != nil {
		return err
	}
	offered := a.offered()
	complete := a.missing() == len(offered)
	for index, result := range offered {
		if complete {
			a.settleClient(index, settledCall(result))
			continue
		}
		if err := r.keepResult(ctx, a, index, result); err != nil || a.step.closed != nil {
			return err
		}
	}
	return nil
}

// skipClientCalls settles the client calls of a Session whose hints say that nobody answers (TURN-11).
func (a *actScope) skipClientCalls() {
	for i, call := range a.calls() {
		if _, done := a.step.outcomes[call.ID]; call.Executor == v1alpha1.ExecutorClient && !done {
			a.settle(i, host.NoClient())
		}
	}
}

// readSettled asks the log, once, which results of this step it has.
func (r *Reconciler) readSettled(ctx context.Context, a *actScope) error {
	if a.step.settled == nil {
		refs, err := r.Host.Log.Settled(ctx, a.journal(), a.turn.UID, a.plan().Step, a.plan().OpenedAt)
		if err != nil {
			return fmt.Errorf("reading the results that are in the log: %w", err)
		}
		a.step.settled = map[string]journal.SettledRef{}
		for _, ref := range refs {
			a.step.settled[ref.Call.ID] = ref
		}
	}
	var sources []types.UID
	for i, call := range a.calls() {
		ref, ok := a.step.settled[call.ID]
		if !ok {
			continue
		}
		if _, done := a.step.outcomes[call.ID]; !done {
			a.settleClient(i, ref.Call)
		}
		// In each pass, because marking it may have failed: once the status shows the call as answered, it counts as answered by another.
		sources = append(sources, ref.Call.Source)
	}
	return r.accept(ctx, a.results, sources)
}

// offered is the first ToolResult that is still open for each call that waits, by the call's index.
func (a *actScope) offered() map[int]*v1alpha1.ToolResult {
	offered := map[int]*v1alpha1.ToolResult{}
	for i, call := range a.calls() {
		if _, done := a.step.outcomes[call.ID]; done || call.Executor != v1alpha1.ExecutorClient {
			continue
		}
		for j := range a.results {
			result := &a.results[j]
			if result.Spec.CallID == call.ID && !decided(result) && result.DeletionTimestamp.IsZero() {
				offered[i] = result
				break
			}
		}
	}
	return offered
}

// missing counts the calls of the step without an outcome.
func (a *actScope) missing() int {
	return len(a.calls()) - len(a.step.outcomes)
}

// keepResult puts one result into the log before the step is complete, and says so on its ToolResult.
func (r *Reconciler) keepResult(ctx context.Context, a *actScope, index int, result *v1alpha1.ToolResult) error {
	ref, closed, err := r.Host.Log.Settle(ctx, a.journal(), a.hostTurn().Ref, a.plan().Step, a.plan().OpenedAt, settledCall(result))
	if err != nil {
		return fmt.Errorf("keeping the result of call %s: %w", result.Spec.CallID, err)
	}
	if closed != nil {
		a.step.closed = closed
		return nil
	}
	a.step.settled[ref.Call.ID] = ref
	a.settleClient(index, ref.Call)
	return r.accept(ctx, a.results, []types.UID{ref.Call.Source})
}

// acceptResults says on each ToolResult that went into a closed step that it did. It comes before the status moves on, so that whoever
// sees a call closed knows that the result it took is marked.
func (r *Reconciler) acceptResults(ctx context.Context, s *scope, closed *journal.Closed) error {
	if !hasClientCalls(s.turn.Status.ToolCalls) {
		return nil
	}
	results, err := r.results(ctx, s.turn)
	if err != nil {
		return err
	}
	return r.accept(ctx, results, host.Sources(closed))
}

// accept marks the ToolResults with the given UIDs as part of their Turn.
func (r *Reconciler) accept(ctx context.Context, results []v1alpha1.ToolResult, uids []types.UID) error {
	for _, uid := range uids {
		for i := range results {
			if results[i].UID != uid || decided(&results[i]) {
				continue
			}
			base, result := results[i].DeepCopy(), results[i].DeepCopy()
			result.Status.ObservedGeneration = result.Generation
			condition.SetAccepted(&result.Status.Conditions, result.Generation, metav1.NewTime(r.Clock()), metav1.ConditionTrue,
				v1alpha1.ReasonAccepted, "The result is part of its Turn.")
			_, err := condition.PatchStatus(ctx, r.Client, base, result)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("accepting ToolResult %s: %w", result.Name, err)
			}
			results[i] = *result
		}
	}
	return nil
}

// settledCall is a ToolResult as the log keeps it.
func settledCall(result *v1alpha1.ToolResult) v1alpha1.SettledCall {
	call := v1alpha1.SettledCall{ID: result.Spec.CallID, Source: result.UID, Error: result.Spec.Error}
	if text := result.Spec.Result; text != nil {
		// Cut here, because what the log keeps must fit into one entry however it is encoded.
		kept := tool.CutResult(*text)
		call.Result = &kept
	}
	return call
}

// decided says that the ToolResult was accepted or refused.
func decided(result *v1alpha1.ToolResult) bool {
	c := condition.Find(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// settleClient records what a client gave for a call.
func (a *actScope) settleClient(index int, given v1alpha1.SettledCall) {
	a.step.sources[given.ID] = given.Source
	a.settle(index, host.ClientOutcome(given))
}

func hasClientCalls(calls []v1alpha1.ToolCall) bool {
	for _, call := range calls {
		if call.Executor == v1alpha1.ExecutorClient {
			return true
		}
	}
	return false
}
