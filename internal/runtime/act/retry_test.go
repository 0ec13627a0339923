package act

import (
	"testing"
	"time"
)

func TestPausesBetweenAttemptsGrowAndAreBounded(t *testing.T) {
	var sum time.Duration
	for attempt := int32(1); attempt < MaxAttempts; attempt++ {
		pause := RetryPause(attempt)
		if pause < 5*time.Second || pause <= sum {
			t.Errorf("attempt %d is followed by a pause of %v after %v in all", attempt, pause, sum)
		}
		sum += pause
	}
	if sum > 2*time.Minute || RetryPause(1000) != RetryPause(MaxAttempts) || RetryPause(0) != RetryPause(1) {
		t.Errorf("%v in all, %v after a thousand attempts, %v after none", sum, RetryPause(1000), RetryPause(0))
	}
}
