// Package toolresult judges ToolResults for the calls of a Turn: results of client tools, decisions, and answers to
// questions of tools (CLIENT-04, TOOL-07). It is pure.
package toolresult

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
)

// Acceptance is the condition Accepted of a ToolResult. An empty Reason leaves it to the Turn.
type Acceptance struct {
	// Status of the condition: Unknown while the call may still come, False when the ToolResult is refused.
	Status metav1.ConditionStatus
	// Reason and Message of the condition.
	Reason, Message string
}

// Evaluate decides whether a ToolResult is accepted. turn is the one that it names; nil for none.
func Evaluate(result *v1alpha1.ToolResult, turn *v1alpha1.Turn) Acceptance {
	ref, binds := result.Spec.TurnRef, bound(result)
	if turn == nil {
		if binds {
			return refused(v1alpha1.ReasonTurnNotFound, fmt.Sprintf("Turn %q does not exist. Create a "+
				"decision only for a call that is waiting for approval, and an answer only for one that asks for it.", ref.Name))
		}
		if ref.UID != "" {
			return refused(v1alpha1.ReasonTurnNotFound,
				fmt.Sprintf("Turn %q with UID %s no longer exists.", ref.Name, ref.UID))
		}
		return pending(v1alpha1.ReasonTurnNotFound, fmt.Sprintf("Turn %q does not exist yet. "+
			"The result is kept until the Turn makes call %s.", ref.Name, result.Spec.CallID))
	}
	if (ref.UID != "" || binds) && ref.UID != turn.UID {
		return refused(
			v1alpha1.ReasonTurnReplaced,
			fmt.Sprintf("Turn %q has UID %s, not %s: it was deleted and recreated.", ref.Name, turn.UID, ref.UID),
		)
	}
	if binds && !turn.DeletionTimestamp.IsZero() {
		return refused(v1alpha1.ReasonCallClosed, fmt.Sprintf("Turn %q is being deleted.", turn.Name))
	}
	call := find(turn.Status.ToolCalls, result.Spec.CallID)
	if meta.IsStatusConditionTrue(turn.Status.Conditions, v1alpha1.ConditionFinished) {
		return closed(result, call, fmt.Sprintf("Turn %q has ended.", turn.Name))
	}
	if call == nil {
		return unknown(result, turn)
	}
	if result.Spec.Input != nil {
		return evaluateInput(result, turn, call)
	}
	if problem := mistaken(result, call, turn); problem.Reason != "" {
		return problem
	}
	if !act.Open(*call) || call.Attempt > 0 {
		return closed(result, call, "")
	}
	if by := result.Spec.TurnSubmittedBy; by != "" && by != turn.Spec.SubmittedBy {
		return refused(v1alpha1.ReasonTurnSubmitterMismatch, fmt.Sprintf(
			"turnSubmittedBy %q differs from spec.submittedBy of Turn %q. Set it to the value of the Turn.",
			by, turn.Name))
	}
	if otherSteers(result, turn) {
		return refused(v1alpha1.ReasonTurnSubmitterMismatch, fmt.Sprintf(
			"turnSteeredBy %q differs from status.steeredBy of Turn %q. Set it to the value of the Turn.",
			result.Spec.TurnSteeredBy, turn.Name))
	}
	if result.Spec.Decision != "" && !Binds(result, turn, call) {
		return refused(v1alpha1.ReasonCallDigestMismatch, fmt.Sprintf(
			"The decision is for another call: call %s (%s) of Turn %q has the callDigest %s. Review the call and "+
				"decide again.", call.ID, call.Name, turn.Name, call.CallDigest))
	}
	return Acceptance{}
}

// bound reports whether a ToolResult is about what a call of a Turn shows, and never kept for a later one.
func bound(result *v1alpha1.ToolResult) bool {
	return result.Spec.Decision != "" || result.Spec.Input != nil
}

// Binds reports whether a decision is about this very call: of this Turn, with these arguments, of the Tool as it was
// when the call was planned; or an answer about the very questions of the call.
func Binds(decision *v1alpha1.ToolResult, turn *v1alpha1.Turn, call *v1alpha1.ToolCall) bool {
	ref, by := decision.Spec.TurnRef, decision.Spec.TurnSubmittedBy
	if by != "" && by != turn.Spec.SubmittedBy || otherSteers(decision, turn) {
		return false
	}
	return decision.Spec.CallID == call.ID && ref.UID != "" && ref.UID == turn.UID && call.CallDigest != "" &&
		decision.Spec.CallDigest == call.CallDigest
}

// otherSteers reports whether an approval under four eyes names other users than those whose messages were steered into
// the Turn: the four-eyes policy, which knows only the ToolResult, could not have refused it to one of them.
func otherSteers(result *v1alpha1.ToolResult, turn *v1alpha1.Turn) bool {
	if result.Spec.Decision != v1alpha1.DecisionApprove || result.Spec.TurnSubmittedBy == "" {
		return false
	}
	return !sets.New(result.Spec.TurnSteeredBy...).Equal(sets.New(turn.Status.SteeredBy...))
}

