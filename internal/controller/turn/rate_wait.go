package turn

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// earlier returns what the model call of the step continues after; nil for nothing.
func (m *stepMemory) earlier() *step.Backoff {
	switch {
	case m.continues != nil:
		return m.continues
	case m.limited != nil:
		return m.limited.Resume
	default:
		return m.backoff
	}
}

// handleRateLimit handles a model call that has no room within the limits of its Model: it gets in line.
func (r *Reconciler) handleRateLimit(
	ctx context.Context, s *scope, memory *stepMemory, limited *step.RateLimited,
) (flow, error) {
	delete(memory.pauses, s.stepKey())
	key := s.key()
	memory.limited, memory.continues = limited, nil
	memory.room = r.Steps.Limits.Wait(s.turn.UID, limited.Refusal, func() { r.Wakes.Wake(key) })
	return r.awaitRoom(ctx, s, memory)
}

// awaitRoom holds a model call back that is in line for room within the limits of its Model, and reports it on the Turn
// with one write. The Turn is woken when it has room; only the first in line comes back by itself, when it should have
// some. A new process has no line: the call is made.
func (r *Reconciler) awaitRoom(ctx context.Context, s *scope, memory *stepMemory) (flow, error) {
	if memory.room == nil {
		return proceed, nil
	}
	admitted, until := memory.room.Check()
	if admitted {
		return proceed, nil
	}
	memory.awaitsRoom = true
	if !until.IsZero() {
		s.deadline(until)
	}
	if flow, err := r.findClosedOrStop(ctx, s); err != nil || flow == again {
		return flow, err
	}
	flow := stop
	if now := r.Clock(); memory.limited.Describe(&s.turn.Status.TurnProgress, now) {
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, nowSeconds(now))
		flow = writeThenStop(writeWaiting)
	}
	r.releaseSlot(s)
	return flow, nil
}

// leaveLine gives the place in the line of a rate limit up, and the room that is kept there, if the pass ends without
// the model call: the Turn waits for something else now, which may never come, and those behind it must not. One that
// waits for a slot keeps both, because those that are refused meanwhile release theirs.
func (r *Reconciler) leaveLine(s *scope) {
	step := &s.memory.step
	if step.room == nil || step.awaitsRoom || step.awaitsSlot ||
		r.Activities.Known(executor.Key{Turn: s.turn.UID, Step: step.number}) {
		return
	}
	step.room.Withdraw()
	step.room = nil
}

// LimitedModels returns a function that lists the Models of a namespace which state limits.
func LimitedModels(cache client.Reader) func(ctx context.Context, namespace string) ([]v1alpha1.Model, error) {
	return func(ctx context.Context, namespace string) ([]v1alpha1.Model, error) {
		var models v1alpha1.ModelList
		err := cache.List(ctx, &models, client.InNamespace(namespace), client.UnsafeDisableDeepCopy,
			client.MatchingFields{fieldindex.Limits: fieldindex.Stated})
		if err != nil {
			return nil, fmt.Errorf("listing the Models with limits: %w", err)
		}
		return models.Items, nil
	}
}

// ObserveLimitFailure logs that the calls of a Tool cannot be counted, so that they pass.
func ObserveLimitFailure(ctx context.Context, of ratelimit.Tool, err error) {
	ctrl.LoggerFrom(ctx).Error(err, "Failed to count a tool call; letting it pass without a limit",
		"namespace", of.Namespace, "kind", of.Kind, "name", of.Name)
}

// refusedByLimit reports whether a rate limit refuses a call that is about to start, and settles the call then. A call
// of a step that another process has begun may have been started by that one: it passes, and does not count.
func (r *Reconciler) refusedByLimit(ctx context.Context, a *actScope, index int) bool {
	if !a.step.startedHere {
		return false
	}
	refused := r.Steps.Limit(ctx, a.turnState(), a.config, a.step.known, a.calls()[index])
	if refused == nil {
		return false
	}
	a.settle(index, *refused)
	return true
}
