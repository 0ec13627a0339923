package subagent

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Ended returns the outcome of a call whose sub-agent's Turn has ended. text is the whole response of that Turn.
func Ended(turn *v1alpha1.Turn, text string) tool.Outcome {
	outcome := endedAs(turn, text)
	outcome.SubAgent = Totals(&turn.Status.TurnProgress)
	if sum := turn.Status.Summary; sum != nil {
		outcome.Started = sum.StartedAt != nil
		outcome.StartedAt, outcome.FinishedAt = timeOf(sum.StartedAt), timeOf(sum.FinishedAt)
	}
	return outcome
}

func timeOf(t *metav1.MicroTime) (at time.Time) {
	if t != nil {
		at = t.Time
	}
	return at
}

// unfinished is added to the response of a sub-agent that was stopped by its maximum of model calls.
const unfinished = "\n\n[The sub-agent reached its maximum number of model calls before it had finished.]"

func endedAs(turn *v1alpha1.Turn, text string) tool.Outcome {
	switch turn.Status.Phase {
	case v1alpha1.TurnPhaseSucceeded:
		if plan := turn.Status.Plan; plan != nil && plan.StopReason == v1alpha1.StopReasonMaxTurnRequests {
			text += unfinished
		}
		result, output := tool.Cut([]byte(text), int64(len(text)))
		return tool.Outcome{
			State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &result,
			Output: output,
		}
	case v1alpha1.TurnPhaseCancelled:
		return tool.Failed(v1alpha1.ToolCallReasonSubAgentCancelled,
			"The sub-agent was cancelled before it returned a result."+maybeWorked)
	default:
		return failed(turn.Status.Error)
	}
}

const maybeWorked = " It may have done part of its work. Find out what it has done before you call it again."

func failed(e *v1alpha1.TurnError) tool.Outcome {
	switch {
	case e == nil:
		return tool.Failed(v1alpha1.ToolCallReasonSubAgentFailed, "The sub-agent failed."+maybeWorked)
	case e.Code == v1alpha1.ErrorCodeDeadlineExceeded:
		return tool.Failed(v1alpha1.ToolCallReasonTimeout, "The sub-agent did not finish in time."+maybeWorked)
	default:
		return tool.Failed(v1alpha1.ToolCallReasonSubAgentFailed,
			fmt.Sprintf("The sub-agent failed (%s)%s.", e.Code, tool.Quoted(e.Message))+maybeWorked)
	}
}

// NameTaken is the outcome of a call whose Session cannot be created, because another one has its name.
func NameTaken(name string) tool.Outcome {
	return tool.NotExecuted(v1alpha1.ToolCallReasonNameTaken,
		fmt.Sprintf("another object has the name %s, which its sub-agent needs", name))
}

// TurnTaken is the outcome of a call whose Session was created and whose Turn was not, because another one has its
// name: the Turn of the call may have been there before it.
func TurnTaken(name string) tool.Outcome {
	return tool.Unknown(v1alpha1.ToolCallReasonNameTaken,
		fmt.Sprintf("another Turn has the name %s of its sub-agent", name))
}

// TurnRefused is the outcome of a call whose Session was created and whose Turn the cluster rejects.
func TurnRefused(message string) tool.Outcome {
	return tool.Failed(v1alpha1.ToolCallReasonRefused,
		"The sub-agent was not started: the cluster rejected its Turn"+tool.Quoted(message)+".")
}

// Gone is the outcome of a call whose sub-agent was deleted before it had ended.
func Gone() tool.Outcome {
	return tool.Unknown(v1alpha1.ToolCallReasonSubAgentGone, "its sub-agent was deleted")
}

// Totals returns the totals of a Turn, those of its own sub-agents included; nil for a Turn without totals.
func Totals(p *v1alpha1.TurnProgress) *v1alpha1.SubAgentTotals {
	sum := p.Summary
	if sum == nil {
		return nil
	}
	totals := v1alpha1.SubAgentTotals{
		Usage: sum.Usage, ModelCalls: sum.ModelCalls, Cost: sum.Cost, UnpricedModelCalls: sum.UnpricedModelCalls,
		Payments: sum.Payments,
	}
	if sum.SubAgents != nil {
		totals = Add(totals, sum.SubAgents.SubAgentTotals)
	}
	return totals.DeepCopy()
}

// Add returns the sum of both totals. Costs in one currency too many are left out: all model calls that they are of
// count as unpriced.
func Add(sum, more v1alpha1.SubAgentTotals) v1alpha1.SubAgentTotals {
	sum.Usage.InputTokens += more.Usage.InputTokens
	sum.Usage.OutputTokens += more.Usage.OutputTokens
	sum.Usage.TotalTokens += more.Usage.TotalTokens
	sum.ModelCalls += more.ModelCalls
	if costs, ok := cost.Add(sum.Cost, more.Cost...); ok {
		sum.Cost = costs
		sum.UnpricedModelCalls += more.UnpricedModelCalls
	} else {
		sum.UnpricedModelCalls += more.ModelCalls
	}
	if paid, ok := cost.Add(sum.Payments, more.Payments...); ok {
		sum.Payments = paid
	}
	return sum
}

// AddEnded adds the totals of the sub-agents of an act step to the summary of the progress after it, which must exist.
func AddEnded(next *v1alpha1.TurnProgress, calls []v1alpha1.ToolCall) {
	for _, call := range calls {
		if call.SubAgent == nil || call.SubAgent.Totals == nil {
			continue
		}
		if next.Summary.SubAgents == nil {
			next.Summary.SubAgents = &v1alpha1.SubAgentsSummary{}
		}
		next.Summary.SubAgents.SubAgentTotals = Add(next.Summary.SubAgents.SubAgentTotals, *call.SubAgent.Totals)
	}
}
