package identitykeys

import (
	"context"
	"sync"
)

// lock is a mutex for which a caller waits no longer than its context. The zero value is not locked.
type lock struct {
	made  sync.Once
	place chan struct{}
}

func (l *lock) places() chan struct{} {
	l.made.Do(func() { l.place = make(chan struct{}, 1) })
	return l.place
}

// try takes the lock unless another caller has, and reports whether it did.
func (l *lock) try() bool {
	select {
	case l.places() <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter takes the lock.
func (l *lock) enter(ctx context.Context) error {
	select {
	case l.places() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave releases the lock.
func (l *lock) leave() { <-l.places() }
