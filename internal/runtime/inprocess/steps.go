package inprocess

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Steps reads the closed steps of a Session, in the order of the journal, from the given store.
func Steps(ctx context.Context, log *journal.Log, store journal.Store, s journal.Session) ([]*journal.Closed, error) {
	var steps []*journal.Closed
	for ordinal := int64(1); ; ordinal++ {
		entry, err := store.Get(ctx, s, ordinal)
		if errors.Is(err, journal.ErrNotFound) {
			return steps, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the entry at ordinal %d: %w", ordinal, err)
		}
		if !entry.Final || entry.Turn == nil {
			continue
		}
		step, err := log.Step(ctx, s, entry.Turn.UID, ordinal)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
}
