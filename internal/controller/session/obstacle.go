package session

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// obstructed handles the error of a pass. If only a repair of the Session's journal removes it, it is reported on the
// Session, which admits no Turn until then and is checked slowly. Any other error is returned.
func (r *Reconciler) obstructed(ctx context.Context, s *scope, cause error) error {
	key := client.ObjectKeyFromObject(s.session)
	obstacle := journal.ObstacleOf(cause, s.session.Name)
	if obstacle == nil {
		r.known.goesOn(key)
		return cause
	}
	pause, isNew := r.known.stalled(key, obstacle, r.Clock())
	if isNew {
		ctrl.LoggerFrom(ctx).Error(cause, "Session stalled", "reason", obstacle.Reason)
	}
	switch {
	case s.session.Status.ActiveTurn == nil:
		r.yield(s)
	case s.active == nil:
		// The Turn is gone and does no more work.
		r.Turns.Wait(s.session.UID, 1)
	}
	s.usable = false
	s.requeue = pause
	s.reason, s.message = obstacle.Reason, obstacle.Message
	return nil
}

// checkHead verifies, once per process, that the journal is as long as in status before a Turn is admitted: nothing
// could be appended to a shorter one.
func (r *Reconciler) checkHead(ctx context.Context, s *scope) error {
	key, head := client.ObjectKeyFromObject(s.session), s.session.Status.Journal.Head
	if head == 0 || r.known.checked(key) {
		return nil
	}
	view, err := r.Steps.Log.ViewTo(ctx, turnstate.JournalOf(s.session), head)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	if err := reaches(s, view); err != nil {
		return err
	}
	r.known.check(key)
	return nil
}

// reaches returns an error for a journal that ends before the head in the status of its Session.
func reaches(s *scope, view *journal.View) error {
	if head := s.session.Status.Journal.Head; view.Head < head {
		return fmt.Errorf("%w: it ends at ordinal %d, but the status of the Session has %d", journal.ErrCorrupt,
			view.Head, head)
	}
	return nil
}
