package turnstate

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// Expiry is a time limit of a Turn that has passed.
type Expiry struct {
	// Code of the Turn's error.
	Code v1alpha1.ErrorCode
	// Sentence for the user.
	Sentence string
}

// DeadlineExceeded is the end of a Turn that took longer than its limit.
func DeadlineExceeded(limit time.Duration) Expiry {
	return Expiry{v1alpha1.ErrorCodeDeadlineExceeded, "The turn took longer than its deadline of " + limit.String() + "."}
}

// WaitTimeout is the end of a Turn that waited for tool results longer than its limit (CLIENT-05).
func WaitTimeout(limit time.Duration) Expiry {
	return Expiry{v1alpha1.ErrorCodeWaitTimeout, "Timed out after " + limit.String() + " of waiting for tool results."}
}

// Ending is how the Turn ends.
func (e Expiry) Ending() Ending {
	return Failed(plan.Failure{Code: e.Code}, e.Sentence)
}

// TimeLimit is when a Turn that runs must have ended, or must have stopped to wait.
type TimeLimit struct {
	// At is the moment.
	At time.Time
	// Expiry is how the Turn ends then.
	Expiry Expiry
}

// TimeLimits returns the time limits of the Turn in its current state. They follow from its status, so that a restart
// changes nothing.
func TimeLimits(turn *v1alpha1.Turn) []TimeLimit {
	var limits []TimeLimit
	if seconds, sum := turn.Spec.ActiveDeadlineSeconds, turn.Status.Summary; seconds != nil && sum != nil &&
		sum.StartedAt != nil {
		allowed := time.Duration(*seconds) * time.Second
		limits = append(limits, TimeLimit{sum.StartedAt.Add(allowed), DeadlineExceeded(allowed)})
	}
	waits := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionWaitingForToolResults)
	if timeout := turn.Spec.WaitTimeout; timeout != nil &&
		turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults &&
		waits != nil {
		limits = append(limits, TimeLimit{waits.LastTransitionTime.Add(timeout.Duration), WaitTimeout(timeout.Duration)})
	}
	return limits
}
