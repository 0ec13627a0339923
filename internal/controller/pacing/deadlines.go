package pacing

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// deadlines adds items to a work queue at a later time. An item has at most one deadline, which ends when a pass for
// the item begins: each pass determines anew when the next one is due, so that a deadline of an earlier pass would only
// cause a pass without work.
//
// The delaying queue of client-go keeps the earliest deadline of an item, whatever passes come before it.
type deadlines[T comparable] struct {
	workqueue.TypedInterface[T]

	mu  sync.Mutex
	due map[T]*deadline
}

// deadline is when one item is due.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// newDeadlines returns deadlines for the items of a queue.
func newDeadlines[T comparable](queue workqueue.TypedInterface[T]) *deadlines[T] {
	return &deadlines[T]{TypedInterface: queue, due: map[T]*deadline{}}
}

// AddAfter implements workqueue.TypedDelayingInterface. Of several deadlines for one pass the earliest counts.
func (d *deadlines[T]) AddAfter(item T, pause time.Duration) {
	if pause <= 0 {
		d.Add(item)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ShuttingDown() {
		return
	}
	at := time.Now().Add(pause)
	if known := d.due[item]; known != nil {
		if !at.Before(known.at) {
			return
		}
		known.timer.Stop()
	}
	set := &deadline{at: at}
	d.due[item] = set
	set.timer = time.AfterFunc(pause, func() {
		if d.end(item, set) {
			d.Add(item)
		}
	})
}

// Get implements workqueue.TypedInterface.
func (d *deadlines[T]) Get() (item T, shutdown bool) {
	item, shutdown = d.TypedInterface.Get()
	if !shutdown {
		d.mu.Lock()
		defer d.mu.Unlock()
		if known := d.due[item]; known != nil {
			known.timer.Stop()
			delete(d.due, item)
		}
	}
	return item, shutdown
}

// end removes a deadline that has passed, and reports whether it still counted.
func (d *deadlines[T]) end(item T, passed *deadline) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.due[item] != passed {
		return false
	}
	delete(d.due, item)
	return true
}

// ShutDown implements workqueue.TypedInterface.
func (d *deadlines[T]) ShutDown() {
	d.TypedInterface.ShutDown()
	d.stop()
}

// ShutDownWithDrain implements workqueue.TypedInterface.
func (d *deadlines[T]) ShutDownWithDrain() {
	d.TypedInterface.ShutDownWithDrain()
	d.stop()
}

// stop ends all deadlines.
func (d *deadlines[T]) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.due {
		known.timer.Stop()
	}
	clear(d.due)
}
