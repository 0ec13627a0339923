package session

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// endHooks runs the hooks at the end of a Turn that was deleted, whose last step is the given one (TURN-16). It reports
// whether they have ended; if not, their end wakes the Session, which keeps the Turn as its active one until then.
func (r *Reconciler) endHooks(ctx context.Context, s *scope, last *journal.Closed) (bool, error) {
	key := executor.Key{Turn: s.session.UID, Step: last.Step, Call: "turn_end/" + string(last.Turn.UID)}
	if !r.Activities.Known(key) && !step.FiresTurnEnd(s.config.Hooks, last) {
		return true, nil
	}
	session, now := client.ObjectKeyFromObject(s.session), r.Clock()
	if until := r.known.endingPause(session, last.Turn.UID); now.Before(until) {
		s.requeue = until.Sub(now)
		return false, nil
	}
	turn, config, logger := s.deleted(last), s.config, ctrl.LoggerFrom(ctx)
	result, done := r.Activities.Ensure(key, session, executor.Need{Continues: true},
		func(ctx context.Context) (any, error) {
			return nil, r.Steps.EndHooks(ctrl.LoggerInto(ctx, logger), turn, config, last)
		})
	if result.Err != nil {
		r.known.endingFailed(session, last.Turn.UID, now)
	}
	return done, result.Err
}

// ending is the number of consecutive failures of the hooks at the end of a Turn, and when they may be tried again.
type ending struct {
	turn     types.UID
	failures int
	until    time.Time
}

// endingFailed records one more failure of the hooks at the end of a Turn.
func (m *memory) endingFailed(key types.NamespacedName, turn types.UID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	if !ok {
		return
	}
	if k.ending.turn != turn {
		k.ending = ending{turn: turn}
	}
	k.ending.failures++
	k.ending.until = now.Add(executor.Pauses.After(k.ending.failures))
	m.byKey[key] = k
}

// endingPause returns when the hooks at the end of a Turn may be tried again; the zero time if they have not failed.
func (m *memory) endingPause(key types.NamespacedName, turn types.UID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed := m.byKey[key].ending; failed.turn == turn {
		return failed.until
	}
	return time.Time{}
}
