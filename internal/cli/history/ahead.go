package history

import (
	"context"
	"sync"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// readsAhead is the number of entries that are read at once.
const readsAhead = 8

// result is the response to one read.
type result struct {
	spec *v1alpha1.JournalEntrySpec
	err  error
}

// ahead returns a function that reads one entry after another, in order. It reads those up to head before they are
// requested. The reads end with the context.
func ahead(
	ctx context.Context, store journal.Store, s journal.Session, from, head int64,
) func(ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	pending := make(chan chan result, readsAhead)
	if from <= head {
		go func() {
			defer close(pending)
			for ordinal := from; ordinal <= head; ordinal++ {
				one := make(chan result, 1)
				select {
				case pending <- one:
				case <-ctx.Done():
					return
				}
				go func() {
					spec, err := store.Get(ctx, s, ordinal)
					one <- result{spec, err}
				}()
			}
		}()
	} else {
		close(pending)
	}
	return func(ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
		if one, ok := <-pending; ok {
			r := <-one
			return r.spec, r.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return store.Get(ctx, s, ordinal)
	}
}

// recentBytes bounds the entries that are kept.
const recentBytes = 32 << 20

// recent keeps the entries that were read last: the entry that closes a step names earlier ones, which were read just
// before.
type recent struct {
	store journal.Store

	mu      sync.Mutex
	entries map[key]*v1alpha1.JournalEntrySpec
	order   []key
	bytes   int
}

type key struct {
	session journal.Session
	ordinal int64
}

var _ journal.Store = (*recent)(nil)

// Get implements journal.Store.
func (c *recent) Get(
	ctx context.Context, s journal.Session, ordinal int64,
) (*v1alpha1.JournalEntrySpec, error) {
	at := key{s, ordinal}
	c.mu.Lock()
	found := c.entries[at]
	c.mu.Unlock()
	if found != nil {
		return found, nil
	}
	spec, err := c.store.Get(ctx, s, ordinal)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[key]*v1alpha1.JournalEntrySpec{}
	}
	if c.entries[at] != nil {
		return spec, nil
	}
	c.entries[at] = spec
	c.order = append(c.order, at)
	c.bytes += size(spec)
	for c.bytes > recentBytes && len(c.order) > 1 {
		c.bytes -= size(c.entries[c.order[0]])
		delete(c.entries, c.order[0])
		c.order = c.order[1:]
	}
	return spec, nil
}

// Create implements journal.Store. No user may write entries.
func (c *recent) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	return c.store.Create(ctx, s, e)
}

func size(spec *v1alpha1.JournalEntrySpec) int {
	if spec.Payload == nil {
		return 0
	}
	return len(spec.Payload.Raw)
}
