package session

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// phaseOf returns the phase of the Session (LIFE-08). active is its active Turn; nil for none.
func phaseOf(status *v1alpha1.SessionStatus, active *v1alpha1.Turn, usable bool) v1alpha1.SessionPhase {
	switch {
	case active != nil && active.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults:
		return v1alpha1.SessionPhaseWaitingForToolResults
	case active != nil && turnstate.WaitsForBudget(&active.Status.TurnProgress):
		return v1alpha1.SessionPhasePaused
	case status.ActiveTurn != nil:
		return v1alpha1.SessionPhaseActive
	case !usable:
		return v1alpha1.SessionPhasePending
	case status.Totals.Turns == 0:
		return v1alpha1.SessionPhaseStarted
	default:
		return v1alpha1.SessionPhaseIdle
	}
}

// ran reports whether a Turn that has ended ran by itself: it did not take over the outcome of an earlier one, did not
// go into another one, and was not refused for its name.
func ran(turn *v1alpha1.Turn) bool {
	succeeded := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	if succeeded == nil {
		return true
	}
	switch succeeded.Reason {
	case v1alpha1.ReasonAlreadyRan, v1alpha1.ReasonNameReused, v1alpha1.ReasonSteered:
		return false
	default:
		return true
	}
}

// setReady sets the Ready condition. reason is empty if the Session can be used; message then has additional notes.
func setReady(session *v1alpha1.Session, reason, message string, now metav1.Time) {
	value := metav1.ConditionFalse
	if reason == "" {
		value, reason = metav1.ConditionTrue, v1alpha1.ReasonReady
		message = strings.TrimSpace("All references of the Session are resolved. " + message)
	}
	condition.Set(&session.Status.Conditions, session.Generation, now, v1alpha1.ConditionReady, value, reason, message)
}
