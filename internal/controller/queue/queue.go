package queue

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/projection"
)

// Finished says that the Turn has ended.
func Finished(turn *v1alpha1.Turn) bool {
	return projection.Finished(&turn.Status)
}

// Runnable says that the Turn can still be admitted. A Turn that is to be cancelled ends by itself while it is queued.
func Runnable(turn *v1alpha1.Turn) bool {
	return turn.DeletionTimestamp.IsZero() && !Finished(turn) && turn.Spec.DesiredState != v1alpha1.DesiredCancelled
}

// Next is the Turn that the Session runs next: of those that can be admitted, the first in order. Nil for none.
func Next(turns []*v1alpha1.Turn) *v1alpha1.Turn {
	open := runnable(turns)
	if len(open) == 0 {
		return nil
	}
	return open[0]
}

// End is the place of the last of the Turns, whatever has become of them. Nil for none.
func End(turns []*v1alpha1.Turn) *v1alpha1.QueuePosition {
	var end *v1alpha1.QueuePosition
	for _, turn := range turns {
		if at := positionOf(turn); end == nil || compare(*at, *end) > 0 {
			end = at
		}
	}
	return end
}

// Steers are the Turns whose messages go into the active one, in order: those with delivery Steer that came when it was active already. One
// that came before had found no running Turn, or had come too late for one, and is queued like any other.
func Steers(turns []*v1alpha1.Turn, active v1alpha1.ActiveTurn) []*v1alpha1.Turn {
	var steers []*v1alpha1.Turn
	for _, turn := range runnable(turns) {
		queued := active.QueueEnd != nil && compare(*positionOf(turn), *active.QueueEnd) <= 0
		if turn.Spec.Delivery == v1alpha1.DeliverSteer && turn.UID != active.UID && turn.Status.Plan == nil && !queued {
			steers = append(steers, turn)
		}
	}
	return steers
}

// runnable are the Turns that can be admitted, in order.
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
