package queue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// suspendedMessage is the condition message of a suspended Turn.
const suspendedMessage = "The Turn is suspended. Set spec.suspend to false to let the Session admit it."

// The condition messages of a queued Turn whose Session can run it.
const (
	behindMessage = "Waiting for earlier Turns of the Session, which runs its Turns in the order of their creation."
	slotMessage   = "The Turn is the next of its Session, but the manager's limit of active Turns is reached. It begins " +
		"when another Turn ends or waits."
)

// Reason returns the condition reason and message of a queued Turn. session is nil if it does not exist. next is the
// Turn that the Session runs next; only that one repeats why the Session cannot run Turns, so that a long queue costs
// no writes. limit is the namespace's limit of begun Turns if it holds the Session back, and otherwise 0.
func Reason(session *v1alpha1.Session, turn, next *v1alpha1.Turn, limit int64) (reason, message string) {
	switch {
	case Suspended(turn):
		return v1alpha1.ReasonSuspended, suspendedMessage
	case session == nil:
		return v1alpha1.ReasonSessionNotFound,
			fmt.Sprintf("Session %q does not exist. Create it, or delete this Turn.", turn.Spec.SessionRef.Name)
	case session.Status.ActiveTurn != nil, next != nil && next.UID != turn.UID:
		return v1alpha1.ReasonQueued, behindMessage
	case next == nil:
		return v1alpha1.ReasonQueued, turnstate.QueuedMessage
	}
	if Blocked(session) {
		ready := meta.FindStatusCondition(session.Status.Conditions, v1alpha1.ConditionReady)
		return v1alpha1.ReasonSessionNotReady,
			fmt.Sprintf("Session %q cannot run the Turn (%s). %s", session.Name, ready.Reason, ready.Message)
	}
	if limit > 0 {
		return v1alpha1.ReasonTurnLimit, fmt.Sprintf("Namespace %q has reached the limit of %d Turns that have begun and "+
			"not ended, including those that wait; a waiting Turn counts once for each 8 KiB of its status. The Turn begins "+
			"when one of them ends: create the ToolResults that they wait for, or cancel them.", session.Namespace, limit)
	}
	return v1alpha1.ReasonQueued, slotMessage
}

// Blocked reports whether a Session cannot run any Turn and its condition is False.
func Blocked(session *v1alpha1.Session) bool {
	ready := meta.FindStatusCondition(session.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionFalse && session.Status.ActiveTurn == nil
}

// States reports whether the conditions of a queued Turn state a reason. A Turn without conditions states that it is
// queued.
func States(turn *v1alpha1.Turn, reason, message string) bool {
	succeeded := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	if succeeded == nil {
		return reason == v1alpha1.ReasonQueued
	}
	return succeeded.Reason == reason && succeeded.Message == condition.Cut(message)
}

// Outdated returns the queued Turns whose conditions differ from Reason.
func Outdated(session *v1alpha1.Session, turns []*v1alpha1.Turn, limit int64) []*v1alpha1.Turn {
	next := Next(turns)
	var outdated []*v1alpha1.Turn
	for _, turn := range turns {
		if !Runnable(turn) || turn.Status.Plan != nil {
			continue
		}
		if active := session.Status.ActiveTurn; active != nil && active.UID == turn.UID {
			continue
		}
		if reason, message := Reason(session, turn, next, limit); !States(turn, reason, message) {
			outdated = append(outdated, turn)
		}
	}
	return outdated
}
