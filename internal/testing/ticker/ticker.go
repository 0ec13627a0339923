// Package ticker has a clock for tests of what is recorded with its time. It moves only where the test moves it, or
// with each look at it, so that no two records have the same time.
package ticker

import (
	"sync"
	"time"
)

// Start is the time at which every Ticker begins.
var Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Ticker is a clock, for several goroutines. Its zero value shows Start.
type Ticker struct {
	mu     sync.Mutex
	passed time.Duration
}

// Now returns the time.
func (c *Ticker) Now() time.Time { return c.Pass(0) }

// Tick returns the time, a millisecond after the last one.
func (c *Ticker) Tick() time.Time { return c.Pass(time.Millisecond) }

// Pass moves the clock, and returns the time then.
func (c *Ticker) Pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
	return Start.Add(c.passed)
}
