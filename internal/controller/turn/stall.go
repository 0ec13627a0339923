package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// reportedFailures is the number of consecutive failures after which a Turn reports that its step fails.
const reportedFailures = 5

// stall is the in-memory state of a Turn that cannot continue before its Session's journal is repaired.
type stall struct {
	reason string
	looks  int
	until  time.Time
	// generation and deleted are those of the Turn at the last check: if a user cancels or deletes it, the next check
	// is immediate.
	generation int64
	deleted    bool
}

// stalledBy returns the reason in status of a Turn that cannot continue without a repair; empty for none.
func stalledBy(turn *v1alpha1.Turn) string {
	c := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || queue.Finished(turn) {
		return ""
	}
	return c.Reason
}

// journalStall is stalledBy for reasons that only a repair of the journal removes.
func journalStall(turn *v1alpha1.Turn) string {
	if reason := stalledBy(turn); reason != v1alpha1.ReasonStepFailing {
		return reason
	}
	return ""
}

// report decides what the Turn reports about the error of its pass, or about errors of the past if there is none. It
// returns the error if the work queue has to retry: not if only a repair of the journal removes it, because such a Turn
// is checked slowly.
func (r *Reconciler) report(ctx context.Context, s *scope, cause error) (flow, error) {
	if cause == nil {
		return r.clearErrors(s), nil
	}
	// The changes of the pass belong to a decision that was not recorded.
	s.reset()
	obstacle := journal.ObstacleOf(cause, s.turn.Spec.SessionRef.Name)
	if obstacle == nil && s.notStored != nil && (s.memory.stall != nil || s.memory.errors+1 >= reportedFailures) {
		// The model was paid, and may not be paid again for a response that is not stored either. Outcomes of tools are
		// not appended again and again.
		obstacle = journal.NotStored(s.notStored, s.turn.Spec.SessionRef.Name)
	}
	if obstacle == nil || queue.Finished(s.turn) {
		return r.reportRepeatedError(s, cause), cause
	}
	r.setStalled(ctx, s, obstacle, cause)
	return writeThenStop(writeStalled), nil
}

// setStalled reports on the Turn an error that only a repair of the journal removes, and when it is checked again.
func (r *Reconciler) setStalled(ctx context.Context, s *scope, obstacle *journal.Obstacle, cause error) {
	now := r.Clock()
	m := s.memory.stall
	if m == nil || m.reason != obstacle.Reason {
		m = &stall{reason: obstacle.Reason}
		ctrl.LoggerFrom(ctx).Error(cause, "Turn stalled", "reason", obstacle.Reason)
	}
	m.looks++
	m.until = now.Add(obstacle.Pause(m.looks))
	m.generation, m.deleted = s.turn.Generation, !s.turn.DeletionTimestamp.IsZero()
	s.memory.stall = m
	s.deadline(m.until)
	cancelled := s.turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled
	if m.deleted || cancelled {
		// The model response will not be appended any more.
		s.memory.step.dropUndelivered()
	}
	message := obstacle.Message
	switch {
	case m.deleted:
		message += " The Turn is being deleted, which must be recorded in the journal first."
	case cancelled:
		message += " The Turn is cancelled as soon as the journal accepts an entry."
	case obstacle.Reason == v1alpha1.ReasonJournalRefused:
		message += r.describeKeptResponse(s)
	default:
		message += fmt.Sprintf(" The manager checks again every %v and does not call the model until then.",
			obstacle.Pause(1))
	}
	turnstate.Stall(&s.turn.Status, s.turn.Generation, nowSeconds(now), obstacle.Reason, message)
	r.releaseSlot(s)
	r.holdOutcomes(s)
}

// describeKeptResponse returns the note on a model response that could not be appended, and drops the response after
// the maximum time.
func (r *Reconciler) describeKeptResponse(s *scope) string {
	const again = " The model is not called until the journal accepts an entry."
	plan := s.plan()
	if plan == nil {
		return again
	}
	memory := s.memory.of(plan.Step)
	dropped := fmt.Sprintf(" The model response was dropped after %v.", step.UndeliveredRetention) + again
	u := memory.undelivered
	if u == nil {
		if memory.dropped != nil {
			return dropped
		}
		return again
	}
	ends := u.Since.Add(step.UndeliveredRetention)
	if !r.Clock().Before(ends) {
		memory.expireUndelivered()
		return dropped
	}
	s.deadline(ends)
	if s.memory.stall.until.After(ends) {
		s.memory.stall.until = ends
	}
	return fmt.Sprintf(" The model response is kept until %s.", ends.UTC().Format(time.RFC3339))
}

