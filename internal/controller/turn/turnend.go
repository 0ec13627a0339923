package turn

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// endKey is the key of the hooks at the end of the Turn, whose last step is the given one.
func (s *scope) endKey(last *journal.Closed) executor.Key {
	return executor.Key{Turn: s.turn.UID, Step: last.Step, Call: "turn_end"}
}

// endHooks passes a Turn once the hooks at its end have run (TURN-16). They run after the last step is closed and
// before the status shows the end, so that no other Turn of the Session begins meanwhile.
func (r *Reconciler) endHooks(ctx context.Context, s *scope, closed *journal.Closed) (flow, error) {
	memory := s.memory.of(closed.Step)
	if memory.ended || !step.EndsTurn(closed) {
		return proceed, nil
	}
	config, err := r.config(ctx, s)
	if err != nil {
		return stop, err
	}
	key := s.endKey(closed)
	turn, logger := turnstate.TurnOf(s.turn, s.session), ctrl.LoggerFrom(ctx)
	due := !memory.untitled && r.Steps.TitleDue(turn, config, closed)
	if !due {
		config.Title = nil
	}
	if !r.Activities.Known(key) && !due && !step.FiresTurnEnd(config.Hooks, closed) {
		return proceed, nil
	}
	need := executor.Need{Continues: true, Conversation: due}
	if due {
		need.Bytes = step.CallBytes(turn, conversationBytes(s.session, r.Steps.Log))
	}
	_, done, err := r.do(s, memory, key, need, func(ctx context.Context) (any, error) {
		return nil, r.Steps.End(ctrl.LoggerInto(ctx, logger), turn, config, closed)
	})
	var tooLarge *fairshare.TooLargeError
	if errors.As(err, &tooLarge) && due {
		// The Turn ends without a title.
		memory.untitled = true
		return again, nil
	}
	if err != nil || !done {
		return stop, err
	}
	memory.ended = true
	return proceed, nil
}
