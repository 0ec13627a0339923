package act

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// inProcess reports whether the process that runs the Turn carries out the call itself. local reports whether it does
// so for Jobs and sub-agents.
func inProcess(call v1alpha1.ToolCall, local bool) bool {
	return executors.InProcess(call.Executor) || (local && executors.InCluster(call.Executor))
}

// Claimable reports whether a call is claimed in the journal before it starts: one that must not start twice and that
// the process carries out itself. A sub-agent needs no claim: a process that starts it again finds its journal.
func Claimable(call v1alpha1.ToolCall, local bool) bool {
	return inProcess(call, local) && tool.AtMostOnce(call) && call.Executor != v1alpha1.ToolExecutorAgent
}

func (s *Step) claimable(call v1alpha1.ToolCall) bool {
	return Claimable(call, s != nil && s.Local)
}

// Withdrawable reports whether only status can prove that a call was not executed: the pod of an AtMostOnce call starts
// once its UID is recorded there, and the Turn of a sub-agent is created once the UID of its Session is. The call is
// withdrawn when status shows it as NotExecuted without one; from then on no process records one.
func Withdrawable(call v1alpha1.ToolCall) bool {
	return executors.InCluster(call.Executor) && tool.AtMostOnce(call) && !recorded(call) && call.Attempt > 0
}

// recorded reports whether status has the pod, or the sub-agent, of a call, so that it may start.
func recorded(call v1alpha1.ToolCall) bool {
	return call.PodUID != "" || call.SubAgent != nil
}

// Withdrawn reports whether the call is withdrawn in status.
func Withdrawn(call v1alpha1.ToolCall) bool {
	return Withdrawable(call) && call.State == v1alpha1.ToolCallStateNotExecuted
}

// Withdraw marks in status those calls as not executed whose pods start only once they are recorded there, and are not,
// and reports whether it has marked any. That must be written under optimistic lock before an entry may state it. The
// Turn must be about to end, or all calls must have outcomes. Outcomes other than NotExecuted stand.
func (s *Step) Withdraw(calls []v1alpha1.ToolCall) bool {
	changed := false
	for i := range calls {
		call := &calls[i]
		if !Withdrawable(*call) || Withdrawn(*call) {
			continue
		}
		outcome, known := s.Outcome(call.ID)
		if !known {
			outcome = neverStarted()
		}
		if outcome.State == v1alpha1.ToolCallStateNotExecuted {
			Describe(call, outcome)
			changed = true
		}
	}
	return changed
}

// AwaitsWithdrawal reports whether an open call is only known not to have been executed once it is withdrawn.
func AwaitsWithdrawal(call v1alpha1.ToolCall) bool {
	return Withdrawable(call) && !call.State.Settled()
}

// NeverStarted shows that nothing has started a call of a Turn that is over.
func NeverStarted(call *v1alpha1.ToolCall) {
	Describe(call, neverStarted())
}

// NeedsClaims reports whether an end of the Turn depends on the claims in the journal: of calls that have no outcome.
func (s *Step) NeedsClaims(calls []v1alpha1.ToolCall) bool {
	for _, call := range calls {
		if s.claimable(call) && !s.Done(call.ID) {
			return true
		}
	}
	return false
}

// End settles all calls when the Turn ends: with the known outcome, or with a conclusion without one. It changes the
// status of the calls and returns the resulting Step. claims are those of the step.
func (s *Step) End(calls []v1alpha1.ToolCall, claims []format.ClaimRef) *Step {
	all := s.Clone()
	for i := range calls {
		call := &calls[i]
		row := all.Row(call.ID)
		var outcome tool.Outcome
		if row.Outcome != nil {
			outcome = *row.Outcome
		}
		claim, claimed := claimOf(claims, call.ID)
		approved := approvedElsewhere(*call, *row)
		switch {
		case row.RecordedOutcome.Ordinal != 0:
		case approved && all.claimable(*call):
			outcome = all.endedHere(*call, claim, claimed)
		case approved, row.Outcome != nil && all.unwithdrawn(*call, outcome):
			outcome = mayHaveRun()
		case row.Outcome == nil:
			outcome = all.endedWith(*call, claim, claimed)
		}
		row.Outcome = &outcome
		all.Show(call)
	}
	return all
}

// approvedElsewhere reports whether the journal has an approval of a call that the status does not show: another
// process may have started it.
func approvedElsewhere(call v1alpha1.ToolCall, row Row) bool {
	return Unapproved(call) && row.RecordedResult.Call.Decision == v1alpha1.DecisionApprove
}

// endedWith returns the outcome of a call that had none when the Turn ended. A call of a Job is only known not to have
// been executed if status has its withdrawal: this process may be behind another one that has let its pod start.
func (s *Step) endedWith(call v1alpha1.ToolCall, claim format.ClaimRef, claimed bool) tool.Outcome {
	switch {
	case inProcess(call, s.Local) && !Unapproved(call):
		return s.endedHere(call, claim, claimed)
	case call.State.Settled():
		return tool.Recalled(call)
	case Unapproved(call):
		return neverStarted()
	case AwaitsInput(call):
		return askedLast(call)
	case call.Executor == v1alpha1.ToolExecutorClient:
		return noResult()
	case !executors.InCluster(call.Executor):
		return neverStarted()
	default:
		return mayHaveRun()
	}
}

// endedHere is the outcome of a call that a process carries out itself and that had none when the Turn ended.
func (s *Step) endedHere(call v1alpha1.ToolCall, claim format.ClaimRef, claimed bool) tool.Outcome {
	switch {
	case claim.Settled.Ordinal != 0:
		return OutcomeOf(claim.Settled.Call)
	case AwaitsInput(call):
		return askedLast(call)
	case s.claimable(call) && !claimed:
		return neverStarted()
	default:
		return mayHaveRun()
	}
}

// unwithdrawn reports whether an outcome is NotExecuted although another process may still let the pod of the call
// start.
func (s *Step) unwithdrawn(call v1alpha1.ToolCall, outcome tool.Outcome) bool {
	return !inProcess(call, s.Local) && outcome.State == v1alpha1.ToolCallStateNotExecuted &&
		Withdrawable(call) && !Withdrawn(call)
}

// Unclaimed returns the calls that a closing entry reports as never started because no process has claimed them.
func (s *Step) Unclaimed(calls []v1alpha1.ToolCall, claims []format.ClaimRef) []string {
	var ids []string
	for _, call := range calls {
		row := s.copyOf(call.ID)
		_, claimed := claimOf(claims, call.ID)
		if s.claimable(call) && !claimed && row.RecordedOutcome.Ordinal == 0 && row.Outcome != nil &&
			row.Outcome.State == v1alpha1.ToolCallStateNotExecuted {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

// Without returns a copy without the outcomes of some calls.
func (s *Step) Without(ids []string) *Step {
	rest := s.Clone()
	for _, id := range ids {
		rest.Row(id).Outcome = nil
	}
	return rest
}

// claimOf returns the claim of a call, and whether there is one.
func claimOf(claims []format.ClaimRef, id string) (format.ClaimRef, bool) {
	for _, claim := range claims {
		if claim.Call.ID == id {
			return claim, true
		}
	}
	return format.ClaimRef{}, false
}