// reportRepeatedError reports an error that has occurred several times.
func (r *Reconciler) reportRepeatedError(s *scope, cause error) flow {
	if errors.Is(cause, context.Canceled) {
		return stop
	}
	s.memory.errors++
	if s.memory.errors >= reportedFailures {
		r.holdOutcomes(s)
	}
	if s.memory.errors != reportedFailures || queue.Finished(s.turn) {
		return stop
	}
	message := fmt.Sprintf("The step failed %d times; retrying: %v", reportedFailures, cause)
	turnstate.Stall(&s.turn.Status, s.turn.Generation, nowSeconds(r.Clock()), v1alpha1.ReasonStepFailing, message)
	return writeThenStop(writeStalled)
}

// clearErrors removes reports of past errors from the status.
func (r *Reconciler) clearErrors(s *scope) flow {
	// Not the memory of the step in status: a Turn that has ended has none.
	if len(s.memory.step.pauses) > 0 {
		return stop
	}
	s.memory.errors = 0
	if stalledBy(s.base) != v1alpha1.ReasonStepFailing {
		return stop
	}
	s.reset()
	r.setContinuing(s)
	return writeThenStop(writeStalled)
}

// checkJournal holds back a Turn that could not continue because of its Session's journal, until the journal passes a
// check that costs nothing.
func (r *Reconciler) checkJournal(ctx context.Context, s *scope) (flow, error) {
	m, shown := s.memory.stall, journalStall(s.turn)
	if m == nil && shown == "" {
		return proceed, nil
	}
	if m != nil && r.Clock().Before(m.until) && m.generation == s.turn.Generation &&
		m.deleted == !s.turn.DeletionTimestamp.IsZero() {
		s.deadline(m.until)
		return stop, nil
	}
	if s.plan() == nil {
		return proceed, nil
	}
	if m == nil && shown == v1alpha1.ReasonJournalRefused {
		s.memory.of(s.plan().Step).appendRefused = true
	}
	closed, err := r.Steps.Probe(ctx, s.turnState())
	if err == nil && closed == nil && !ending(s.turn) {
		// A dry run does not show that entries are stored.
		closed, err = r.appendPending(ctx, s)
	}
	if err != nil {
		return stop, err
	}
	s.memory.stall = nil
	if closed != nil {
		s.memory.of(s.plan().Step).closed = closed
		return proceed, nil
	}
	if shown == "" {
		return proceed, nil
	}
	r.setContinuing(s)
	return writeThenRepeat(writeStalled), nil
}

// setContinuing sets the conditions of a Turn that continues.
func (r *Reconciler) setContinuing(s *scope) {
	now := nowSeconds(r.Clock())
	if s.plan() == nil {
		turnstate.Queue(&s.turn.Status, s.turn.Generation, now, v1alpha1.ReasonQueued, turnstate.QueuedMessage)
		condition.SetStalled(&s.turn.Status.Conditions, s.turn.Generation, now, false, "", "")
	} else {
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, now)
	}
}

// ending reports whether a user has cancelled or deleted the Turn.
func ending(turn *v1alpha1.Turn) bool {
	return !turn.DeletionTimestamp.IsZero() || turn.Spec.DesiredState == v1alpha1.DesiredStateCancelled
}

// deliver retries to append a model response that the journal did not accept, or the record of its drop. No model is
// called before. It starts nothing, and so needs no slot.
func (r *Reconciler) deliver(ctx context.Context, s *scope, step *stepMemory) (flow, error) {
	if step.undelivered == nil && step.dropped == nil {
		return proceed, nil
	}
	if until := step.pauses[s.stepKey()].until; r.Clock().Before(until) {
		s.deadline(until)
		return stop, nil
	}
	closed, err := r.appendPending(ctx, s)
	if err != nil {
		return stop, err
	}
	if closed == nil {
		return proceed, nil
	}
	step.closed = closed
	return again, nil
}

// appendPending appends the model response that was paid for and is not in the journal. A response that was kept for
// the maximum time is dropped, which is appended instead. It returns the entry that closes the step; nil for none.
func (r *Reconciler) appendPending(ctx context.Context, s *scope) (*journal.Closed, error) {
	memory, now := s.memory.of(s.plan().Step), r.Clock()
	if u := memory.undelivered; u != nil && u.Expired(now) {
		memory.expireUndelivered()
	}
	var closed *journal.Closed
	var err error
	switch {
	case memory.undelivered != nil:
		closed, err = r.Steps.Deliver(ctx, s.turnState(), memory.undelivered)
	case memory.dropped != nil:
		closed, err = r.Steps.RecordDrop(ctx, s.turnState(), memory.dropped)
	default:
		return nil, nil
	}
	if err != nil {
		memory.pause(s.stepKey(), now)
		s.notStored = err
		var undelivered *step.UndeliveredResponse
		if errors.As(err, &undelivered) {
			s.notStored = undelivered.Err
		}
		return nil, err
	}
	memory.dropUndelivered()
	memory.dropped = nil
	delete(memory.pauses, s.stepKey())
	return closed, nil
}
