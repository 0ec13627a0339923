package fairshare

import (
	"sync"
	"time"
)

// Queue is a work queue that serves namespaces fairly: the next item is one of the namespace with the fewest items in
// progress, and of several such namespaces of the one that was served the longest ago. A single namespace may use all
// but an eighth of the workers. As in any work queue, an item is in progress once at a time, and one that is added
// while it is in progress is processed again afterwards.
type Queue[T comparable] struct {
	namespace func(T) string
	ceiling   int
	waited    Observer

	mu         sync.Mutex
	changed    *sync.Cond
	lines      map[string]*line[T]
	dirty      map[T]struct{}
	inProgress map[T]struct{}
	waiting    int
	served     uint64
	closed     bool
}

// line is the queue of one namespace.
type line[T comparable] struct {
	items      []queued[T]
	inProgress int
	// last numbers the last time that the namespace was served.
	last uint64
}

// queued is a queued item.
type queued[T comparable] struct {
	item  T
	since time.Time
}

// NewQueue returns a Queue for a number of workers. waited is called with the waiting time of each item; it may be nil.
func NewQueue[T comparable](workers int, namespace func(T) string, waited Observer) *Queue[T] {
	q := &Queue[T]{
		namespace:  namespace,
		ceiling:    int(Ceiling(int64(max(workers, 1)))),
		waited:     waited,
		lines:      map[string]*line[T]{},
		dirty:      map[T]struct{}{},
		inProgress: map[T]struct{}{},
	}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Add adds an item unless it is already queued.
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.dirty[item]; known || q.closed {
		return
	}
	q.dirty[item] = struct{}{}
	if _, running := q.inProgress[item]; !running {
		q.enqueue(item)
	}
}

// Len is the number of queued items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Get waits for the next item. Done must be called with it. shutdown reports that there will be none.
func (q *Queue[T]) Get() (item T, shutdown bool) {
	first, shutdown := q.get()
	if q.waited != nil && !shutdown {
		q.waited(q.namespace(first.item), time.Since(first.since))
	}
	return first.item, shutdown
}

func (q *Queue[T]) get() (first queued[T], shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if l := q.next(); l != nil {
			return q.dequeue(l), false
		}
		if q.closed && q.waiting == 0 {
			return first, true
		}
		q.changed.Wait()
	}
}

// Done ends the work on an item.
func (q *Queue[T]) Done(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, running := q.inProgress[item]; !running {
		return
	}
	delete(q.inProgress, item)
	namespace := q.namespace(item)
	l := q.lines[namespace]
	l.inProgress--
	if _, again := q.dirty[item]; again {
		q.enqueue(item)
	}
	if l.inProgress == 0 && len(l.items) == 0 {
		delete(q.lines, namespace)
	}
	q.changed.Broadcast()
}

// ShutDown stops accepting items. Queued items are still served.
func (q *Queue[T]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}

// ShutDownWithDrain stops accepting items and waits until all are done.
func (q *Queue[T]) ShutDownWithDrain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	for q.waiting > 0 || len(q.inProgress) > 0 {
		q.changed.Wait()
	}
}

// ShuttingDown reports whether the Queue has stopped accepting items.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *Queue[T]) enqueue(item T) {
	namespace := q.namespace(item)
	l := q.lines[namespace]
	if l == nil {
		l = &line[T]{last: q.served}
		q.lines[namespace] = l
	}
	l.items = append(l.items, queued[T]{item, time.Now()})
	q.waiting++
	q.changed.Broadcast()
}

// next is the line that is served next; nil for none.
func (q *Queue[T]) next() *line[T] {
	if q.waiting == 0 {
		return nil
	}
	var best *line[T]
	for _, l := range q.lines {
		if len(l.items) == 0 || l.inProgress >= q.ceiling {
			continue
		}
		if best == nil || l.inProgress < best.inProgress || (l.inProgress == best.inProgress && l.last < best.last) {
			best = l
		}
	}
	return best
}

func (q *Queue[T]) dequeue(l *line[T]) queued[T] {
	first := l.items[0]
	l.items[0] = queued[T]{}
	l.items = l.items[1:]
	q.waiting--
	q.served++
	l.inProgress++
	l.last = q.served
	delete(q.dirty, first.item)
	q.inProgress[first.item] = struct{}{}
	return first
}
