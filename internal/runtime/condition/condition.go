// Package condition adds to k8s.io/apimachinery/pkg/api/meta what the conditions of the kinds need: bounded
// messages, times to the second, and the conditions that kstatus reads. Package meta sets and reads them.
package condition

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

// MaxMessageBytes is the most bytes of a condition's message; longer ones are truncated.
const MaxMessageBytes = 1024

// Set sets a condition. lastTransitionTime becomes now, to the second, only when the status changes.
func Set(
	conditions *[]metav1.Condition,
	generation int64,
	now metav1.Time,
	kind string,
	status metav1.ConditionStatus,
	reason, message string,
) {
	at := metav1.NewTime(now.Truncate(time.Second))
	// Earlier versions of the API had default conditions with the zero time, which no process has set.
	if current := meta.FindStatusCondition(*conditions, kind); current != nil && current.LastTransitionTime.Unix() <= 0 {
		current.LastTransitionTime = at
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, LastTransitionTime: at, Reason: reason,
		Message: Cut(message),
	})
}

// Cut returns a message as Set stores it: shortened to MaxMessageBytes, between two characters.
func Cut(message string) string {
	return excerpt.Of(message, MaxMessageBytes)
}

// SetReady sets the Ready condition: True with ReasonReady, False with any other reason.
func SetReady(conditions *[]metav1.Condition, generation int64, now metav1.Time, reason, message string) {
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonReady {
		status = metav1.ConditionTrue
	}
	Set(conditions, generation, now, v1alpha1.ConditionReady, status, reason, message)
}

// SetStalled sets the condition Stalled: only a change of the spec can help. It exists only while it is True, as
// kstatus requires.
func SetStalled(
	conditions *[]metav1.Condition,
	generation int64,
	now metav1.Time,
	stalled bool,
	reason, message string,
) {
	if !stalled {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionStalled)
		return
	}
	Set(conditions, generation, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// SetAccepted sets the state of a ToolResult: True once its Turn has accepted it, False once it is refused, Unknown
// while it waits. kstatus does not know this condition, so that Reconciling is set too while it waits, and Stalled once
// it is refused.
func SetAccepted(
	conditions *[]metav1.Condition,
	generation int64,
	now metav1.Time,
	status metav1.ConditionStatus,
	reason, message string,
) {
	Set(conditions, generation, now, v1alpha1.ConditionAccepted, status, reason, message)
	if status == metav1.ConditionUnknown {
		Set(conditions, generation, now, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	} else {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionReconciling)
	}
	SetStalled(conditions, generation, now, status == metav1.ConditionFalse, reason, message)
}
