package session

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// endHooks runs the hooks at the end of a Turn that was deleted, whose last step is the given one (TURN-16). It reports
// whether they have ended; if not, their end wakes the Session, which keeps the Turn as its active one until then.
func (r *Reconciler) endHooks(ctx context.Context, s *scope, last *journal.Closed) (bool, error) {
	key := executor.Key{Turn: s.session.UID, Step: last.Step, Call: "turn_end/" + string(last.Turn.UID)}
	if !r.Activities.Known(key) && !step.FiresTurnEnd(s.config.Hooks, last) {
		return true, nil
	}
	turn := turnstate.Turn{Session: turnstate.JournalOf(s.session), Ref: last.Turn}
	if agent := s.session.Spec.AgentRef; agent != nil {
		turn.Agent = agent.Name
	}
	config, logger := s.config, ctrl.LoggerFrom(ctx)
	result, done := r.Activities.Ensure(key, client.ObjectKeyFromObject(s.session), executor.Need{Continues: true},
		func(ctx context.Context) (any, error) {
			return nil, r.Steps.EndHooks(ctrl.LoggerInto(ctx, logger), turn, config, last)
		})
	return done, result.Err
}