// mistaken refuses ToolResults that do not answer the call: a result for a call that no client runs, and a decision
// about a call that needs none.
func mistaken(result *v1alpha1.ToolResult, call *v1alpha1.ToolCall, turn *v1alpha1.Turn) Acceptance {
	switch {
	case result.Spec.Decision != "" && call.Policy != v1alpha1.ToolPolicyRequiresApproval:
		return refused(
			v1alpha1.ReasonNoApprovalNeeded,
			fmt.Sprintf("Call %s (%s) of Turn %q does not require approval.", call.ID, call.Name, turn.Name),
		)
	case result.Spec.Decision != "" || call.Executor == v1alpha1.ToolExecutorClient:
		return Acceptance{}
	case act.AwaitsInput(*call):
		return refused(v1alpha1.ReasonInputExpected, fmt.Sprintf(
			"Call %s (%s) of Turn %q is waiting for answers to its questions, not for a result. Create a ToolResult with "+
				"input.", call.ID, call.Name, turn.Name))
	case act.AwaitsApproval(*call):
		return refused(v1alpha1.ReasonDecisionExpected, fmt.Sprintf(
			"Call %s (%s) of Turn %q is waiting for approval, not for a result. Create a ToolResult with decision "+
				"Approve or Reject.",
			call.ID,
			call.Name,
			turn.Name,
		))
	default:
		return refused(v1alpha1.ReasonNotAClientTool, fmt.Sprintf("Call %s of Turn %q is run by the manager "+
			"and does not accept a client result.", call.ID, turn.Name))
	}
}

// closed refuses a result for a call, or a Turn, that waits for nothing any more.
func closed(result *v1alpha1.ToolResult, call *v1alpha1.ToolCall, why string) Acceptance {
	switch {
	case call == nil:
	case call.Executor == v1alpha1.ToolExecutorClient &&
		(call.State == v1alpha1.ToolCallStateSucceeded || call.State == v1alpha1.ToolCallStateFailed):
		return refused(v1alpha1.ReasonAlreadyAnswered,
			fmt.Sprintf("Another ToolResult provided the result of call %s first.", call.ID))
	case result.Spec.Decision != "" && decidedAbout(call):
		return refused(
			v1alpha1.ReasonAlreadyAnswered,
			fmt.Sprintf("Another ToolResult approved or rejected call %s first.", call.ID),
		)
	case why == "" && call.Reason == v1alpha1.ToolCallReasonApprovalTimeout:
		why = "It was not approved in time."
	}
	if why == "" {
		why = "It was abandoned."
	}
	return refused(
		v1alpha1.ReasonCallClosed,
		fmt.Sprintf("Call %s no longer waits for a result. %s", result.Spec.CallID, why),
	)
}

// decidedAbout reports whether a call which needs approval was approved or rejected.
func decidedAbout(call *v1alpha1.ToolCall) bool {
	return call.Policy == v1alpha1.ToolPolicyRequiresApproval &&
		(call.Attempt > 0 || call.Reason == v1alpha1.ToolCallReasonRejected)
}

// unknown handles a call that is not in the Turn's status. Before the Turn has planned any call, it may still come;
// once the Turn waits, or is past the call, it will not. A decision is about a call that users can see, and never kept
// for a later one.
func unknown(result *v1alpha1.ToolResult, turn *v1alpha1.Turn) Acceptance {
	waiting := waitingCalls(turn.Status.ToolCalls)
	if len(waiting) > 0 {
		return refused(
			v1alpha1.ReasonUnknownCall,
			fmt.Sprintf(
				"Turn %q is not waiting for call %s. It is waiting for: %s.",
				turn.Name,
				result.Spec.CallID,
				strings.Join(waiting, ", "),
			),
		)
	}
	if iterationOf(result.Spec.CallID) < int64(turn.Status.Iteration) {
		return refused(v1alpha1.ReasonCallClosed,
			fmt.Sprintf("Turn %q no longer waits for call %s.", turn.Name, result.Spec.CallID))
	}
	if bound(result) {
		return refused(v1alpha1.ReasonUnknownCall, fmt.Sprintf(
			"Turn %q has not made call %s. Create a decision only for a call that is waiting for approval, and an answer only "+
				"for one that asks for it.", turn.Name, result.Spec.CallID))
	}
	return pending(v1alpha1.ReasonCallPending, fmt.Sprintf("Turn %q has not made call %s yet. "+
		"The result is kept until it does.", turn.Name, result.Spec.CallID))
}

// waitingCalls names the calls that wait for a ToolResult, with their tools.
func waitingCalls(calls []v1alpha1.ToolCall) []string {
	var names []string
	for _, call := range calls {
		if call.State == v1alpha1.ToolCallStateWaiting {
			names = append(names, call.ID+" ("+call.Name+")")
		}
	}
	return names
}

// iterationOf is the iteration that a call id names.
func iterationOf(id string) int64 {
	var iteration, index int64
	if _, err := fmt.Sscanf(id, "%d-%d", &iteration, &index); err != nil {
		return 0
	}
	return iteration
}

func find(calls []v1alpha1.ToolCall, id string) *v1alpha1.ToolCall {
	for i := range calls {
		if calls[i].ID == id {
			return &calls[i]
		}
	}
	return nil
}

func pending(reason, message string) Acceptance {
	return Acceptance{metav1.ConditionUnknown, reason, message}
}

func refused(reason, message string) Acceptance {
	return Acceptance{metav1.ConditionFalse, reason, message}
}
