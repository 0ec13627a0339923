package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Finished reports whether the Turn has ended.
func Finished(turn *v1alpha1.Turn) bool {
	return turnstate.Finished(&turn.Status)
}

// Runnable reports whether the Turn can be admitted as it is. A Turn that is to be cancelled ends by itself while it is
// queued. One that has begun has an open step: if its Session has lost it, it is admitted again in any case, to close
// the step.
func Runnable(turn *v1alpha1.Turn) bool {
	if Finished(turn) {
		return false
	}
	return turn.Status.Plan != nil || turn.DeletionTimestamp.IsZero() &&
		turn.Spec.DesiredState != v1alpha1.DesiredStateCancelled &&
		!Suspended(turn)
}

// Suspended reports whether the Turn must not be admitted for now. It has no meaning for an admitted Turn.
func Suspended(turn *v1alpha1.Turn) bool {
	return ptr.Deref(turn.Spec.Suspend, false)
}

// Next returns the Turn that the Session runs next: the first in order that can be admitted; nil for none.
func Next(turns []*v1alpha1.Turn) *v1alpha1.Turn {
	open := runnable(turns)
	if len(open) == 0 {
		return nil
	}
	return open[0]
}

// MaxQueuedSteers is the most messages queued at an admission that are recorded by UID.
const MaxQueuedSteers = 64

// QueuedSteers returns the messages with delivery Steer that are queued when a Turn is admitted: they found no running
// Turn, or came too late for one. Creation times have a resolution of a second and cannot distinguish them from later
// messages. end is the place of the last of them if there are more than MaxQueuedSteers.
func QueuedSteers(turns []*v1alpha1.Turn, admitted types.UID) (queued []types.UID, end *v1alpha1.QueuePosition) {
	for _, turn := range runnable(turns) {
		if turn.Spec.Delivery != v1alpha1.DeliverySteer || turn.UID == admitted || turn.Status.Plan != nil {
			continue
		}
		if len(queued) == MaxQueuedSteers {
			end = positionOf(turn)
			continue
		}
		queued = append(queued, turn.UID)
	}
	return queued, end
}

// wasQueued reports whether a message was queued when the active Turn was admitted.
func wasQueued(turn *v1alpha1.Turn, active v1alpha1.ActiveTurn) bool {
	if active.QueueEnd != nil && compare(*positionOf(turn), *active.QueueEnd) <= 0 {
		return true
	}
	return slices.Contains(active.QueuedSteers, turn.UID)
}

// Steers returns the Turns whose messages go into the active one, in order: those with delivery Steer that were created
// after its admission. An earlier one is queued like any other.
func Steers(turns []*v1alpha1.Turn, active v1alpha1.ActiveTurn) []*v1alpha1.Turn {
	var steers []*v1alpha1.Turn
	for _, turn := range runnable(turns) {
		if turn.Spec.Delivery == v1alpha1.DeliverySteer && turn.UID != active.UID && turn.Status.Plan == nil &&
			!wasQueued(turn, active) {
			steers = append(steers, turn)
		}
	}
	return steers
}

// runnable returns the Turns that can be admitted, in order.
func runnable(turns []*v1alpha1.Turn) []*v1alpha1.Turn {
	var open []*v1alpha1.Turn
	for _, turn := range turns {
		if Runnable(turn) {
			open = append(open, turn)
		}
	}
	inOrder(open)
	return open
}
