package capstantest

import (
	"time"

	"github.com/capstan-dev/capstan/capstantest/clock"
)

// Clock is a clock that a test advances: see clock.Clock.
type Clock = clock.Clock

// NewClock returns a clock that shows the given time now.
func NewClock(start time.Time) *Clock {
	return clock.New(start)
}
