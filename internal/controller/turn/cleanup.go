package turn

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/queue"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// endedAt is when the Turn ended.
func endedAt(turn *v1alpha1.Turn) time.Time {
	return condition.Find(turn.Status.Conditions, v1alpha1.ConditionFinished).LastTransitionTime.Time
}

// cleanUp deals with a Turn that has ended: it goes when its time to live is over, and its Jobs, all with one call,
// after the retention time. A Turn without either costs nothing.
func (r *Reconciler) cleanUp(ctx context.Context, s *scope) (flow, error) {
	if !queue.Finished(s.turn) {
		return proceed, nil
	}
	// What may still change in the spec changes nothing any more. Until the status says so, kstatus takes the Turn for
	// unfinished.
	if s.turn.Status.ObservedGeneration != s.turn.Generation {
		return r.write(ctx, s, writeObserved)
	}
	r.Activities.Cancel(s.turn.UID)
	// What we wrote last stays in memory as long as the Turn: a pass that sees less must not take it for one that runs.
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

// timeToLive is how long the Turn stays after its end, if that is limited. session may be nil.
func timeToLive(turn *v1alpha1.Turn, session *v1alpha1.Session) (time.Duration, bool) {
	if ttl := turn.Spec.TTLSecondsAfterFinished; ttl != nil {
		return time.Duration(*ttl) * time.Second, true
	}
	if session != nil && session.Spec.TurnTTL != nil {
		return session.Spec.TurnTTL.Duration, true
	}
	return 0, false
}

// cleanUpJobs deletes what the Turn has made once nobody needs it any more.
func (r *Reconciler) cleanUpJobs(ctx context.Context, s *scope) (flow, error) {
	jobs, err := r.jobs(ctx, s.turn, everyStep)
	if err != nil || len(jobs) == 0 {
		return stop, err
	}
	pods, err := r.pods(ctx, s.turn, everyStep)
	if err != nil {
		return stop, err
	}
	// A Job that could still run is a stray: a process that was paused, or a request that was under way, made it when
	// the Turn had ended.
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

// deleteJobsOnce asks for the deletion of the Turn's Jobs, and not again for each of them that goes and wakes the Turn.
func (r *Reconciler) deleteJobsOnce(ctx context.Context, s *scope, jobs map[string]*batchv1.Job) (flow, error) {
	for _, job := range jobs {
		if job.DeletionTimestamp.IsZero() {
			return r.once(s, func() error { return r.deleteJobs(ctx, s.turn) })
		}
	}
	return stop, nil
}

// once asks for a deletion, unless one was asked for a moment ago that the cache may not show yet.
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
