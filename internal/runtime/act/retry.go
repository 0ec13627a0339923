package act

import (
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/backoff"
)

// MaxAttempts is the maximum number of attempts of a Pure or Idempotent call that are ended by disruptions.
const MaxAttempts = 4

// retryPauses grow fast, because disruptions of a tool, such as the drain of a node, last for a while.
var retryPauses = backoff.Exponential{First: 5 * time.Second, Factor: 3, Longest: 135 * time.Second}

// RetryPause is the pause before the next attempt of a call after a number of disrupted attempts.
func RetryPause(attempts int32) time.Duration {
	return retryPauses.After(int(attempts))
}
