package record

import (
	"context"
	"sync"
)

// locks has a lock for each store that an operation of this process is about to change.
type locks struct {
	mu     sync.Mutex
	stores map[Scope]*lock
}

// lock is held by the operation whose token is in the channel. users counts it and those that wait.
type lock struct {
	token chan struct{}
	users int
}

// lock waits for the lock of a store, and returns the function that releases it.
func (l *locks) lock(ctx context.Context, scope Scope) (unlock func(), err error) {
	l.mu.Lock()
	if l.stores == nil {
		l.stores = map[Scope]*lock{}
	}
	of := l.stores[scope]
	if of == nil {
		of = &lock{token: make(chan struct{}, 1)}
		l.stores[scope] = of
	}
	of.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.users--
		if of.users == 0 {
			delete(l.stores, scope)
		}
	}
	select {
	case of.token <- struct{}{}:
		return func() {
			<-of.token
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
