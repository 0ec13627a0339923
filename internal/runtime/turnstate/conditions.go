package turnstate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// Apply sets the status that a step's entry determines, at the time of that entry. The same entry produces the same
// status after any crash (invariant 3). Only the pods of calls may be known from status alone: the process that wrote
// the entry may not have seen that another one had recorded them.
func Apply(status *v1alpha1.TurnStatus, generation int64, progress v1alpha1.TurnProgress, at metav1.MicroTime) {
	before := status.ToolCalls
	status.TurnProgress = *progress.DeepCopy()
	act.KeepPods(status.ToolCalls, before)
	fitTotals(status.ToolCalls)
	SetConditions(status, generation, metav1.NewTime(at.Truncate(time.Second)))
}

// order is that of the conditions in status, however a Turn came to have them.
var order = []string{
	v1alpha1.ConditionWaitingForToolResults, v1alpha1.ConditionRecovered, v1alpha1.ConditionSucceeded,
	v1alpha1.ConditionFinished, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
}

// set sets one condition and keeps the order.
func set(
	status *v1alpha1.TurnStatus, generation int64, at metav1.Time,
	kind string, value metav1.ConditionStatus, reason, message string,
) {
	condition.Set(&status.Conditions, generation, at, kind, value, reason, message)
	slices.SortStableFunc(status.Conditions, func(a, b metav1.Condition) int {
		return cmp.Compare(slices.Index(order, a.Type), slices.Index(order, b.Type))
	})
}

// SetConditions derives the conditions from the progress.
func SetConditions(status *v1alpha1.TurnStatus, generation int64, at metav1.Time) {
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		set(status, generation, at, kind, value, reason, message)
	}
	if status.Phase == v1alpha1.TurnPhaseWaitingForToolResults {
		reason, message := WaitsFor(status.ToolCalls)
		set(v1alpha1.ConditionWaitingForToolResults, metav1.ConditionTrue, reason, message)
	} else {
		set(v1alpha1.ConditionWaitingForToolResults, metav1.ConditionFalse, v1alpha1.ReasonNotWaiting,
			"The Turn is not waiting for tool results.")
	}
	if status.Recovered == v1alpha1.TurnRecoveryFinalized {
		set(v1alpha1.ConditionRecovered, metav1.ConditionTrue, v1alpha1.ReasonFinalized,
			"The manager ended during a model call. The partial response was accepted as the response, as spec.recovery of "+
				"the Model specifies.")
	}
	switch status.Phase {
	case v1alpha1.TurnPhaseSucceeded:
		setEnd(set, metav1.ConditionTrue, string(status.Plan.StopReason), successMessage(status)+passedOver(status))
	case v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		reason, message := failure(status.Error)
		setEnd(set, metav1.ConditionFalse, reason, message+passedOver(status))
	default:
		reason, message := running(status)
		message += passedOver(status)
		set(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, message)
		set(v1alpha1.ConditionFinished, metav1.ConditionFalse, reason, message)
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
		set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonRunning, message)
	}
}

// successMessage returns the condition message of a Turn that succeeded.
func successMessage(status *v1alpha1.TurnStatus) string {
	if into := status.SteeredInto; into != nil {
		return fmt.Sprintf("The message was steered into the active Turn %q, which has the response.", into.Name)
	}
	if status.Plan != nil && status.Plan.StopReason == v1alpha1.StopReasonMaxTurnRequests {
		return "The Turn reached maxIterations, its limit of model calls. The agent may not have finished: " +
			"raise maxIterations, or continue in another Turn."
	}
	return "The agent responded."
}

// setEnd sets the conditions of a Turn that has ended.
func setEnd(
	set func(string, metav1.ConditionStatus, string, string),
	succeeded metav1.ConditionStatus,
	reason, message string,
) {
	stalled := metav1.ConditionFalse
	if succeeded == metav1.ConditionFalse {
		stalled = metav1.ConditionTrue
	}
	set(v1alpha1.ConditionSucceeded, succeeded, reason, message)
	set(v1alpha1.ConditionFinished, metav1.ConditionTrue, v1alpha1.ReasonFinished, "The Turn has ended.")
	set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonFinished, "The Turn has ended.")
	set(v1alpha1.ConditionStalled, stalled, reason, message)
}

