package turn

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/condition"
)

// cleanUp deals with a Turn that has ended: its Jobs go, all with one call, after the retention time. A Turn without Jobs costs nothing.
func (r *Reconciler) cleanUp(ctx context.Context, s *scope) (flow, error) {
	if !condition.IsTrue(s.turn.Status.Conditions, v1alpha1.ConditionFinished) {
		return proceed, nil
	}
	r.Activities.Cancel(s.turn.UID)
	// What we wrote last stays in memory as long as the Turn: a pass that sees less must not take it for one that runs.
	s.memory.step = stepMemory{}
	jobs, err := r.jobs(ctx, s.turn, everyStep)
	if err != nil || len(jobs) == 0 {
		return stop, err
	}
	pods, err := r.pods(ctx, r.Client, s.turn, everyStep)
	if err != nil {
		return stop, err
	}
	ended := condition.Find(s.turn.Status.Conditions, v1alpha1.ConditionFinished).LastTransitionTime
	// A Job that could still run is a stray: a process that was paused, or a request that was under way, made it when the Turn had ended.
	if due := ended.Add(r.JobRetention); r.Clock().Before(due) && !anyAlive(jobs, pods) {
		s.deadline(due)
		return stop, nil
	}
	// They go one after another, and each wakes the Turn.
	if shown := s.memory.cleanedAt.Add(cacheLag); r.Clock().Before(shown) {
		s.deadline(shown)
		return stop, nil
	}
	for _, job := range jobs {
		if !job.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.deleteJobs(ctx, s.turn); err != nil {
			return stop, err
		}
		s.memory.cleanedAt = r.Clock()
		return stop, nil
	}
	return stop, nil
}
