// Package condition keeps the conditions of an object. It is pure: callers read and write the objects.
package condition

import (
	"slices"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MaxMessageBytes is the most bytes of a condition's message; longer ones are truncated.
const MaxMessageBytes = 1024

// ellipsis ends a message that was cut.
const ellipsis = "…"

// Set puts a condition in its place, or after the others when it is new. lastTransitionTime becomes now, to the second,
// only when the status changes, so that saying the same again changes nothing.
func Set(
	conditions *[]metav1.Condition,
	generation int64,
	now metav1.Time,
	kind string,
	status metav1.ConditionStatus,
	reason, message string,
) {
	next := metav1.Condition{
		Type:               kind,
		Status:             status,
		ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		Reason:             reason,
		Message:            cut(message),
	}
	current := Find(*conditions, kind)
	if current == nil {
		*conditions = append(*conditions, next)
		return
	}
	// Earlier versions of the API had default conditions with the earliest time there is: no process has set them.
	if current.Status == status && current.LastTransitionTime.Unix() > 0 {
		next.LastTransitionTime = current.LastTransitionTime
	}
	*current = next
}

// Find returns the condition of a type, for reading or changing in place; nil if there is none.
func Find(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether there is a condition of the type and that it is True.
func IsTrue(conditions []metav1.Condition, kind string) bool {
	current := Find(conditions, kind)
	return current != nil && current.Status == metav1.ConditionTrue
}

// Cut is a message as Set stores it.
func Cut(message string) string { return cut(message) }

// cut shortens a message to MaxMessageBytes, between two characters.
func cut(message string) string {
	if len(message) <= MaxMessageBytes {
		return message
	}
	end := MaxMessageBytes - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}

// SetReady sets the Ready condition: True with ReasonReady, False with any other reason.
func SetReady(conditions *[]metav1.Condition, generation int64, now metav1.Time, reason, message string) {
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonReady {
		status = metav1.ConditionTrue
	}
	Set(conditions, generation, now, v1alpha1.ConditionReady, status, reason, message)
}

// SetStalled sets the condition that only a change of the spec can help. It exists only while it is True, as kstatus
// requires.
func SetStalled(
	conditions *[]metav1.Condition,
	generation int64,
	now metav1.Time,
	stalled bool,
	reason, message string,
) {
	if !stalled {
		remove(conditions, v1alpha1.ConditionStalled)
		return
	}
	Set(conditions, generation, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// SetAccepted sets the state of a ToolResult: True if it is part of its Turn, False if it never will be, Unknown while
// it waits. kstatus does not know this condition, so that Reconciling is set too while it waits, and Stalled once it is
// refused.
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
		remove(conditions, v1alpha1.ConditionReconciling)
	}
	SetStalled(conditions, generation, now, status == metav1.ConditionFalse, reason, message)
}

// remove takes the condition of a type away.
func remove(conditions *[]metav1.Condition, kind string) {
	*conditions = slices.DeleteFunc(*conditions, func(c metav1.Condition) bool { return c.Type == kind })
}