// passedOver returns the sentence about a Model that the controls name and that did not exist; empty for none (CFG-07).
func passedOver(status *v1alpha1.TurnStatus) string {
	if status.ModelNotFound == "" {
		return ""
	}
	return fmt.Sprintf(" Model %q of controls.modelRef does not exist and was ignored.",
		status.ModelNotFound)
}

// running returns why a Turn that has begun has not ended. Its wait may have its own reason.
func running(status *v1alpha1.TurnStatus) (reason, message string) {
	reason = v1alpha1.ReasonRunning
	if (status.Phase == v1alpha1.TurnPhaseWaiting || refused(status)) && len(status.WaitsFor) > 0 &&
		status.WaitsFor[0].Reason != "" {
		reason = status.WaitsFor[0].Reason
	}
	return reason, runningMessage(status)
}

// refused reports whether the API server rejects an object that a tool call needs to start.
func refused(status *v1alpha1.TurnStatus) bool {
	return status.Phase == v1alpha1.TurnPhaseAct && len(status.WaitsFor) > 0 &&
		status.WaitsFor[0].Type == v1alpha1.WaitTypeCluster
}

// runningMessage returns the current activity of the Turn, in a text that does not change while the activity runs.
func runningMessage(status *v1alpha1.TurnStatus) string {
	switch status.Phase {
	case v1alpha1.TurnPhaseReason:
		return fmt.Sprintf("Model call %d is in progress.", status.Iteration)
	case v1alpha1.TurnPhaseAct:
		if refused(status) {
			return status.WaitsFor[0].Message
		}
		return fmt.Sprintf("The tool calls of model call %d are in progress.", status.Iteration)
	case v1alpha1.TurnPhaseWaiting:
		if len(status.WaitsFor) > 0 {
			return status.WaitsFor[0].Message
		}
		return "The Turn is waiting."
	case v1alpha1.TurnPhaseWaitingForToolResults:
		return "The Turn is waiting for tool results."
	default:
		return QueuedMessage
	}
}

// QueuedMessage is the condition message of a Turn that is not admitted yet. A Turn without conditions is one, too.
const QueuedMessage = "Waiting for admission by the Session, which runs its Turns in the order of their creation."

// failure returns the reason and message of a Turn that did not succeed.
func failure(err *v1alpha1.TurnError) (reason, message string) {
	if err == nil {
		return v1alpha1.ReasonFailed, "The Turn failed."
	}
	message = err.Message
	for _, field := range []string{v1alpha1.ErrorFieldProblem, v1alpha1.ErrorFieldRemedy} {
		text := strings.TrimSpace(err.Fields[field])
		if text == "" || strings.Contains(message, text) {
			continue
		}
		message += " " + strings.ToUpper(text[:1]) + text[1:]
		if !strings.HasSuffix(message, ".") {
			message += "."
		}
	}
	return reasonOf(err.Code), message
}

// reasons are the condition reasons of the error codes.
var reasons = map[v1alpha1.ErrorCode]string{
	v1alpha1.ErrorCodeModelUnavailable:        v1alpha1.ReasonModelUnavailable,
	v1alpha1.ErrorCodeRequestTooLarge:         v1alpha1.ReasonRequestTooLarge,
	v1alpha1.ErrorCodeProviderRateLimited:     v1alpha1.ReasonProviderRateLimited,
	v1alpha1.ErrorCodeProviderMisconfigured:   v1alpha1.ReasonProviderMisconfigured,
	v1alpha1.ErrorCodeProviderQuotaExhausted:  v1alpha1.ReasonProviderQuotaExhausted,
	v1alpha1.ErrorCodeProviderUnavailable:     v1alpha1.ReasonProviderUnavailable,
	v1alpha1.ErrorCodeDependencyUnavailable:   v1alpha1.ReasonDependencyUnavailable,
	v1alpha1.ErrorCodeBlockedByUserPromptHook: v1alpha1.ReasonBlockedByUserPromptHook,
	v1alpha1.ErrorCodeProcessingError:         v1alpha1.ReasonProcessingError,
	v1alpha1.ErrorCodeCancelled:               v1alpha1.ReasonCancelled,
	v1alpha1.ErrorCodeDeadlineExceeded:        v1alpha1.ReasonDeadlineExceeded,
	v1alpha1.ErrorCodeWaitTimeout:             v1alpha1.ReasonWaitTimeout,
	v1alpha1.ErrorCodeJournalFull:             v1alpha1.ReasonJournalFull,
	v1alpha1.ErrorCodeNameReused:              v1alpha1.ReasonNameReused,
	v1alpha1.ErrorCodeInterrupted:             v1alpha1.ReasonInterrupted,
	v1alpha1.ErrorCodeBudgetExhausted:         v1alpha1.ReasonBudgetExhausted,
}

