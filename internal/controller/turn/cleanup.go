package turn

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// endedAt returns the time at which the Turn ended.
func endedAt(turn *v1alpha1.Turn) time.Time {
	return meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionFinished).LastTransitionTime.Time
}

// cleanUp handles a Turn that has ended: it deletes the Turn after its time to live, and its Jobs, all with one
// request, after the retention time. A Turn without either costs nothing.
func (r *Reconciler) cleanUp(ctx context.Context, s *scope) (flow, error) {
	if !queue.Finished(s.turn) {
		return proceed, nil
	}
	// Later spec changes have no effect. But until the status observes them, the Turn is unfinished for kstatus.
	if s.turn.Status.ObservedGeneration != s.turn.Generation {
		return writeThenRepeat(writeObserved), nil
	}
	r.Activities.Cancel(s.turn.UID)
	// The version of the last own write stays in memory as long as the Turn: a pass with an older version must not
	// treat it as a running Turn.
	s.memory.forget()
	if ttl, limited := timeToLive(s.turn, s.session); limited && s.turn.DeletionTimestamp.IsZero() {
		due := endedAt(s.turn).Add(ttl)
		if !r.Clock().Before(due) {
			return stop, r.deleteTurn(ctx, s.turn)
		}
		s.deadline(due)
	}
	return r.cleanUpJobs(ctx, s)
}

// timeToLive returns how long the Turn is kept after its end, if that is limited. session may be nil.
func timeToLive(turn *v1alpha1.Turn, session *v1alpha1.Session) (time.Duration, bool) {
	if ttl := turn.Spec.TTLSecondsAfterFinished; ttl != nil {
		return time.Duration(*ttl) * time.Second, true
	}
	if session != nil && session.Spec.TurnTTL != nil {
		return session.Spec.TurnTTL.Duration, true
	}
	return 0, false
}

// cleanUpJobs deletes the Jobs of the Turn after the retention time.
func (r *Reconciler) cleanUpJobs(ctx context.Context, s *scope) (flow, error) {
	jobs, err := r.jobs(ctx, s.turn, everyStep)
	if err != nil || len(jobs) == 0 {
		return stop, err
	}
	pods, err := r.pods(ctx, s.turn, everyStep)
	if err != nil {
		return stop, err
	}
	// A Job that could still run is a stray: a process that was paused, or a request that was in flight, created it
	// after the end of the Turn.
	due := endedAt(s.turn).Add(r.JobRetention)
	if r.Clock().Before(due) && s.turn.DeletionTimestamp.IsZero() {
		s.deadline(due)
		running := runningCalls(jobs, pods)
		if len(running) == 0 {
			return stop, nil
		}
		return r.once(s, func() error { return r.deleteCalls(ctx, s.turn, running) })
	}
	return r.deleteJobsOnce(ctx, s, jobs)
}

// deleteJobsOnce requests the deletion of the Turn's Jobs, and does not repeat it when the deletion of each Job wakes
// the Turn.
func (r *Reconciler) deleteJobsOnce(ctx context.Context, s *scope, jobs map[string]*batchv1.Job) (flow, error) {
	for _, job := range jobs {
		if job.DeletionTimestamp.IsZero() {
			return r.once(s, func() error { return r.deleteJobs(ctx, s.turn) })
		}
	}
	return stop, nil
}

// once requests a deletion, unless a recent request may not be visible in the cache yet.
func (r *Reconciler) once(s *scope, ask func() error) (flow, error) {
	if shown := s.memory.cleanedAt.Add(cacheLag); r.Clock().Before(shown) {
		s.deadline(shown)
		return stop, nil
	}
	if err := ask(); err != nil {
		return stop, err
	}
	s.memory.cleanedAt = r.Clock()
	return stop, nil
}
