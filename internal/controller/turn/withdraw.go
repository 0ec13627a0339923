package turn

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// withdraw records in status, with optimistic locking, which calls were not executed although they have an attempt: a
// pod starts only once its UID is in status, so that from then on no process removes its gate. Only then may an entry
// state it. A Turn without such calls costs nothing. The Turn must be about to end, or known must have all calls of the
// step.
func (r *Reconciler) withdraw(ctx context.Context, s *scope, known map[string]tool.Outcome) (flow, error) {
	if s.plan().Phase != v1alpha1.PlanPhaseAct {
		return proceed, nil
	}
	host.Withdraw(&s.turn.Status.TurnProgress, known)
	for i, call := range s.turn.Status.ToolCalls {
		if tool.Withdrawn(call) && !tool.Withdrawn(s.base.Status.ToolCalls[i]) {
			flow, err := r.write(ctx, s, writeWithdrawal)
			if err != nil || flow != again {
				return flow, err
			}
			return proceed, nil
		}
	}
	return proceed, nil
}

// fenced drops outcomes that another leader has overtaken by recording a pod of a call that this process considers not
// executed. It returns the valid ones.
func (m *stepMemory) fenced(turn *v1alpha1.Turn) map[string]tool.Outcome {
	for _, call := range turn.Status.ToolCalls {
		if m.unfenced[call.ID] && call.PodUID != "" {
			delete(m.outcomes, call.ID)
			delete(m.unfenced, call.ID)
		}
	}
	return m.outcomes
}
