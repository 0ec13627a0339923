package turn

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/host"
)

// timeLimit is when a Turn that runs must have ended, or must have stopped to wait.
type timeLimit struct {
	at     time.Time
	expiry host.Expiry
}

// timeLimits are those that hold for the Turn as it stands. They follow from what is in its status, so that a restart changes nothing.
func timeLimits(turn *v1alpha1.Turn) []timeLimit {
	var limits []timeLimit
	if seconds, sum := turn.Spec.ActiveDeadlineSeconds, turn.Status.Summary; seconds != nil && sum != nil && sum.StartedAt != nil {
		allowed := time.Duration(*seconds) * time.Second
		limits = append(limits, timeLimit{sum.StartedAt.Add(allowed), host.DeadlineExceeded(allowed)})
	}
	waits := condition.Find(turn.Status.Conditions, v1alpha1.ConditionWaitingForToolResults)
	if seconds := turn.Spec.WaitTimeoutSeconds; seconds != nil && turn.Status.Phase == v1alpha1.TurnWaitingForToolResults && waits != nil {
		allowed := time.Duration(*seconds) * time.Second
		limits = append(limits, timeLimit{waits.LastTransitionTime.Add(allowed), host.WaitTimeout(allowed)})
	}
	return limits
}

// expire closes the open step when a time limit has passed, and asks to be woken when one will.
func (r *Reconciler) expire(ctx context.Context, s *scope) (flow, error) {
	for _, limit := range timeLimits(s.turn) {
		if r.Clock().Before(limit.at) {
			s.deadline(limit.at)
			continue
		}
		r.Activities.Cancel(s.turn.UID)
		step := s.memory.of(s.plan().Step)
		closed, err := r.Host.Expire(ctx, s.hostTurn(), limit.expiry, step.results())
		if err != nil {
			return stop, err
		}
		step.closed = closed
		return again, nil
	}
	return proceed, nil
}
