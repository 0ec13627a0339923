package turn

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// expire closes the open step when a time limit has passed, and schedules a pass for the next limit.
func (r *Reconciler) expire(ctx context.Context, s *scope) (flow, error) {
	for _, limit := range turnstate.TimeLimits(s.turn) {
		if r.Clock().Before(limit.At) {
			s.deadline(limit.At)
			continue
		}
		r.Activities.Cancel(s.turn.UID)
		step := s.memory.of(s.plan().Step)
		if flow := s.withdrawFenced(); flow != proceed {
			return flow, nil
		}
		known, err := r.known(ctx, s)
		if err != nil {
			return stop, err
		}
		closed, err := r.Steps.Expire(ctx, s.turnState(), limit.Expiry, known)
		if err != nil {
			return stop, err
		}
		step.closed = closed
		return again, nil
	}
	return proceed, nil
}
