package turn

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// withdraw writes into the status, under optimistic lock, which calls were not executed although they have an attempt:
// a pod starts only once its UID is there, so that from then on no process lets one go. Only then may an entry state
// it. A Turn without such calls costs nothing. The Turn must be about to end, or known must have all calls of the step.
func (r *Reconciler) withdraw(ctx context.Context, s *scope, known map[string]tool.Outcome) (flow, error) {
	if s.plan().Phase != v1alpha1.PlanAct {
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

// fenced drops the outcomes that another leader has overtaken: it has recorded a pod of a call that this process takes
// for one that was not executed. It returns those that hold.
func (m *stepMemory) fenced(turn *v1alpha1.Turn) map[string]tool.Outcome {
	for _, call := range turn.Status.ToolCalls {
		if m.unfenced[call.ID] && call.PodUID != "" {
			delete(m.outcomes, call.ID)
			delete(m.unfenced, call.ID)
		}
	}
	return m.outcomes
}
