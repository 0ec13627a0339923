package turn

import (
	"context"
	"fmt"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// maxRetraces is the number of Turns that may wait until their spans are exported again.
	maxRetraces = 1024
	// lostSpans is how long before its end a process may have lost spans that it had not sent yet, with the time that a
	// successor takes to start.
	lostSpans = time.Minute
)

// Retracer exports the spans of Turns again, from the journal, of which an earlier process has run steps. It is not a
// part of any pass: reading a journal delays no Turn.
type Retracer struct {
	steps *step.Runner
	turns chan retrace
	// since is when this process began to lead, which is when it makes its first pass.
	since func() time.Time
}

// retrace is a Turn whose spans are to be exported again.
type retrace struct {
	turn turnstate.Turn
	head int64
}

// AddRetracer adds a Retracer to the manager, and returns it; nil if no spans are exported.
func AddRetracer(mgr ctrl.Manager, steps *step.Runner, clock func() time.Time) (*Retracer, error) {
	if steps.Traces == nil {
		return nil, nil
	}
	r := &Retracer{steps: steps, turns: make(chan retrace, maxRetraces), since: sync.OnceValue(clock)}
	if err := mgr.Add(r); err != nil {
		return nil, fmt.Errorf("adding the export of lost spans: %w", err)
	}
	return r, nil
}

// Start implements manager.Runnable.
func (r *Retracer) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-r.turns:
			if err := r.steps.TraceAgain(ctx, next.turn, next.head); err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Info("Failed to read the spans of a Turn from the journal", "error", err.Error(),
					"namespace", next.turn.Session.Namespace, "turn", next.turn.Ref.Name)
			}
		}
	}
}

// Again enqueues a Turn whose last entry is at an ordinal of the journal, or after it. If too many wait, its spans are
// not exported again. A nil Retracer exports none.
func (r *Retracer) Again(t turnstate.Turn, head int64) {
	if r == nil {
		return
	}
	select {
	case r.turns <- retrace{t, head}:
	default:
	}
}

// add enqueues the Turn of a pass.
func (r *Retracer) add(s *scope) {
	r.Again(turnstate.TurnOf(s.turn, s.session), s.session.Status.Journal.Head)
}

// trace exports the spans of the step whose transition the status shows now. At the end of a Turn it has those of
// earlier processes exported again: they may have ended before they had sent all of them.
func (r *Reconciler) trace(s *scope, before *v1alpha1.Turn) {
	closed := s.closed
	s.closed = nil
	if closed == nil || r.Traces == nil {
		return
	}
	t := turnstate.TurnOf(before, s.session)
	r.Steps.Trace(t, before.Status.ToolCalls, closed)
	s.memory.traced++
	if step.EndsTurn(closed) && s.memory.traced < closed.Step {
		r.Traces.add(s)
	}
}

// traceFinished has the spans of a Turn exported again that had ended shortly before this process began to lead.
func (r *Reconciler) traceFinished(_ context.Context, s *scope) (flow, error) {
	if r.Traces == nil {
		return proceed, nil
	}
	since, sum := r.Traces.since(), s.turn.Status.Summary
	if s.memory.passes > 1 || s.session == nil || !queue.Finished(s.turn) || sum == nil || sum.FinishedAt == nil ||
		sum.FinishedAt.After(since) || since.Sub(sum.FinishedAt.Time) > lostSpans {
		return proceed, nil
	}
	r.Traces.add(s)
	return proceed, nil
}
