package turn

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// flow is how the pass continues after a phase, and the status write that precedes.
type flow struct {
	next  next
	write writeKind
}

// next is where the pass continues.
type next int

const (
	nextPhase next = iota
	nextRound
	nextEvent
)

var (
	// proceed continues with the next phase.
	proceed = flow{next: nextPhase}
	// again starts the pass over: a step is decided.
	again = flow{next: nextRound}
	// stop ends the pass: a later event wakes the Turn.
	stop = flow{next: nextEvent}
)

// writeThenRepeat starts the pass over once the changed status is written.
func writeThenRepeat(kind writeKind) flow {
	return flow{next: nextRound, write: kind}
}

// writeThenStop ends the pass once the changed status is written.
func writeThenStop(kind writeKind) flow {
	return flow{next: nextEvent, write: kind}
}

// scope is the data of one pass.
type scope struct {
	// turn is the working copy; base is the last known version of the API server.
	turn, base *v1alpha1.Turn
	// live reads past the cache.
	live client.Reader
	// memory is the in-memory state of the Turn.
	memory *memory
	// session is the Turn's Session, once the phase that reads it has run.
	session *v1alpha1.Session
	// first is the plan that the Turn has begun with in this pass, while its status has none.
	first *v1alpha1.TurnProgress
	// fenced reports whether no process can have called a model for that plan before it is in status.
	fenced bool
	// restored reports whether the status is that of a step which an earlier process may have begun to execute.
	restored bool
	// notStored is why an append of a model response that was paid for, or of outcomes of tools, has failed in this pass.
	notStored error
	// closed is the step whose transition is being written to the status; nil for none.
	closed *journal.Closed
	// behind reports whether the cache lags the last own write.
	behind bool
	// wakeAt is the earliest time of the next pass, according to this round; zero for none.
	wakeAt time.Time
}

// deadline requests another pass at the given time at the latest.
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

// logged adds the UID and the trace that identify the Turn to a logger, because names are reused.
func (s *scope) logged(ctx context.Context) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(
		"session", s.turn.Spec.SessionRef.Name, "turnUID", s.turn.UID,
		"trace_id", event.TraceOf(s.turn.UID, s.turn.Spec.TraceParent).ID,
		"span_id", event.TurnSpan(s.turn.UID),
	))
}

// plan returns the Turn's plan; nil before it has begun.
func (s *scope) plan() *v1alpha1.TurnPlan {
	return s.turn.Status.Plan
}

// stepKey is the key of the open step's own activity.
func (s *scope) stepKey() executor.Key {
	return executor.Key{Turn: s.turn.UID, Step: s.plan().Step}
}

// journal returns the Session whose journal has the Turn's entries.
func (s *scope) journal() journal.Session {
	return turnstate.JournalOf(s.session)
}

// active reports whether the Turn is the active one of its Session.
func (s *scope) active() bool {
	return s.session != nil && s.session.Status.ActiveTurn != nil && s.session.Status.ActiveTurn.UID == s.turn.UID
}

// turnState returns the Turn as its steps see it.
func (s *scope) turnState() turnstate.Turn {
	t := turnstate.TurnOf(s.turn, s.session)
	t.Budgets = &s.memory.budgets
	if turnstate.MessageLeftOut(s.turn.Spec) {
		t.ReadMessage = messageOf(s.live, s.turn)
	}
	return t
}

// messageOf returns a reader for the message of a Turn, which the cache drops.
func messageOf(live client.Reader, cached *v1alpha1.Turn) turnstate.MessageReader {
	key, uid := client.ObjectKeyFromObject(cached), cached.UID
	return func(ctx context.Context) (v1alpha1.TurnSpec, error) {
		turn := &v1alpha1.Turn{}
		if err := live.Get(ctx, key, turn); err != nil {
			return v1alpha1.TurnSpec{}, fmt.Errorf("reading the Turn past the cache: %w", err)
		}
		if turn.UID != uid {
			return v1alpha1.TurnSpec{}, fmt.Errorf("reading Turn %s: it was replaced by another one with the same name", key)
		}
		return turn.Spec, nil
	}
}
