package turn

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
)

// withdraw records in status, with optimistic locking, which calls were not executed although they have an attempt: a
// pod starts only once its UID is in status, so that from then on no process removes its gate. Only then may an entry
// state it: the pass starts over after the write. A Turn without such calls costs nothing. The Turn must be about to
// end, or all calls of the step must have outcomes.
func (s *scope) withdraw() flow {
	if s.plan().Phase != v1alpha1.PlanPhaseAct {
		return proceed
	}
	s.memory.of(s.plan().Step).known.Withdraw(s.turn.Status.ToolCalls)
	for i, call := range s.turn.Status.ToolCalls {
		if act.Withdrawn(call) && !act.Withdrawn(s.base.Status.ToolCalls[i]) {
			return writeThenRepeat(writeWithdrawal)
		}
	}
	return proceed
}

// withdrawFenced withdraws the calls of a Turn that is about to end, other than those whose pod another leader has
// recorded.
func (s *scope) withdrawFenced() flow {
	if s.plan().Phase == v1alpha1.PlanPhaseAct {
		s.memory.of(s.plan().Step).known.Fence(s.turn.Status.ToolCalls)
	}
	return s.withdraw()
}
