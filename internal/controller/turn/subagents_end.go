package turn

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// readResponse returns the whole response of a sub-agent's Turn. Status has the start of a long one; the rest is read
// from the journal of its Session, as an activity. If that is too large to be read, the start has to do.
func (r *Reconciler) readResponse(
	ctx context.Context, a *actScope, call v1alpha1.ToolCall, turn *v1alpha1.Turn,
) (string, bool, error) {
	start := turn.Status.Output
	if !step.ResponseCut(start) {
		return start, true, nil
	}
	need, err := r.needToRead(ctx, a, call)
	if err != nil {
		return "", false, err
	}
	session := journal.Session{Namespace: turn.Namespace, Name: call.SubAgent.Name, UID: call.SubAgent.SessionUID}
	key := executor.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID, Attempt: call.Attempt}
	value, done, err := r.do(a.scope, a.step, key, need, func(ctx context.Context) (any, error) {
		text, err := r.Steps.Response(ctx, session, start)
		return toolOutput(text), err
	})
	if large := new(fairshare.TooLargeError); errors.As(err, &large) {
		return start, true, nil
	}
	if err != nil || !done {
		return "", false, err
	}
	output, ok := value.(toolOutput)
	if !ok {
		return "", false, fmt.Errorf("unexpected response of call %s: %T", call.ID, value)
	}
	return string(output), true, nil
}

// needToRead returns the resources that reading the journal of a sub-agent needs, by its known size.
func (r *Reconciler) needToRead(ctx context.Context, a *actScope, call v1alpha1.ToolCall) (executor.Need, error) {
	session := &v1alpha1.Session{}
	key := types.NamespacedName{Namespace: a.turn.Namespace, Name: call.SubAgent.Name}
	if err := r.Client.Get(ctx, key, session); client.IgnoreNotFound(err) != nil {
		return executor.Need{}, fmt.Errorf("reading the Session of call %s: %w", call.ID, err)
	}
	need := a.need()
	need.Conversation = true
	need.Bytes = step.ResponseBytes(max(session.Status.Journal.Bytes, r.Steps.Log.KnownBytes(call.SubAgent.SessionUID)))
	return need, nil
}

// stopSubAgents cancels the sub-agents of a Turn that ends, and reports whether all have ended, or have had the time
// for it. If the Turn continues, all of them have ended, or are gone.
func (r *Reconciler) stopSubAgents(ctx context.Context, s *scope, memory *stepMemory) (bool, error) {
	if memory.closed.Transition.Plan.Phase != v1alpha1.PlanPhaseComplete {
		return true, nil
	}
	ended, failed := true, []error(nil)
	for _, call := range s.turn.Status.ToolCalls {
		if call.SubAgent == nil {
			continue
		}
		turn, err := r.turnOf(ctx, s, call)
		if err == nil && turn == nil {
			turn, err = r.liveTurnOf(ctx, s, call)
		}
		if err != nil || turn == nil || queue.Finished(turn) {
			failed = append(failed, err)
			continue
		}
		ended = false
		if known := memory.agent(call.ID); !known.Cancelled {
			err := CancelSubAgent(ctx, r.Client, turn)
			known.Cancelled = err == nil
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil || ended {
		return ended, err
	}
	if memory.stopping.IsZero() {
		memory.stopping = r.Clock()
	}
	until := memory.stopping.Add(stopLimit)
	if !r.Clock().Before(until) {
		return true, nil
	}
	s.deadline(until)
	return false, nil
}

// cancelPatch is what the manager may change in the Turn of a sub-agent.
const cancelPatch = `{"spec":{"desiredState":"` + string(v1alpha1.DesiredStateCancelled) + `"}}`

// CancelSubAgent requests the end of a sub-agent's Turn.
func CancelSubAgent(ctx context.Context, c client.Client, turn *v1alpha1.Turn) error {
	if turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled {
		return nil
	}
	err := c.Patch(ctx, turn.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(cancelPatch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cancelling Turn %s of a sub-agent: %w", turn.Name, err)
	}
	return nil
}

// callerOf returns the Turn that has called a sub-agent.
func callerOf(_ context.Context, object client.Object) []reconcile.Request {
	turn, ok := object.(*v1alpha1.Turn)
	if !ok {
		return nil
	}
	of := turn.Spec.Origin.SubAgentOf()
	if of == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: turn.Namespace, Name: of.Turn.Name}}}
}

// subAgentEnded passes the end and the deletion of the Turn of a sub-agent.
func subAgentEnded() predicate.Predicate {
	finished := func(o client.Object) bool {
		turn, ok := o.(*v1alpha1.Turn)
		return ok && turn.Spec.Origin.SubAgentOf() != nil && queue.Finished(turn)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && finished(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return finished(e.ObjectNew) && !finished(e.ObjectOld) },
	}
}
