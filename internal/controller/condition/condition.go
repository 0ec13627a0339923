// Package condition keeps the conditions of an object and writes its status: only what changed, and only if nobody else wrote in between.
package condition

import (
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// MaxMessageBytes is the most bytes that a condition's message may have; what is above is cut.
const MaxMessageBytes = 1024

// ellipsis ends a message that was cut.
const ellipsis = "…"

// Set puts a condition in its place, or after the others when it is new. lastTransitionTime becomes now, to the second, only when the status
// changes, so that saying the same again changes nothing.
func Set(conditions *[]metav1.Condition, generation int64, now metav1.Time, kind string, status metav1.ConditionStatus, reason, message string) {
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
	if current.Status == status && !current.LastTransitionTime.IsZero() {
		next.LastTransitionTime = current.LastTransitionTime
	}
	*current = next
}

// Find gives the condition of a type, for reading or changing in place; nil when there is none.
func Find(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// IsTrue says that there is a condition of the type and that it is True.
func IsTrue(conditions []metav1.Condition, kind string) bool {
	current := Find(conditions, kind)
	return current != nil && current.Status == metav1.ConditionTrue
}

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
