package capstantest

import (
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Clock is a clock that a test advances: see clock.Clock.
type Clock = clock.Clock

// NewClock returns a clock that shows the given time now.
func NewClock(start time.Time) *Clock {
	return clock.New(start)
}

// WithoutPauses returns a function for Eventually that reads a Turn as read does, and advances the clock to the end of
// each pause that the Turn shows, before another attempt of a tool call or of a model call, or for a rate limit. A
// single Advance moves the clock past the pauses that have begun; one that begins later would last its whole time. Time
// limits and waits for users are not pauses: the clock only reaches them if they are shorter.
func WithoutPauses(c *Clock, read func() (*v1alpha1.Turn, error)) func() (*v1alpha1.Turn, error) {
	return func() (*v1alpha1.Turn, error) {
		turn, err := read()
		if err != nil || turn == nil || turnstate.Finished(&turn.Status) {
			return turn, err
		}
		for _, wait := range turn.Status.WaitsFor {
			if (wait.Type == v1alpha1.WaitTypeBackoff || wait.Type == v1alpha1.WaitTypeRateLimit) && wait.Until != nil {
				c.Set(wait.Until.Time)
			}
		}
		for _, call := range turn.Status.ToolCalls {
			if call.State == v1alpha1.ToolCallStatePending && call.NotBefore != nil {
				c.Set(call.NotBefore.Time)
			}
		}
		return turn, nil
	}
}
