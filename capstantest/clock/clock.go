// Package clock has the clock of tests: it runs, and jumps forward on request. The kit of capstantest and the runtime
// of capstantest/inprocess use the same one.
package clock

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Clock is a clock that a test advances, so that waits of minutes end at once: timeouts of tools, deadlines, the
// retention of Jobs. Between two jumps it runs as fast as the real one, because controllers also wait for short times
// that tests need not know, such as for their caches. The zero value shows the real time.
//
// All controllers of a capstantest.Kit, and the kit as Job controller and kubelet, read it. The API server sets
// timestamps by the real time; the kit converts them to the Clock for the controllers. Before you advance the Clock,
// wait until the status of a Turn shows the state whose time limit you test: a state that begins later begins at the
// new time.
type Clock struct {
	mu sync.Mutex
	// offset is how far the clock is ahead of the real one.
	offset time.Duration
	// jump is closed when the clock jumps.
	jump chan struct{}
	// alarms are called after each jump.
	alarms []func()
	// created and deleted are when objects were, by this clock: the offset is that of the moment at which they were
	// first seen.
	created, deleted map[types.UID]metav1.Time
}

// New returns a clock that shows the given time now.
func New(start time.Time) *Clock {
	return &Clock{offset: time.Until(start)}
}

// Now returns the current time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	return time.Now().Add(c.offset)
}

// Advance advances the clock. All waits check the clock again. A clock does not go back: a negative duration has no
// effect.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	if d <= 0 {
		c.mu.Unlock()
		return
	}
	c.offset += d
	if c.jump != nil {
		close(c.jump)
		c.jump = nil
	}
	alarms := append([]func(){}, c.alarms...)
	c.mu.Unlock()
	for _, alarm := range alarms {
		alarm()
	}
}

// Set advances the clock to the given time. A time that has passed has no effect.
func (c *Clock) Set(t time.Time) {
	c.Advance(t.Sub(c.Now()))
}

// OnJump registers a function that is called after each jump, by the goroutine that advances the clock.
func (c *Clock) OnJump(alarm func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = append(c.alarms, alarm)
}

// Reach waits until the clock shows the given time. It reports false if the context ends first.
func (c *Clock) Reach(ctx context.Context, t time.Time) bool {
	for {
		c.mu.Lock()
		left := t.Sub(c.now())
		if c.jump == nil {
			c.jump = make(chan struct{})
		}
		jump := c.jump
		c.mu.Unlock()
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-jump:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// Date converts the creation and deletion times of an object from an API server to this clock. Calling it again changes
// nothing.
func (c *Clock) Date(object metav1.Object) {
	if object.GetUID() == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if given := object.GetCreationTimestamp(); !given.IsZero() {
		if shown := c.seen(&c.created, object.GetUID(), given); !shown.Equal(&given) {
			object.SetCreationTimestamp(shown)
		}
	}
	if given := object.GetDeletionTimestamp(); given != nil {
		if shown := c.seen(&c.deleted, object.GetUID(), *given); !shown.Equal(given) {
			object.SetDeletionTimestamp(&shown)
		}
	}
}

// seen is the time by this clock that goes with a time of the API server.
func (c *Clock) seen(times *map[types.UID]metav1.Time, uid types.UID, given metav1.Time) metav1.Time {
	if *times == nil {
		*times = map[types.UID]metav1.Time{}
	}
	shown, known := (*times)[uid]
	if !known {
		shown = metav1.NewTime(given.Add(c.offset))
		(*times)[uid] = shown
	}
	return shown
}
