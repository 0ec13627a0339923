package turn

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// holdForSecret handles the error of a request that has found no Secret, and reports whether the error is one.
func (a *actScope) holdForSecret(index int, err error, now time.Time) bool {
	var missing *act.MissingSecret
	if !errors.As(err, &missing) {
		return false
	}
	key := a.requestKey(a.calls()[index])
	delete(a.step.pauses, key)
	delete(a.step.requests, key)
	a.deadline(a.step.known.Withhold(&a.turn.Status.ToolCalls[index], missing, now))
	return true
}

// checkSecrets checks for the Secrets of waiting calls, when the next check is due. It needs no slot and writes
// nothing, because tenants can have any number of waiting Turns. A call whose Secrets exist may start.
func (r *Reconciler) checkSecrets(ctx context.Context, a *actScope, indexes []int) error {
	var failed []error
	for _, i := range indexes {
		call := a.calls()[i]
		if r.Policies.Await(a.key()) != nil {
			// No Secret may be read now. The Turn is woken when that is permitted again.
			continue
		}
		var missing *act.MissingSecret
		planned, err := step.Planned(ctx, a.config, call)
		if err == nil {
			of := executor.Asker{Namespace: a.turn.Namespace, User: turnstate.UserOf(a.turn)}
			missing, err = r.Steps.MissingSecret(ctx, of, planned)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if missing != nil {
			a.deadline(a.step.known.Withhold(&a.turn.Status.ToolCalls[i], missing, r.Clock()))
			continue
		}
		a.step.known.Release(&a.turn.Status.ToolCalls[i])
	}
	return errors.Join(failed...)
}

// notifyMissingReference records an Event about a reference that a running Turn waits for, once it has been missing for
// a while.
func (r *Reconciler) notifyMissingReference(s *scope) {
	step := s.memory.of(s.plan().Step)
	var missing *v1alpha1.TurnWait
	for i := range s.turn.Status.WaitsFor {
		if s.turn.Status.WaitsFor[i].Type == v1alpha1.WaitTypeReference {
			missing = &s.turn.Status.WaitsFor[i]
			break
		}
	}
	if missing == nil {
		step.missingSince = time.Time{}
		return
	}
	now := r.Clock()
	if step.missingSince.IsZero() {
		step.missingSince = now
	}
	if due := step.missingSince.Add(missingGrace); now.Before(due) {
		s.deadline(due)
		return
	}
	r.Notices.Record(
		s.turn,
		notice.Notice{Warning: true, Reason: missing.Reason, Action: actionWait, Message: missing.Message},
	)
}