// reasonOf returns the condition reason of an error code; Failed for a code that this version does not know.
func reasonOf(code v1alpha1.ErrorCode) string {
	if reason, known := reasons[code]; known {
		return reason
	}
	return v1alpha1.ReasonFailed
}

// WaitsFor returns the condition message on the ToolResults that the Turn waits for, and for which calls. Those of
// destructive tools come first: a long message is cut.
func WaitsFor(calls []v1alpha1.ToolCall) (reason, message string) {
	var results, destructive, approvals, questions, connections []string
	for _, call := range calls {
		switch name := call.ID + " (" + call.Name + ")"; {
		case act.AwaitsApproval(call) && slices.Contains(call.Hints, v1alpha1.ToolHintDestructive):
			destructive = append(destructive, call.ID+" ("+call.Name+", destructive)")
		case act.AwaitsApproval(call):
			approvals = append(approvals, name)
		case act.AwaitsInput(call) && call.Reason == v1alpha1.ReasonConnection:
			connections = append(connections, name)
		case act.AwaitsInput(call):
			questions = append(questions, name)
		case call.State == v1alpha1.ToolCallStateWaiting:
			results = append(results, name)
		}
	}
	var sentences []string
	reason = v1alpha1.ReasonApproval
	if approvals = append(destructive, approvals...); len(approvals) > 0 {
		sentences = append(sentences, "Approve or reject with a ToolResult: "+strings.Join(approvals, ", ")+".")
	}
	if len(questions) > 0 {
		if len(approvals) == 0 {
			reason = v1alpha1.ReasonInput
		}
		sentences = append(sentences, "Answer the questions of tools with a ToolResult for each, as waitsFor describes: "+
			strings.Join(questions, ", ")+".")
	}
	if len(connections) > 0 {
		if len(sentences) == 0 {
			reason = v1alpha1.ReasonConnection
		}
		sentences = append(sentences, "Set up the connections that tools need, as waitsFor describes: "+
			strings.Join(connections, ", ")+".")
	}
	if len(results) > 0 || len(sentences) == 0 {
		reason = v1alpha1.ReasonClientTools
		sentences = append(sentences, "Create a ToolResult for each of: "+strings.Join(results, ", ")+".")
	}
	return reason, strings.Join(sentences, " ")
}

// Queue sets why a Turn has not begun.
func Queue(status *v1alpha1.TurnStatus, generation int64, at metav1.Time, reason, message string) {
	status.Phase = v1alpha1.TurnPhaseQueued
	set := func(kind string, value metav1.ConditionStatus) {
		set(status, generation, at, kind, value, reason, message)
	}
	set(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown)
	set(v1alpha1.ConditionFinished, metav1.ConditionFalse)
	set(v1alpha1.ConditionReconciling, metav1.ConditionTrue)
}

// Stall reports that the Turn has begun, or is about to begin, and cannot continue without a repair.
func Stall(status *v1alpha1.TurnStatus, generation int64, at metav1.Time, reason, message string) {
	set := func(kind string, value metav1.ConditionStatus) {
		set(status, generation, at, kind, value, reason, message)
	}
	set(v1alpha1.ConditionSucceeded, metav1.ConditionUnknown)
	set(v1alpha1.ConditionFinished, metav1.ConditionFalse)
	set(v1alpha1.ConditionReconciling, metav1.ConditionFalse)
	set(v1alpha1.ConditionStalled, metav1.ConditionTrue)
}

// AlreadyRan sets the reason in the conditions of a Turn that takes over the outcome of an earlier one of its name.
// That outcome, which Apply has put into the status, determines whether it succeeded.
func AlreadyRan(status *v1alpha1.TurnStatus, generation int64, at metav1.Time) {
	succeeded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded)
	message := fmt.Sprintf(
		"The Turn already ran in this Session and was not run again. It ended with %s: %s",
		succeeded.Reason,
		succeeded.Message,
	)
	set(
		status,
		generation,
		at,
		v1alpha1.ConditionSucceeded,
		succeeded.Status,
		v1alpha1.ReasonAlreadyRan,
		message,
	)
}

// Finished reports whether the Turn has ended.
func Finished(status *v1alpha1.TurnStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFinished)
}
