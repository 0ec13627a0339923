package turnstate

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// MaxOutputBytes is the most bytes of a response in status, as JSON.
const MaxOutputBytes = 8 << 10

// ShowWait sets the phase of a Turn whose next step is made of tool calls that all wait for others.
func (t Turn) ShowWait(p *v1alpha1.TurnProgress, concurrency v1alpha1.ToolConcurrency) {
	if (*act.Step)(nil).WaitsForOthers(p.ToolCalls, Waits(t), concurrency) {
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
}

// ShowCalls updates a status while the calls of its act step are running. waits reports whether the step only waits for
// others, and lacks are the waits of calls other than for ToolResults. The phase is Waiting if the Turn waits only for
// these.
func ShowCalls(p *v1alpha1.TurnProgress, known *act.Step, waits bool, lacks []v1alpha1.TurnWait) {
	for i := range p.ToolCalls {
		if outcome, ok := known.Outcome(p.ToolCalls[i].ID); ok {
			act.Describe(&p.ToolCalls[i], outcome)
		}
	}
	fitTotals(p.ToolCalls)
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseAct, withInput(lacks, p.ToolCalls)
	switch {
	case waits && len(lacks) > 0 && !slices.ContainsFunc(p.ToolCalls, waitsForPeople):
		p.Phase = v1alpha1.TurnPhaseWaiting
	case waits:
		p.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	}
	plan.CountCalls(p)
}

// waitsForPeople reports whether a call waits for others: for a client, or for approval.
func waitsForPeople(call v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateWaiting || act.AwaitsApproval(call)
}
