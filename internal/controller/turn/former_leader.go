package turn

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
)

// A former leader may still append to the journal, and mark a ToolResult or the Turn of a message as accepted. Then
// this process has nothing left to append, and would not find that entry.

// invalidateIfSteered makes the pass look up the open step in the journal again when another process has accepted a
// message for it.
func (s *scope) invalidateIfSteered() {
	if s.memory.messageSteered.Swap(false) {
		s.memory.of(s.plan().Step).invalidate()
	}
}

// acceptedByFormerLeader reports whether another process has accepted a ToolResult for a call that waits. The journal
// is to be read again, once for each.
func (a *actScope) acceptedByFormerLeader() bool {
	if !a.step.known.Read {
		return false // The journal is read in this pass.
	}
	found := false
	for i := range a.results {
		result := &a.results[i]
		if a.step.accepted[result.UID] || a.step.rechecked[result.UID] {
			continue
		}
		if !wasAccepted(result) || !waitsForResult(a.turn, result) {
			continue
		}
		if a.step.known.Done(result.Spec.CallID) {
			continue
		}
		a.step.rechecked[result.UID] = true
		found = true
	}
	if found {
		a.step.known.ForgetResults(a.calls(), a.base.Status.ToolCalls)
		a.step.invalidate()
	}
	return found
}

// invalidate makes the next round read the journal again.
func (m *stepMemory) invalidate() {
	m.lookedUp, m.stale, m.known.Read = false, true, false
}

// waitsForResult reports whether the Turn waits for a result of the kind of the ToolResult that was accepted for it.
func waitsForResult(turn *v1alpha1.Turn, result *v1alpha1.ToolResult) bool {
	if turn.UID != result.Status.TurnUID || turn.Status.Plan == nil || turn.Status.Plan.Phase != v1alpha1.PlanPhaseAct {
		return false
	}
	return slices.ContainsFunc(turn.Status.ToolCalls, func(call v1alpha1.ToolCall) bool {
		return call.ID == result.Spec.CallID && act.WaitsForResult(call, result.Spec)
	})
}
