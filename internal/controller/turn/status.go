package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/queue"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/host"
)

// writeKind says what a status write is for. The write budget of a Turn counts all but progress.
type writeKind string

const (
	writeWaiting    writeKind = "waiting"
	writePlan       writeKind = "plan"
	writeTransition writeKind = "transition"
	writePods       writeKind = "pods"
	writeRetry      writeKind = "retry"
	writeApproval   writeKind = "approval"
	writeWithdrawal writeKind = "withdrawal"
	writeProgress   writeKind = "progress"
	writeObserved   writeKind = "observed"
	writeStalled    writeKind = "stalled"
	writeBackoff    writeKind = "backoff"
)

// write brings the status to the API server under optimistic lock. A conflict has cost nothing: the pass ends, and the
// version that won wakes the Turn.
func (r *Reconciler) write(ctx context.Context, s *scope, kind writeKind) (flow, error) {
	s.turn.Status.ObservedGeneration = s.turn.Generation
	changed, err := status.Patch(ctx, r.Client, s.base, s.turn)
	if apierrors.IsConflict(err) {
		conflicts.Inc()
		s.deadline(r.Clock().Add(freshnessLimit))
		return stop, nil
	}
	if err != nil {
		return stop, fmt.Errorf("writing the status (%s): %w", kind, err)
	}
	if changed {
		statusWrites.WithLabelValues(string(kind)).Inc()
		s.memory.writes++
		s.memory.written, s.memory.wroteAt = s.turn.ResourceVersion, r.Clock()
		before := s.base
		// The answer has the message. What waits for memory must not hold it.
		host.LeaveOutMessage(s.turn)
		s.base = s.turn.DeepCopy()
		announce(ctx, before, s, kind)
		for _, n := range noticesOf(before, s.turn) {
			r.Notices.Record(s.turn, n)
		}
	}
	return again, nil
}

// announce tells logs and metrics of a status that was written: of the beginning and the end of each Turn, and, to who
// wants to know more, of each step.
func announce(ctx context.Context, before *v1alpha1.Turn, s *scope, kind writeKind) {
	status := &s.turn.Status
	level := 1
	switch {
	case kind == writePlan:
		level = 0
		queueWait.Observe(status.Summary.StartedAt.Sub(s.turn.CreationTimestamp.Time).Seconds())
	case queue.Finished(s.turn) && !queue.Finished(before):
		level = 0
		countEnd(s)
	}
	values := []any{"phase", status.Phase, "iteration", status.Iteration}
	if c := condition.Find(status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		values = append(values, "reason", c.Reason)
	}
	ctrl.LoggerFrom(ctx).V(level).Info("the Turn has moved", append(values, "write", kind)...)
}
