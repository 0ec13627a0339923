package plan

import (
	"bytes"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Begin returns the progress of an admitted Turn: the first model call is open. openedAt is the first ordinal of the
// journal at which the entry that closes it may be.
func Begin(openedAt int64, now metav1.MicroTime) v1alpha1.TurnProgress {
	return v1alpha1.TurnProgress{
		Phase:     v1alpha1.TurnPhaseReason,
		Iteration: 1,
		Plan:      &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseReason, OpenedAtOrdinal: openedAt},
		Summary:   &v1alpha1.TurnSummary{StartedAt: &now},
	}
}

// NeverBegan returns the progress of a Turn that ends, in a phase, before its first step.
func NeverBegan(phase v1alpha1.TurnPhase, now metav1.MicroTime) v1alpha1.TurnProgress {
	return v1alpha1.TurnProgress{
		Phase:   phase,
		Plan:    &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete},
		Summary: &v1alpha1.TurnSummary{FinishedAt: &now},
	}
}

// Response is the part of a model's response that determines the next step.
type Response struct {
	// Calls are the tool calls that the status has room for, Planned is the number of all of them.
	Calls   []v1alpha1.ToolCall
	Planned int
	// Usage of the model call.
	Usage v1alpha1.Usage
	// FinishReason is the provider's.
	FinishReason string
}

// AfterReason returns the progress after a response. A Turn that needs another model call after its last iteration is
// complete, and its tool calls are dropped and not counted (TURN-14). Otherwise tool calls open an act step of the same
// iteration (TURN-06), and pending messages, however many, another model call (TURN-07, STEER-02). Without either the
// Turn is complete (TURN-08). maxIterations of 0 stands for the default.
func AfterReason(p v1alpha1.TurnProgress, r Response, pending int, maxIterations int32) v1alpha1.TurnProgress {
	if maxIterations <= 0 {
		maxIterations = v1alpha1.DefaultMaxIterations
	}
	next := following(p)
	AddCall(next.Summary, r.Usage)
	goesOn := r.Planned > 0 || pending > 0
	switch {
	case goesOn && next.Iteration >= maxIterations:
		complete(&next, v1alpha1.TurnPhaseSucceeded, v1alpha1.StopReasonMaxTurnRequests)
	case r.Planned > 0:
		next.Phase, next.Plan.Phase = v1alpha1.TurnPhaseAct, v1alpha1.PlanPhaseAct
		next.ToolCalls = r.Calls
		next.Summary.ToolCalls = addCount(next.Summary.ToolCalls, r.Planned)
		countSubAgents(&next)
		CountCalls(&next)
	case goesOn:
		reason(&next)
	default:
		complete(&next, v1alpha1.TurnPhaseSucceeded, StopReasonOf(r.FinishReason))
	}
	return next
}

// AfterAct returns the progress after an act step: a model call of the next iteration (TURN-11, SM-07).
func AfterAct(p v1alpha1.TurnProgress) v1alpha1.TurnProgress {
	next := following(p)
	reason(&next)
	return next
}

// Compacted returns the progress after a step that has compacted the conversation, and opened as a model call: that
// call is the next step, in the same iteration (LLM-08).
func Compacted(p v1alpha1.TurnProgress, trigger v1alpha1.CompactionTrigger) v1alpha1.TurnProgress {
	next := following(p)
	next.Phase, next.Plan.Phase, next.Plan.Compacted = v1alpha1.TurnPhaseReason, v1alpha1.PlanPhaseReason, trigger
	next.Summary.Compactions = addCount(next.Summary.Compactions, 1)
	return next
}

// AddCall adds a model call to the totals of a Turn.
func AddCall(sum *v1alpha1.TurnSummary, usage v1alpha1.Usage) {
	sum.ModelCalls = addCount(sum.ModelCalls, 1)
	sum.Usage = addUsage(sum.Usage, usage)
}

// Fail returns the progress of a Turn that fails in its open step, whatever the step has produced so far (TURN-09).
func Fail(p v1alpha1.TurnProgress) v1alpha1.TurnProgress {
	next := following(p)
	complete(&next, v1alpha1.TurnPhaseFailed, "")
	return next
}

// Cancel returns the progress of a Turn that is cancelled in its open step.
func Cancel(p v1alpha1.TurnProgress) v1alpha1.TurnProgress {
	next := following(p)
	complete(&next, v1alpha1.TurnPhaseCancelled, "")
	return next
}

// Waits reports whether a Turn waits for the results of client tools: always, or with the policy FollowHints only if
// the Session's hint setup_connection is true (TURN-11, TURN-12, CLIENT-03, GAP-06).
func Waits(policy v1alpha1.ClientToolsPolicy, hints map[string]v1alpha1.JSON) bool {
	return policy != v1alpha1.ClientToolsPolicyFollowHints ||
		bytes.Equal(bytes.TrimSpace(hints[v1alpha1.HintSetupConnection].Raw), []byte("true"))
}

// following returns the progress after the open step, without the decision. The calls of the newest act step stay, so
// that users can see how they ended.
func following(p v1alpha1.TurnProgress) v1alpha1.TurnProgress {
	next := *p.DeepCopy()
	next.Plan = &v1alpha1.TurnPlan{Step: 1}
	next.Iteration, next.WaitsFor = max(p.Iteration, 1), nil
	if next.Summary == nil {
		next.Summary = &v1alpha1.TurnSummary{}
	}
	if p.Plan != nil {
		next.Plan.Step = p.Plan.Step + 1
		if p.Plan.Phase == v1alpha1.PlanPhaseAct {
			next.Summary.FailedToolCalls += failedCalls(p.ToolCalls)
		}
	}
	CountCalls(&next)
	return next
}

// reason opens a model call of the next iteration. The iteration saturates: it must not wrap round to the first one
// (TURN-13).
func reason(next *v1alpha1.TurnProgress) {
	next.Phase, next.Plan.Phase = v1alpha1.TurnPhaseReason, v1alpha1.PlanPhaseReason
	next.Iteration = addCount(next.Iteration, 1)
}

// complete ends the Turn in the step that was open.
func complete(next *v1alpha1.TurnProgress, phase v1alpha1.TurnPhase, why v1alpha1.StopReason) {
	next.Phase = phase
	next.Plan = &v1alpha1.TurnPlan{Step: next.Plan.Step - 1, Phase: v1alpha1.PlanPhaseComplete, StopReason: why}
}

func addCount(count int32, more int) int32 {
	return int32(min(int64(count)+int64(more), math.MaxInt32))
}

// addUsage returns the sum of both. Sums saturate, and a negative count is taken as 0: a provider must not lower a
// total that budgets are held against.
func addUsage(sum, more v1alpha1.Usage) v1alpha1.Usage {
	sum.InputTokens = addTokens(sum.InputTokens, more.InputTokens)
	sum.OutputTokens = addTokens(sum.OutputTokens, more.OutputTokens)
	sum.TotalTokens = addTokens(sum.InputTokens, sum.OutputTokens)
	return sum
}

func addTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
