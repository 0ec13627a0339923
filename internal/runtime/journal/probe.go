package journal

import (
	"context"
	"errors"
	"fmt"
)

// Probe checks whether a step can be closed, and writes nothing: it returns the error that Append would return. It
// reads the journal up to its end and, if the store supports it, makes the store check an entry. It returns a step that
// is closed.
func (l *Log) Probe(ctx context.Context, s Session, turn Turn, step int32, openedAt int64) (*Closed, error) {
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return nil, err
	}
	if err := w.toEnd(ctx); err != nil {
		return nil, err
	}
	if w.final != nil {
		return w.outcome(ctx)
	}
	store, ok := l.store.(DryRunner)
	if !ok {
		return nil, nil
	}
	e, err := w.entry(Entry{}, w.next)
	if err != nil {
		return nil, err
	}
	if err := store.DryRun(ctx, s, e.stored); err != nil && !errors.Is(err, ErrExists) {
		return nil, fmt.Errorf("checking whether the journal of Session %s/%s accepts entries: %w", s.Namespace, s.Name, err)
	}
	return nil, nil
}
