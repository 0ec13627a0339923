package act

import "time"

// MaxAttempts is the maximum number of attempts of a Pure or Idempotent call that are ended by disruptions.
const MaxAttempts = 4

const (
	firstRetryPause  = 5 * time.Second
	retryPauseGrowth = 3
)

// RetryPause is the pause before the next attempt of a call after a number of disrupted attempts.
func RetryPause(attempts int32) time.Duration {
	pause := firstRetryPause
	for range min(attempts, MaxAttempts) - 1 {
		pause *= retryPauseGrowth
	}
	return pause
}
