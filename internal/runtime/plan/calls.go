package plan

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// CountCalls updates the counts of tool calls in the summary, which must exist.
func CountCalls(p *v1alpha1.TurnProgress) {
	open := int32(0)
	for _, call := range p.ToolCalls {
		if !call.State.Settled() {
			open++
		}
	}
	p.Summary.SettledToolCalls = max(p.Summary.ToolCalls-open, 0)
	p.Summary.Calls = ""
	if p.Summary.ToolCalls > 0 {
		p.Summary.Calls = fmt.Sprintf("%d/%d", p.Summary.SettledToolCalls, p.Summary.ToolCalls)
	}
	failed := p.Summary.FailedToolCalls
	if p.Plan != nil && p.Plan.Phase == v1alpha1.PlanPhaseAct {
		failed += failedCalls(p.ToolCalls)
	}
	if failed > 0 {
		p.Summary.Calls += fmt.Sprintf(", %d failed", failed)
	}
}

// failedCalls counts the calls that have failed or have an unknown outcome.
func failedCalls(calls []v1alpha1.ToolCall) (failed int32) {
	for _, call := range calls {
		if call.State == v1alpha1.ToolCallStateFailed || call.State == v1alpha1.ToolCallStateUnknown {
			failed++
		}
	}
	return failed
}

// countSubAgents adds the planned calls that run as sub-agents to the summary, which must exist.
func countSubAgents(p *v1alpha1.TurnProgress) {
	planned := 0
	for _, call := range p.ToolCalls {
		if call.Executor == v1alpha1.ToolExecutorAgent {
			planned++
		}
	}
	if planned == 0 {
		return
	}
	if p.Summary.SubAgents == nil {
		p.Summary.SubAgents = &v1alpha1.SubAgentsSummary{}
	}
	p.Summary.SubAgents.Calls = addCount(p.Summary.SubAgents.Calls, planned)
}
