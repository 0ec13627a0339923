package toolresult

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/condition"
)

// verdict is what is said of a ToolResult. An empty reason says nothing: its Turn will.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// decide says what becomes of a ToolResult. turn is the one that it names; nil when there is none.
func decide(result *v1alpha1.ToolResult, turn *v1alpha1.Turn) verdict {
	ref := result.Spec.TurnRef
	if turn == nil {
		return pending(v1alpha1.ReasonTurnNotFound, fmt.Sprintf("Turn %q does not exist yet. The result is kept until it asks for call %s.", ref.Name, result.Spec.CallID))
	}
	if ref.UID != "" && ref.UID != turn.UID {
		return refused(v1alpha1.ReasonTurnReplaced, fmt.Sprintf("Turn %q has the UID %s, not %s: it was deleted and created again.", ref.Name, turn.UID, ref.UID))
	}
	call := find(turn.Status.ToolCalls, result.Spec.CallID)
	if condition.IsTrue(turn.Status.Conditions, v1alpha1.ConditionFinished) {
		return closed(result, call, fmt.Sprintf("Turn %q has ended.", turn.Name))
	}
	if call == nil {
		return unknown(result, turn)
	}
	if call.Executor != v1alpha1.ExecutorClient {
		return refused(v1alpha1.ReasonNotAClientTool, fmt.Sprintf("Call %s of Turn %q is run by the manager and takes no result from outside.", call.ID, turn.Name))
	}
	if call.State.Settled() {
		return closed(result, call, "")
	}
	return verdict{}
}

// closed refuses a result for a call, or a Turn, that waits for nothing any more.
func closed(result *v1alpha1.ToolResult, call *v1alpha1.ToolCall, why string) verdict {
	if call != nil && call.Executor == v1alpha1.ExecutorClient && (call.State == v1alpha1.CallSucceeded || call.State == v1alpha1.CallFailed) {
		return refused(v1alpha1.ReasonAlreadyAnswered, fmt.Sprintf("Another ToolResult answered call %s first.", call.ID))
	}
	if why == "" {
		why = "It was given up."
	}
	return refused(v1alpha1.ReasonCallClosed, fmt.Sprintf("Call %s waits for no result any more. %s", result.Spec.CallID, why))
}

// unknown deals with a call that the Turn's status does not name. Before the Turn has asked for anything, it may still come; once the Turn
// waits, or is past the call, it will not.
func unknown(result *v1alpha1.ToolResult, turn *v1alpha1.Turn) verdict {
	waiting := waitingCalls(turn.Status.ToolCalls)
	if len(waiting) > 0 {
		return refused(v1alpha1.ReasonUnknownCall,
			fmt.Sprintf("Turn %q waits for no call %s. It waits for: %s.", turn.Name, result.Spec.CallID, strings.Join(waiting, ", ")))
	}
	if iterationOf(result.Spec.CallID) < int64(turn.Status.Iteration) {
		return refused(v1alpha1.ReasonCallClosed, fmt.Sprintf("Turn %q is past call %s.", turn.Name, result.Spec.CallID))
	}
	return pending(v1alpha1.ReasonCallPending, fmt.Sprintf("Turn %q has not asked for call %s yet. The result is kept until it does.", turn.Name, result.Spec.CallID))
}

// waitingCalls names the calls that wait for a ToolResult, with their tools.
func waitingCalls(calls []v1alpha1.ToolCall) []string {
	var names []string
	for _, call := range calls {
		if call.State == v1alpha1.CallWaiting {
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

func pending(reason, message string) verdict {
	return verdict{metav1.ConditionUnknown, reason, message}
}

func refused(reason, message string) verdict {
	return verdict{metav1.ConditionFalse, reason, message}
}
