package journal

import (
	"context"
	"errors"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/types"
)

// Unknown is the last ordinal for a reader that does not know the head of the journal.
const Unknown = math.MaxInt64

// Position is where a reader of a journal continues.
type Position struct {
	// Ordinal of the next entry.
	Ordinal int64
	// Sequence is the number that its first event has, if it has events (EVT-02).
	Sequence int64
}

// Seek returns a position at or before the event after a sequence number, at most CheckpointInterval entries before it.
// The hint is an ordinal at which an entry may exist, 0 for none, and no entry after last exists, unless it is Unknown.
// The read entries are not kept in the cache.
func (l *Log) Seek(ctx context.Context, s Session, after, hint, last int64) (Position, error) {
	low := Position{Ordinal: 1, Sequence: 1}
	if after <= 0 {
		return low, nil
	}
	at := func(n int64) (Position, bool, error) {
		if n*CheckpointInterval > last {
			return Position{}, false, nil
		}
		e, err := l.peek(ctx, s, n*CheckpointInterval)
		if errors.Is(err, ErrNotFound) {
			return Position{}, false, nil
		}
		if err != nil {
			return Position{}, false, err
		}
		p := Position{Ordinal: n*CheckpointInterval + 1, Sequence: e.spec.Checkpoint.Events + 1}
		return p, p.Sequence <= after+1, nil
	}
	// From the hint up at distances that double, unless it is too high, and then by halving. low is before the event or
	// at it, high is not.
	first, high := int64(0), max(hint, 0)/CheckpointInterval
	if high > 0 {
		p, before, err := at(high)
		if err != nil {
			return low, err
		}
		if before {
			low, first, high = p, high, 0
		}
	}
	for distance := int64(1); high == 0; distance *= 2 {
		p, before, err := at(first + distance)
		if err != nil {
			return low, err
		}
		if before {
			low, first = p, first+distance
		} else {
			high = first + distance
		}
	}
	for first+1 < high {
		middle := first + (high-first)/2
		p, before, err := at(middle)
		if err != nil {
			return low, err
		}
		if before {
			low, first = p, middle
		} else {
			high = middle
		}
	}
	return low, nil
}

// NextStep reads on from a position to the next closed step, and returns it with the position after it; nil with the
// position of the first entry that was not read. All entries up to last exist; with Unknown it reads until the store
// has no more. The read entries are not kept in the cache: one who reads a whole journal does not evict what Turns
// need.
func (l *Log) NextStep(ctx context.Context, s Session, p Position, last int64) (*Closed, Position, error) {
	for p.Ordinal <= last {
		e, err := l.peek(ctx, s, p.Ordinal)
		if errors.Is(err, ErrNotFound) && last == Unknown {
			return nil, p, nil
		}
		if err := promised(s, p.Ordinal, err); err != nil {
			return nil, p, err
		}
		p.Ordinal++
		if !e.spec.Final {
			continue
		}
		parts := make([]*entry, 0, len(e.spec.Parts))
		for _, ordinal := range e.spec.Parts {
			part, err := l.peek(ctx, s, ordinal)
			if err := promised(s, ordinal, err); err != nil {
				return nil, p, err
			}
			parts = append(parts, part)
		}
		closed, err := assemble(e.spec, parts)
		if err != nil {
			return nil, p, err
		}
		p.Sequence += int64(len(closed.Events))
		return closed, p, nil
	}
	return nil, p, nil
}

// peek reads the entry at an ordinal, from the cache if it is there, and does not keep it.
func (l *Log) peek(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	if e := l.cache.entry(s.UID, ordinal); e != nil {
		return e, nil
	}
	if l.beforeFollow != nil {
		if err := l.beforeFollow(ctx, s.Namespace); err != nil {
			return nil, fmt.Errorf("waiting to read the journal of Session %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	return read(ctx, l.follow, s, ordinal)
}

// known keeps an entry that exists in the cache, and tells those who follow the journal.
func (l *Log) known(session types.UID, e *entry) {
	l.cache.putEntry(session, e)
	if l.onEntry != nil {
		l.onEntry(session, e.spec.Ordinal)
	}
}
