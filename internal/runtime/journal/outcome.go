package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Outcome returns the entry that ended the Turn of a name, or its newest one if it has not ended: a Turn that is
// created again under the name adopts it. If several Turns had the name, the first counts. nil without an error means
// that the journal has no Turn of that name, or that its message went into another Turn. The hint is that of View.
func (l *Log) Outcome(ctx context.Context, s Session, turn string, hint int64) (*Closed, error) {
	st, err := l.upToDate(ctx, s, hint)
	if err != nil {
		return nil, err
	}
	began, ok := st.beginningOf(turn)
	if !ok || began.turn.SteeredInto != nil {
		return nil, nil
	}
	var last *entry
	err = l.finals(ctx, s, began, func(e *entry) error {
		last = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.closed(ctx, s, last)
}

// Steps calls visit with each closed step of a Turn, in order, up to the one that ended it or the newest one. It is
// called with nothing for a Turn whose message went into another one, and for one that the journal does not have. The
// hint is that of View.
func (l *Log) Steps(ctx context.Context, s Session, turn Turn, hint int64, visit func(*Closed)) error {
	st, err := l.upToDate(ctx, s, hint)
	if err != nil {
		return err
	}
	began, ok := st.beginningOf(turn.Name)
	if !ok || began.turn.SteeredInto != nil || began.turn.UID != turn.UID {
		return nil
	}
	return l.finals(ctx, s, began, func(e *entry) error {
		closed, err := l.closed(ctx, s, e)
		if err != nil {
			return err
		}
		visit(closed)
		return nil
	})
}

// finals calls visit with the entries that close the steps of a Turn, in order.
func (l *Log) finals(ctx context.Context, s Session, began beginning, visit func(*entry) error) error {
	uid := began.turn.UID
	first, err := l.locate(ctx, s, uid, began.first, began.last)
	if err != nil {
		return err
	}
	for o := first; ; o++ {
		e, err := l.get(ctx, s, o)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !e.spec.Final || e.spec.Turn == nil || e.spec.Turn.UID != uid {
			continue
		}
		if err := visit(e); err != nil || ended(e.spec.Transition) {
			return err
		}
	}
}

// ended reports whether a Turn has no open step behind a transition.
func ended(t *v1alpha1.TurnProgress) bool {
	if t == nil {
		return false
	}
	switch t.Phase {
	case v1alpha1.TurnPhaseSucceeded, v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		return true
	default:
		return t.Plan != nil && t.Plan.Phase == v1alpha1.PlanPhaseComplete
	}
}

// locate returns the ordinal of the entry that records a Turn, between two ordinals. Checkpoints show in which of their
// blocks it is, until less than one interval is left, which is read.
func (l *Log) locate(ctx context.Context, s Session, turn types.UID, first, last int64) (int64, error) {
	type span struct{ first, last int64 }
	var open []span // the range that no checkpoint within it summarizes
	for at := last; at >= first; {
		if !reserved(at) {
			low := max(first, nextReserved(at)-CheckpointInterval+1)
			open = append(open, span{low, at})
			at = low - 1
			continue
		}
		e, err := l.mustFetch(ctx, s, at)
		if err != nil {
			return 0, err
		}
		next, err := before(e)
		if err != nil {
			return 0, err
		}
		if holds(e, turn) {
			return l.locate(ctx, s, turn, next+1, at-1)
		}
		if e.spec.Checkpoint.From == at {
			next = at - 1
		}
		at = next
	}
	for _, interval := range open {
		for o := interval.first; o <= interval.last; o++ {
			e, err := l.must(ctx, s, o)
			if err != nil {
				return 0, err
			}
			if e.spec.Final && e.spec.Digest != "" && e.spec.Turn != nil && e.spec.Turn.UID == turn {
				return o, nil
			}
		}
	}
	return 0, fmt.Errorf(
		"%w: the entry that records the Turn with UID %s is not between the ordinals %d and %d",
		ErrCorrupt,
		turn,
		first,
		last,
	)
}

func holds(e *entry, turn types.UID) bool {
	return slices.ContainsFunc(e.spec.Checkpoint.Turns, func(t RecordedTurn) bool { return t.UID == turn })
}
