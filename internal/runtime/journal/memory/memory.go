// Package memory stores the journals of Sessions in memory, for tests and for the runtime without Kubernetes.
package memory

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

type key struct {
	session types.UID
	ordinal int64
}

// Store stores entries in a map. It is safe for concurrent use. Its content is lost with the process.
type Store struct {
	mu      sync.Mutex
	entries map[key]*v1alpha1.JournalEntrySpec
}

var _ journal.Store = (*Store)(nil)

// New is an empty store.
func New() *Store {
	return &Store{entries: map[key]*v1alpha1.JournalEntrySpec{}}
}

// Get reads the entry at an ordinal.
func (m *Store) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the entry at ordinal %d: %w", ordinal, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key{s.UID, ordinal}]
	if !ok {
		return nil, journal.ErrNotFound
	}
	return e.DeepCopy(), nil
}

// Create writes an entry at its ordinal, unless there is one.
func (m *Store) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing the entry at ordinal %d: %w", e.Ordinal, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key{s.UID, e.Ordinal}
	if _, ok := m.entries[k]; ok {
		return journal.ErrExists
	}
	m.entries[k] = e.DeepCopy()
	return nil
}
