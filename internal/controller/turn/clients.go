package turn

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// collect offers the undecided ToolResults to the round: results of client tools, and decisions.
func (r *Reconciler) collect(ctx context.Context, a *actScope) error {
	// In each pass, because marking the ToolResult may have failed: once the Turn's status shows the call as completed,
	// the ToolResult would be refused as a second result.
	if err := r.accept(ctx, a.scope, a.results, a.step.known.RecordedSources(a.calls())); err != nil {
		return err
	}
	now := r.Clock()
	accepted, err := r.readOffers(ctx, a, a.step.known.Accept(a.calls(), a.offers(), now))
	if err != nil {
		return err
	}
	a.round.Offer(accepted, now)
	return nil
}

// readSettled reads the results and decisions of this step from the journal.
func (r *Reconciler) readSettled(ctx context.Context, a *actScope) error {
	refs, err := r.Steps.Log.Settled(ctx, a.journal(), a.turn.UID, a.plan().Step, a.plan().OpenedAtOrdinal)
	if err != nil {
		return fmt.Errorf("reading the results in the journal: %w", err)
	}
	a.step.known.Record(refs)
	return nil
}

// offers returns the undecided ToolResults for calls of the step.
func (a *actScope) offers() []act.Offer {
	var offers []act.Offer
	for i := range a.calls() {
		call := &a.calls()[i]
		for j := range a.results {
			result := &a.results[j]
			if result.Spec.CallID == call.ID && !decided(result) && result.DeletionTimestamp.IsZero() {
				offers = append(offers, act.Offer{Index: i, Result: result, Binds: toolresult.Binds(result, a.turn, call)})
			}
		}
	}
	return offers
}

// bound reports whether an offer is about what the Turn shows of its call: a decision, or an answer to a question.
func bound(o act.Offer) bool {
	return o.Result.Spec.Decision != "" || o.Result.Spec.Input != nil
}

// readOffers completes the accepted ToolResults with live reads: the texts that the cache has dropped, and whether the
// calls of decisions and answers still wait, because the Turn may have been deleted, replaced or continued. The
// reconciler of ToolResults refuses those; a call whose ToolResult is gone keeps waiting. A pass without decisions,
// answers and long texts reads nothing.
func (r *Reconciler) readOffers(ctx context.Context, a *actScope, accepted []act.Offer) ([]act.Offer, error) {
	live, exists := &v1alpha1.Turn{}, false
	if slices.ContainsFunc(accepted, bound) {
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(a.turn), live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the Turn of a decision: %w", err)
		}
		exists = err == nil
	}
	var whole []act.Offer
	for _, o := range accepted {
		var err error
		if o.Result, err = r.readResult(ctx, o.Result); err != nil {
			return nil, err
		}
		if o.Result == nil || bound(o) && (!exists || toolresult.Evaluate(o.Result, live).Reason != "") {
			continue
		}
		o.Call = turnstate.SettledCallOf(o.Result, a.calls()[o.Index])
		whole = append(whole, o)
	}
	return whole, nil
}

// readResult returns a ToolResult with the texts that the cache has dropped; nil if it is gone.
func (r *Reconciler) readResult(ctx context.Context, cached *v1alpha1.ToolResult) (*v1alpha1.ToolResult, error) {
	if !turnstate.ResultLeftOut(cached) {
		return cached, nil
	}
	result := &v1alpha1.ToolResult{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), result)
	switch {
	case apierrors.IsNotFound(err), err == nil && result.UID != cached.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ToolResult %s past the cache: %w", cached.Name, err)
	}
	return result, nil
}

// keepResult appends one result or decision to the journal before the step is complete, and marks its ToolResult as
// accepted.
func (r *Reconciler) keepResult(ctx context.Context, a *actScope, o act.Offer) (flow, error) {
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	ref, closed, err := r.Steps.Keep(ctx, a.turnState(), o.Call, known)
	if err != nil {
		return stop, err
	}
	if closed != nil {
		a.step.closed = closed
		return again, nil
	}
	a.round.SetRecorded(o.Index, ref)
	return unless(r.accept(ctx, a.scope, a.results, []types.UID{ref.Call.Source}))
}

// acceptResults marks each ToolResult that went into a closed step as accepted. It precedes the status write of the
// Turn, so that a reader who sees a closed call finds its ToolResult marked.
func (r *Reconciler) acceptResults(ctx context.Context, s *scope, closed *journal.Closed) error {
	if !s.memory.of(s.plan().Step).known.External(s.turn.Status.ToolCalls) {
		return nil
	}
	results, err := r.results(ctx, s.turn)
	if err != nil {
		return err
	}
	return r.accept(ctx, s, results, step.Sources(closed))
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
		v1alpha1.ReasonAccepted, acceptedMessage(result.Spec))
	_, err := status.Patch(ctx, r.Client, base, result)
	return err
}

// acceptedMessage returns the condition message of an accepted ToolResult.
func acceptedMessage(given v1alpha1.ToolResultSpec) string {
	switch {
	case given.Decision == v1alpha1.DecisionApprove:
		return "The call was approved."
	case given.Decision == v1alpha1.DecisionReject:
		return "The call was rejected and not executed."
	case given.Input != nil:
		return "The answer is sent to the tool once all of its questions have one."
	default:
		return "The Turn accepted the result."
	}
}

// decided reports whether the ToolResult was accepted or refused.
func decided(result *v1alpha1.ToolResult) bool {
	c := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// wasAccepted reports whether the ToolResult was accepted.
func wasAccepted(result *v1alpha1.ToolResult) bool {
	c := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status == metav1.ConditionTrue
}
