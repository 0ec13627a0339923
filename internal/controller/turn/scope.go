package turn

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// flow is what a phase wants to happen next.
type flow int

const (
	// proceed leaves the Turn to the next phase.
	proceed flow = iota
	// again starts the pass over: the status has changed, or a step is decided.
	again
	// stop ends the pass: something will wake the Turn.
	stop
)

// scope is what one pass works on.
type scope struct {
	// turn is the working copy; base is what the API server holds, as far as we know.
	turn, base *v1alpha1.Turn
	// live reads past the cache.
	live client.Reader
	// memory is what this process remembers of the Turn.
	memory *memory
	// session is the Turn's Session, once the phase that reads it has run.
	session *v1alpha1.Session
	// behind reports whether the cache shows less than this process has written.
	behind bool
	// wakeAt is the earliest moment at which the Turn must be looked at again; zero for none.
	wakeAt time.Time
}

// deadline asks for another pass at the given time, if nothing else comes before it.
func (s *scope) deadline(at time.Time) {
	if at.IsZero() || (!s.wakeAt.IsZero() && s.wakeAt.Before(at)) {
		return
	}
	s.wakeAt = at
}

// result turns the earliest deadline into a request of the work queue.
func (s *scope) result(now time.Time) ctrl.Result {
	if s.wakeAt.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(s.wakeAt.Sub(now), time.Millisecond)}
}

// key names the Turn.
func (s *scope) key() types.NamespacedName {
	return client.ObjectKeyFromObject(s.turn)
}

// logged adds to a logger what tells Turns apart: names are used again.
func (s *scope) logged(ctx context.Context) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("session", s.turn.Spec.SessionRef.Name, "turnUID", s.turn.UID))
}

// plan is the Turn's plan; nil before it has begun.
func (s *scope) plan() *v1alpha1.TurnPlan {
	return s.turn.Status.Plan
}

// journal names the log that the Turn's entries go to.
func (s *scope) journal() journal.Session {
	return host.JournalOf(s.session)
}

// hostTurn is the Turn as the steps see it.
func (s *scope) hostTurn() host.Turn {
	t := host.TurnOf(s.turn, s.session)
	if host.MessageLeftOut(s.turn.Spec) {
		t.ReadMessage = messageOf(s.live, s.turn)
	}
	return t
}

// messageOf reads the message of a Turn that the cache has without it.
func messageOf(live client.Reader, cached *v1alpha1.Turn) host.MessageReader {
	key, uid := client.ObjectKeyFromObject(cached), cached.UID
	return func(ctx context.Context) (v1alpha1.TurnSpec, error) {
		turn := &v1alpha1.Turn{}
		if err := live.Get(ctx, key, turn); err != nil {
			return v1alpha1.TurnSpec{}, fmt.Errorf("reading the Turn past the cache: %w", err)
		}
		if turn.UID != uid {
			return v1alpha1.TurnSpec{}, fmt.Errorf("another Turn has the name %s now", key)
		}
		return turn.Spec, nil
	}
}
