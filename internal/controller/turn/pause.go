package turn

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// pauses are those before a failed activity is retried.
var pauses = executor.Pauses

// pause is the number of consecutive failures of an activity, and when it may be retried.
type pause struct {
	failures int
	until    time.Time
}

// pause records one more failure of an activity.
func (m *stepMemory) pause(key executor.Key, now time.Time) {
	failures := m.pauses[key].failures + 1
	m.pauses[key] = pause{failures: failures, until: now.Add(pauses.After(failures))}
}

// do runs an activity of the open step and returns its result. The work queue cannot back off for an activity that
// keeps failing: the pass that starts it succeeds, and so resets the backoff.
func (r *Reconciler) do(
	s *scope, step *stepMemory, key executor.Key, need executor.Need, fn executor.Func,
) (any, bool, error) {
	now := r.Clock()
	if until := step.pauses[key].until; now.Before(until) {
		s.deadline(until)
		return nil, false, nil
	}
	result, done := r.Activities.Ensure(key, s.key(), need, fn)
	if !done {
		return nil, false, nil
	}
	if result.Err != nil {
		if result.Share != nil {
			step.share = result.Share
		}
		step.pause(key, now)
		return nil, false, result.Err
	}
	delete(step.pauses, key)
	return result.Value, true, nil
}

// backsOff holds a model call back until its next attempt is due. The pause is recorded in status before it begins: it
// survives a restart, users see it, and it holds no slot.
func (r *Reconciler) backsOff(ctx context.Context, s *scope, step *stepMemory) (flow, error) {
	if b := step.backoff; b != nil && !b.Described(s.plan()) {
		if flow, err := r.findClosedOrStop(ctx, s); err != nil || flow == again {
			return flow, err
		}
		b.Describe(&s.turn.Status.TurnProgress)
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()))
		s.deadline(b.NotBefore)
		r.releaseSlot(s)
		return writeThenStop(writeBackoff), nil
	}
	at := s.plan().NotBefore
	if at == nil || !r.Clock().Before(at.Time) {
		return proceed, nil
	}
	s.deadline(at.Time)
	return r.findClosedOrStop(ctx, s)
}
