package turn

import (
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/activity"
)

const (
	// firstPause is how long an activity that has failed waits for its second start; each further pause is twice as long.
	firstPause = 100 * time.Millisecond
	// longestPause bounds the pauses.
	longestPause = 30 * time.Second
)

// pauseAfter is the pause after so many failures in a row.
func pauseAfter(failures int) time.Duration {
	pause := firstPause
	for i := 1; i < failures && pause < longestPause; i++ {
		pause *= 2
	}
	return min(pause, longestPause)
}

// do runs an activity of the open step and takes its result. The work queue cannot space out an activity that keeps failing: the pass that
// starts it succeeds, and so makes the queue forget the failure of the one before.
func (r *Reconciler) do(s *scope, step *stepMemory, key activity.Key, fn activity.Func) (any, bool, error) {
	now := r.Clock()
	if now.Before(step.pausedUntil) {
		s.deadline(step.pausedUntil)
		return nil, false, nil
	}
	result, done := r.Activities.Ensure(key, s.key(), fn)
	if !done {
		return nil, false, nil
	}
	if result.Err != nil {
		step.failures++
		step.pausedUntil = now.Add(pauseAfter(step.failures))
		return nil, false, result.Err
	}
	step.failures, step.pausedUntil = 0, time.Time{}
	return result.Value, true, nil
}
