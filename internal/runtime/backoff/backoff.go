// Package backoff computes the pauses between attempts, and waits for their end.
package backoff

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Exponential describes pauses that grow from attempt to attempt. They have no jitter: a decision that is repeated from
// the same facts has the same result.
type Exponential struct {
	// First is the pause after the first failure.
	First time.Duration
	// Factor by which each further pause is longer.
	Factor float64
	// Longest bounds the pauses.
	Longest time.Duration
}

// After returns the pause after so many failures in a row. Fewer than one count as one.
func (e Exponential) After(failures int) time.Duration {
	b := wait.Backoff{Duration: e.First, Factor: e.Factor, Cap: e.Longest, Steps: math.MaxInt}
	pause := b.Step()
	for i := 1; i < failures && pause < e.Longest; i++ {
		pause = b.Step()
	}
	return pause
}

// Wait waits for so long, and returns early, with its error, when the context ends.
func Wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
