package activity

import (
	"context"
	"sync"
)

// places are what the activities of tool calls run in. Nobody knows how long a call takes, so that a namespace may have no more places than it
// leaves free: one alone gets half of them, the second half of the rest, and whoever comes next finds one at once.
type places struct {
	mu      sync.Mutex
	free    int
	held    map[string]int
	waiting []*waiter
}

type waiter struct {
	namespace string
	ready     chan struct{}
}

func newPlaces(size int) *places {
	return &places{free: size, held: map[string]int{}}
}

// take waits for a place, and says whether there is one before the context ends.
func (p *places) take(ctx context.Context, namespace string) bool {
	w := &waiter{namespace: namespace, ready: make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.admit()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
		return p.left(w)
	}
}

// left takes a waiter out of the queue, and says whether it was given a place before.
func (p *places) left(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting {
		if other == w {
			p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
			return false
		}
	}
	return true
}

// leave gives a place back.
func (p *places) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	p.held[namespace]--
	if p.held[namespace] == 0 {
		delete(p.held, namespace)
	}
	p.admit()
}

// admit gives places to those who have waited longest and may have one.
func (p *places) admit() {
	rest := p.waiting[:0]
	for _, w := range p.waiting {
		if p.held[w.namespace] >= p.free {
			rest = append(rest, w)
			continue
		}
		p.free--
		p.held[w.namespace]++
		close(w.ready)
	}
	clear(p.waiting[len(rest):])
	p.waiting = rest
}
