// Package memory stores records in memory, for tests and for the runtime without Kubernetes.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// blob names a blob of a store.
type blob struct {
	scope record.Scope
	name  string
}

// Objects stores indexes and blobs in maps. It is safe for concurrent use. Its content is lost with the process.
type Objects struct {
	mu      sync.Mutex
	version int64
	indexes map[record.Scope]record.Stored
	blobs   map[blob][]byte
}

var _ record.Objects = (*Objects)(nil)

// New returns Objects without content.
func New() *Objects {
	return &Objects{indexes: map[record.Scope]record.Stored{}, blobs: map[blob][]byte{}}
}

// ReadIndex reads the index of a store.
func (m *Objects) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	if err := ctx.Err(); err != nil {
		return record.Stored{}, fmt.Errorf("reading an index: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, ok := m.indexes[scope]
	if !ok {
		return record.Stored{}, record.ErrNotFound
	}
	return stored, nil
}

// WriteIndex creates the index of a store, or replaces the version that was read.
func (m *Objects) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing an index: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.indexes[scope].Version != index.Version {
		return record.ErrChanged
	}
	m.version++
	index.Payload, index.Version = bytes.Clone(index.Payload), strconv.FormatInt(m.version, 10)
	m.indexes[scope] = index
	return nil
}

// ReadBlob reads a blob.
func (m *Objects) ReadBlob(ctx context.Context, scope record.Scope, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading a blob: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	payload, ok := m.blobs[blob{scope, name}]
	if !ok {
		return nil, record.ErrNotFound
	}
	return bytes.Clone(payload), nil
}

// CreateBlob creates a blob, unless there is one.
func (m *Objects) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing a blob: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[blob{scope, name}] = bytes.Clone(payload)
	return nil
}

// DeleteBlob deletes a blob, if there is one.
func (m *Objects) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("deleting a blob: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, blob{scope, name})
	return nil
}
