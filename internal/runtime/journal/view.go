package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// staleBy is how far the hint may be ahead of a cached state before reading again costs less than reading on.
const staleBy = CheckpointInterval + 8

// View folds the journal up to its head. A cached view is updated to the head, at the cost of one read if nothing is
// new. The hint is an ordinal known to exist, 0 if none is: a read without a cache starts at the checkpoint at or below
// it.
func (l *Log) View(ctx context.Context, s Session, hint int64) (*View, error) {
	st, err := l.upToDate(ctx, s, hint)
	if err != nil {
		return nil, err
	}
	return st.view(), nil
}

// ViewTo folds the journal up to an entry that is known to exist, or further. It does not look for newer entries: a
// cached view that has the entry is returned without a read.
func (l *Log) ViewTo(ctx context.Context, s Session, head int64) (*View, error) {
	st, fresh, err := l.load(ctx, s, head)
	if err != nil {
		return nil, err
	}
	if !fresh && st.at() < head {
		if err := l.catchUp(ctx, s, st, map[int64]bool{head + 1: true}); err != nil {
			return nil, err
		}
	}
	return st.view(), nil
}

// upToDate returns the state up to an entry after which the store had none at the time of the read.
func (l *Log) upToDate(ctx context.Context, s Session, hint int64) (*state, error) {
	st, fresh, err := l.load(ctx, s, hint)
	if err != nil || fresh {
		return st, err
	}
	return st, l.catchUp(ctx, s, st, nil)
}

// load returns the state of the Session: the cached one, or one that is read now, which is fresh.
func (l *Log) load(ctx context.Context, s Session, hint int64) (st *state, fresh bool, err error) {
	if st := l.cache.state(s.UID); st != nil && hint <= st.at()+staleBy {
		return st, false, nil
	}
	st, err = l.cold(ctx, s, hint)
	if err != nil {
		return nil, false, err
	}
	l.remember(s, st)
	return st, true, nil
}

// catchUp folds entries until the store has no more, without reading those that absent reports as missing.
func (l *Log) catchUp(ctx context.Context, s Session, st *state, absent map[int64]bool) error {
	grown := false
	for {
		ordinal := st.at() + 1
		if absent[ordinal] {
			break
		}
		e, err := l.get(ctx, s, ordinal)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if err := l.fold(ctx, s, st, e); err != nil {
			return err
		}
		grown = true
	}
	if grown {
		l.remember(s, st)
	}
	return nil
}

// fold adds an entry to the state, with the parts that it names.
func (l *Log) fold(ctx context.Context, s Session, st *state, e *entry) error {
	var c change
	if e.spec.Final {
		closed, err := l.closed(ctx, s, e)
		if err != nil {
			return err
		}
		if c, err = changeOf(closed); err != nil {
			return err
		}
	}
	return st.fold(e, c)
}

// closed is the step that a final entry closes.
func (l *Log) closed(ctx context.Context, s Session, final *entry) (*Closed, error) {
	parts := make([]*entry, 0, len(final.spec.Parts))
	for _, ordinal := range final.spec.Parts {
		part, err := l.must(ctx, s, ordinal)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return assemble(final.spec, parts)
}

// cold reads the journal without a cache: the newest checkpoint, those that it builds on, and the entries after it.
func (l *Log) cold(ctx context.Context, s Session, hint int64) (*state, error) {
	r := &coldRead{log: l, session: s, found: map[int64]*entry{}, absent: map[int64]bool{}}
	newest, err := r.newest(ctx, max(hint, 0)/CheckpointInterval)
	if err != nil {
		return nil, err
	}
	st := newState()
	if err := r.blocks(ctx, st, newest*CheckpointInterval); err != nil {
		return nil, err
	}
	// An ordinal that was free earlier in this read bounds the head then; the entry before it was found later. At some
	// time in between the head was exactly that entry, so that the ordinal need not be read again.
	if err := l.catchUp(ctx, s, st, r.absent); err != nil {
		return nil, err
	}
	return st, nil
}

// coldRead records the reads of the store without a cache.
type coldRead struct {
	log     *Log
	session Session
	found   map[int64]*entry
	absent  map[int64]bool
}

// newest returns the number of the newest checkpoint, 0 if there is none. The search starts at a number whose
// checkpoint should exist, at distances that double, and continues by halving. From 0 on, that finds every checkpoint
// that the newest one builds on.
func (r *coldRead) newest(ctx context.Context, from int64) (int64, error) {
	if from > 0 {
		there, err := r.exists(ctx, from)
		if err != nil {
			return 0, err
		}
		if !there {
			from = 0
		}
	}
	low, distance := from, int64(1)
	for ; ; distance *= 2 {
		there, err := r.exists(ctx, from+distance)
		if err != nil {
			return 0, err
		}
		if !there {
			break
		}
		low = from + distance
	}
	for high := from + distance; low+1 < high; {
		middle := low + (high-low)/2
		there, err := r.exists(ctx, middle)
		if err != nil {
			return 0, err
		}
		if there {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}

func (r *coldRead) exists(ctx context.Context, checkpoint int64) (bool, error) {
	ordinal := checkpoint * CheckpointInterval
	e, err := r.log.fetch(ctx, r.session, ordinal)
	if errors.Is(err, ErrNotFound) {
		r.absent[ordinal] = true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.found[ordinal] = e
	return true, nil
}

// blocks adds to the state all up to the checkpoint at an ordinal.
func (r *coldRead) blocks(ctx context.Context, st *state, ordinal int64) error {
	var chain []*entry
	for at := ordinal; at > 0; {
		e := r.found[at]
		if e == nil {
			var err error
			if e, err = r.log.mustFetch(ctx, r.session, at); err != nil {
				return err
			}
		}
		chain = append(chain, e)
		next, err := before(e)
		if err != nil {
			return err
		}
		at = next
	}
	// The conversation begins with the newest checkpoint that has a compaction.
	begins := slices.IndexFunc(chain, func(e *entry) bool { return e.spec.Checkpoint.Compacted })
	for i, e := range slices.Backward(chain) {
		if err := r.block(ctx, st, e, begins >= 0 && i > begins); err != nil {
			return err
		}
	}
	return nil
}

// before returns the ordinal of the checkpoint that summarizes the entries before another one's range, 0 if none does.
func before(e *entry) (int64, error) {
	at, from := e.spec.Ordinal, e.spec.Checkpoint.From
	if from == at {
		return at - CheckpointInterval, nil
	}
	if from < 1 || from > at || !reserved(from-1) {
		return 0, fmt.Errorf("%w: the checkpoint at ordinal %d begins at %d", ErrCorrupt, at, from)
	}
	return from - 1, nil
}

func (r *coldRead) block(ctx context.Context, st *state, e *entry, superseded bool) error {
	at := e.spec.Ordinal
	if e.spec.Checkpoint.From < at {
		c, err := restore(e, superseded)
		if err != nil {
			return err
		}
		st.block(e, c)
		return nil
	}
	for o := at - CheckpointInterval + 1; o < at; o++ {
		raw, err := r.log.must(ctx, r.session, o)
		if err != nil {
			return err
		}
		if err := r.log.fold(ctx, r.session, st, raw); err != nil {
			return err
		}
	}
	return r.log.fold(ctx, r.session, st, e)
}
