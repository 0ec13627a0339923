package inprocess

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// step runs the open step and returns the entry that closes it.
func (r *run) step(ctx context.Context) (*journal.Closed, error) {
	r.known = nil
	if r.adopted {
		// No other process can have closed a step that this process opened itself.
		plan := r.turn.Status.Plan
		closed, err := r.loop.Steps.Log.Find(
			ctx,
			turnstate.JournalOf(r.session()),
			r.turn.UID,
			plan.Step,
			plan.OpenedAtOrdinal,
		)
		if err != nil || closed != nil {
			return closed, err
		}
	}
	if r.turn.Status.Plan.Phase == v1alpha1.PlanPhaseAct {
		return r.act(ctx)
	}
	return r.reason(ctx)
}

// reason carries out a model call (PHASE-04), once its Model has an API key.
func (r *run) reason(ctx context.Context) (*journal.Closed, error) {
	var earlier *step.Backoff
	var room *ratelimit.Ticket
	defer func() { room.Withdraw() }()
	for {
		if closed, err := r.cutShort(ctx, nil); closed != nil || err != nil {
			return closed, err
		}
		config, err := r.loop.config(ctx, r.session(), r.turn)
		if err != nil {
			return nil, err
		}
		missing := turnstate.FindMissingKey(config)
		if missing == nil {
			closed, err := r.call(ctx, config, earlier)
			var refusal *budget.Refusal
			var held *step.Held
			var limited *step.RateLimited
			switch {
			case errors.As(err, &limited):
				if room, err = r.awaitRoom(ctx, limited); err != nil {
					return nil, err
				}
				earlier = limited.Resume
				continue
			case errors.As(err, &refusal) && refusal.Ends:
				return r.loop.Steps.Seal(ctx, r.turnState(), refusal)
			case refusal != nil:
				if errors.As(err, &held) {
					earlier = held.Earlier
				}
				room.Withdraw()
				if err := r.awaitBudget(ctx, refusal); err != nil {
					return nil, err
				}
				continue
			case !errors.As(err, &missing):
				return closed, err
			}
		}
		room.Withdraw()
		if err := r.awaitKey(ctx, missing); err != nil {
			return nil, err
		}
	}
}

// call calls the model until it has responded, the Turn is to end or a time limit has passed.
func (r *run) call(
	ctx context.Context, config turnstate.Config, earlier *step.Backoff,
) (*journal.Closed, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type answer struct {
		closed *journal.Closed
		err    error
	}
	turn, calling := r.turnState(), ctx
	calling, hangUp := context.WithCancel(calling)
	defer hangUp()
	answered := make(chan answer, 1)
	go func() {
		closed, err := r.loop.Steps.ReasonInPlace(calling, turn, config, earlier)
		answered <- answer{closed, err}
	}()
	limit := r.alarm(ctx, r.nextLimit())
	for {
		select {
		case a := <-answered:
			return a.closed, a.err
		case <-r.alerts:
		case <-limit:
			limit = nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.toEnd() || r.expired() != nil {
			// The call is abandoned. If a response has arrived in the meantime, the journal has it.
			hangUp()
			return r.cutShort(ctx, nil)
		}
	}
}

// cutShort closes the open step when the Turn was cancelled, or a time limit has passed. It returns nil otherwise.
func (r *run) cutShort(ctx context.Context, known *act.Step) (*journal.Closed, error) {
	if r.toEnd() {
		return r.loop.Steps.Cancel(ctx, r.turnState(), known)
	}
	if expiry := r.expired(); expiry != nil {
		return r.loop.Steps.Expire(ctx, r.turnState(), *expiry, known)
	}
	return nil, nil
}

// expired is the time limit that has passed; nil for none.
func (r *run) expired() *turnstate.Expiry {
	now := r.loop.Clock.Now()
	for _, limit := range turnstate.TimeLimits(r.turn) {
		if !now.Before(limit.At) {
			return &limit.Expiry
		}
	}
	return nil
}

// nextLimit is when the next time limit passes; zero for never.
func (r *run) nextLimit() time.Time {
	var next time.Time
	for _, limit := range turnstate.TimeLimits(r.turn) {
		next = act.Earlier(next, limit.At)
	}
	return next
}

// alarm returns a channel that is closed when the clock shows a time; nil for the zero time.
func (r *run) alarm(ctx context.Context, at time.Time) <-chan struct{} {
	if at.IsZero() {
		return nil
	}
	rings := make(chan struct{})
	go func() {
		if r.loop.Clock.Reach(ctx, at) {
			close(rings)
		}
	}()
	return rings
}
