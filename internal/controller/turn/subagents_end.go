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
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// readResponse returns the whole response of a sub-agent's Turn. Status has the start of a long one; the rest is read
// from the journal of its Session, as an activity.
func (r *Reconciler) readResponse(a *actScope, call v1alpha1.ToolCall, turn *v1alpha1.Turn) (string, bool, error) {
	if !step.ResponseCut(turn.Status.Output) {
		return turn.Status.Output, true, nil
	}
	session := journal.Session{Namespace: turn.Namespace, Name: call.SubAgent.Name, UID: call.SubAgent.SessionUID}
	key := executor.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID, Attempt: call.Attempt}
	value, done, err := r.do(a.scope, a.step, key, a.need(), func(ctx context.Context) (any, error) {
		text, err := r.Steps.Response(ctx, session)
		return toolOutput(text), err
	})
	if err != nil || !done {
		return "", false, err
	}
	output, ok := value.(toolOutput)
	if !ok {
		return "", false, fmt.Errorf("unexpected response of call %s: %T", call.ID, value)
	}
	return string(output), true, nil
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
