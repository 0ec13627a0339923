package turn

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// writeKind is the purpose of a status write. The write budget of a Turn counts all but progress.
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

// write writes the status that a pass has decided on, with optimistic locking, and returns how the pass continues. A
// conflict has no effect: the pass ends, and the watch event of the other write wakes the Turn.
//
// Reconcile alone calls it: work that a phase starts is in the status before.
func (r *Reconciler) write(ctx context.Context, s *scope, decided flow) (flow, error) {
	kind := decided.write
	if kind == "" {
		return decided, nil
	}
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
		// The API server's response includes the message. A Turn that waits for memory must not hold it.
		turnstate.LeaveOutMessage(s.turn)
		s.base = s.turn.DeepCopy()
		if !s.restored {
			s.memory.intend(before, s.turn)
		}
		s.restored = false
		if s.fenced && kind == writePlan {
			s.memory.of(s.plan().Step).startedHere = true
		}
		if kind == writeTransition && (before.Status.Plan != nil || s.first != nil) {
			// No process can have closed the next step before it was in the status.
			s.memory.of(s.plan().Step).lookedUp = true
		}
		announce(ctx, before, s, kind)
		r.trace(s, before)
		for _, n := range noticesOf(before, s.turn) {
			r.Notices.Record(s.turn, n)
		}
	}
	return flow{next: decided.next}, nil
}

// announce logs a status write and updates metrics: the start and the end of each Turn, and at a higher verbosity each
// step.
func announce(ctx context.Context, before *v1alpha1.Turn, s *scope, kind writeKind) {
	status := &s.turn.Status
	level := 1
	if before.Status.Plan == nil && s.first != nil && status.Summary != nil {
		level = 0
		queueWait.Observe(status.Summary.StartedAt.Sub(s.turn.CreationTimestamp.Time).Seconds())
	}
	if queue.Finished(s.turn) && !queue.Finished(before) {
		level = 0
		countEnd(s)
	}
	values := []any{"phase", status.Phase, "iteration", status.Iteration}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		values = append(values, "reason", c.Reason)
	}
	ctrl.LoggerFrom(ctx).V(level).Info("Turn status updated", append(values, "write", kind)...)
}
