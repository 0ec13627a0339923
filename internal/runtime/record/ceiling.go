package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrNamespaceFull reports an operation for which the stores of a namespace have no room together. It is an ErrFull.
var ErrNamespaceFull = fmt.Errorf("%w: all stores of the namespace together", ErrFull)

// Ceiling bounds the values of all stores of a namespace together. It is safe for concurrent use.
type Ceiling struct {
	// Bytes is the maximum size of all values of a namespace.
	Bytes int64
	// Stores returns the stores that a namespace may have, with those that were never written. Those of objects that are
	// gone do not count.
	Stores func(ctx context.Context, namespace string) ([]Scope, error)

	locks locks
	mu    sync.Mutex
	// known are the sizes of stores, by namespace. A store that this process has not read is missing.
	known map[string]map[Scope]int64
}

// admit decides about an operation that changes the size of a store, and counts it. An operation that makes a store
// larger waits until all stores of the namespace have been counted: after a restart they are read once. The caller must
// call ended, with whether the operation was carried out.
func (c *Ceiling) admit(
	ctx context.Context, scope Scope, before, after int64, size func(context.Context, Scope) (int64, error),
) (ended func(written bool), err error) {
	if c == nil || c.Bytes == 0 {
		return func(bool) {}, nil
	}
	ended = func(written bool) {
		if written {
			c.set(scope, after)
		} else {
			c.forget(scope) // It is read again: the write may have been carried out nevertheless.
		}
	}
	if after <= before {
		return ended, nil
	}
	unlock, err := c.locks.lock(ctx, Scope{Namespace: scope.Namespace})
	if err != nil {
		return nil, err
	}
	defer unlock()
	others, err := c.others(ctx, scope, size)
	if err != nil {
		return nil, err
	}
	if others+after > c.Bytes {
		return nil, fmt.Errorf("%w would have %d bytes; the maximum is %d", ErrNamespaceFull, others+after, c.Bytes)
	}
	c.set(scope, after)
	return ended, nil
}

// others returns the size of all other stores of a namespace, and reads those that are not known. Each size is kept as
// it is read, so that an operation whose time was too short leaves less to be read for the next one.
func (c *Ceiling) others(
	ctx context.Context, scope Scope, size func(context.Context, Scope) (int64, error),
) (int64, error) {
	stores, err := c.Stores(ctx, scope.Namespace)
	if err != nil {
		return 0, fmt.Errorf("counting the stores of namespace %s: %w", scope.Namespace, err)
	}
	before := c.of(scope.Namespace)
	now := map[Scope]int64{}
	var sum int64
	for _, other := range stores {
		if other == scope {
			continue
		}
		bytes, known := before[other]
		if !known {
			if bytes, err = size(ctx, other); err != nil {
				return 0, fmt.Errorf("counting the stores of namespace %s: %w", scope.Namespace, err)
			}
			c.add(other, bytes)
			before[other] = bytes
		}
		now[other] = bytes
		sum += bytes
	}
	c.replace(scope.Namespace, before, now)
	return sum, nil
}

// of returns a copy of the known sizes of a namespace.
func (c *Ceiling) of(namespace string) map[Scope]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[Scope]int64, len(c.known[namespace]))
	for scope, bytes := range c.known[namespace] {
		known[scope] = bytes
	}
	return known
}

// replace keeps what was counted, of the stores that exist. What has changed since before the count stays.
func (c *Ceiling) replace(namespace string, before, counted map[Scope]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for scope := range before {
		if _, known := c.known[namespace][scope]; !known {
			delete(counted, scope)
		}
	}
	for scope, bytes := range c.known[namespace] {
		if was, known := before[scope]; !known || was != bytes {
			counted[scope] = bytes
		}
	}
	if c.known == nil {
		c.known = map[string]map[Scope]int64{}
	}
	c.known[namespace] = counted
}

func (c *Ceiling) set(scope Scope, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]map[Scope]int64{}
	}
	if c.known[scope.Namespace] == nil {
		c.known[scope.Namespace] = map[Scope]int64{}
	}
	c.known[scope.Namespace][scope] = bytes
}

// add keeps the size of a store that was read, unless an operation has counted it meanwhile.
func (c *Ceiling) add(scope Scope, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.known[scope.Namespace][scope]; known {
		return
	}
	if c.known == nil {
		c.known = map[string]map[Scope]int64{}
	}
	if c.known[scope.Namespace] == nil {
		c.known[scope.Namespace] = map[Scope]int64{}
	}
	c.known[scope.Namespace][scope] = bytes
}

func (c *Ceiling) forget(scope Scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known[scope.Namespace], scope)
}

// size reads the size of a store for the Ceiling. One that this build cannot read, of a later format for example,
// counts as the largest store: it is there, and must not stop the other stores of its namespace.
func (s *objectStore) size(ctx context.Context, scope Scope) (int64, error) {
	bytes, err := s.weigh(ctx, scope)
	if errors.Is(err, ErrFormat) {
		return s.o.MaxBytes, nil
	}
	return bytes, err
}

// weigh reads the weight of a store, from its index alone unless that is an older one with pages.
func (s *objectStore) weigh(ctx context.Context, scope Scope) (int64, error) {
	stored, err := s.objects.ReadIndex(ctx, scope)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the index of store %s of %s: %w", scope.Store, scope.Owner(), err)
	}
	x, known := s.memory.index(scope, stored)
	if !known {
		if x, err = decodeIndex(stored); err != nil {
			return 0, fmt.Errorf("reading the index of store %s of %s: %w", scope.Store, scope.Owner(), err)
		}
	}
	switch {
	case known || len(x.pages) == 0:
		return x.weight(), nil
	case x.stored != nil:
		return *x.stored + x.pageBytes(), nil
	}
	if x, _, err = s.read(ctx, scope); err != nil {
		return 0, err
	}
	return x.weight(), nil
}
