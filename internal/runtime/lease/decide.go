package lease

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

const (
	// Retention is how long a LeasedResource is kept after its resource was cleaned up or abandoned (LEASE-03).
	Retention = 7 * 24 * time.Hour
	// Patience is how long a LeasedResource that is being deleted is kept by clean-ups that fail. Then the resource is
	// abandoned.
	Patience = time.Hour
	// StalledAfter is the number of clean-ups in a row after whose failure a person has to act.
	StalledAfter = 3

	// claimGrace is added to the time limit of a clean-up, after which its claim is stale.
	claimGrace = 10 * time.Second
	// maxErrorBytes is the maximum length of status.lastError.
	maxErrorBytes = 1024
)

// pauses are those between a clean-up that failed and the next one.
var pauses = backoff.Exponential{First: 10 * time.Second, Factor: 2, Longest: time.Hour}

// Action is what is to be done about a lease.
type Action int

const (
	// Wait until the time of the Verdict, or for a change if it has none.
	Wait Action = iota
	// Begin writes the first status.
	Begin
	// Claim begins a clean-up.
	Claim
	// Abandon gives the resource up without a clean-up.
	Abandon
	// Finish removes the finalizer.
	Finish
	// Delete deletes the LeasedResource.
	Delete
	// Observe writes the status for a spec that has changed, without another effect.
	Observe
)

// Verdict is what follows from a lease and the time.
type Verdict struct {
	Action Action
	// At is when to decide again, for Wait; zero for never.
	At time.Time
}

// Decide returns what is to be done about a lease (LEASE-04).
func Decide(l *v1alpha1.LeasedResource, now time.Time) Verdict {
	verdict := decide(l, now)
	if verdict.Action == Wait && changed(l) {
		return Verdict{Action: Observe}
	}
	return verdict
}

// decide is Decide without regard to a status that is about an earlier spec.
func decide(l *v1alpha1.LeasedResource, now time.Time) Verdict {
	s := &l.Status
	claimed := s.State == v1alpha1.LeaseStateCleaning && now.Before(timeOf(s.ClaimExpiresAt))
	switch {
	case Finished(l):
		return decideFinished(l, now)
	case l.Spec.DesiredState == v1alpha1.LeaseDesiredStateAbandoned:
		return Verdict{Action: Abandon}
	case l.DeletionTimestamp != nil && !claimed && !now.Before(l.DeletionTimestamp.Add(Patience)):
		return Verdict{Action: Abandon}
	case s.State == "":
		return Verdict{Action: Begin}
	case s.State == v1alpha1.LeaseStateCleaning:
		return waitOr(Claim, timeOf(s.ClaimExpiresAt), now)
	case s.State == v1alpha1.LeaseStateActive && (l.DeletionTimestamp != nil || released(l)):
		return Verdict{Action: Claim}
	}
	due := Expiry(l)
	if s.State == v1alpha1.LeaseStateCleanupFailed && changed(l) && (l.DeletionTimestamp != nil || released(l)) {
		due = now // A person who has mended the cause does not wait for the pause.
	}
	if l.DeletionTimestamp != nil {
		if until := l.DeletionTimestamp.Add(Patience); until.Before(due) {
			due = until
		}
	}
	return waitOr(Claim, due, now)
}

// decideFinished is Decide for a resource that was cleaned up or abandoned.
func decideFinished(l *v1alpha1.LeasedResource, now time.Time) Verdict {
	if slices.Contains(l.Finalizers, v1alpha1.FinalizerLease) {
		return Verdict{Action: Finish}
	}
	if l.DeletionTimestamp != nil {
		return Verdict{}
	}
	return waitOr(Delete, timeOf(l.Status.FinishedAt).Add(Retention), now)
}

// GivesUpAt returns when a lease that is being deleted is abandoned at the latest.
func GivesUpAt(l *v1alpha1.LeasedResource) time.Time {
	until := l.DeletionTimestamp.Add(Patience)
	if stale := timeOf(l.Status.ClaimExpiresAt); l.Status.State == v1alpha1.LeaseStateCleaning && until.Before(stale) {
		return stale
	}
	return until
}

// waitOr waits for a time, and acts once it has come.
func waitOr(action Action, at, now time.Time) Verdict {
	if now.Before(at) {
		return Verdict{At: at}
	}
	return Verdict{Action: action}
}

// Finished reports whether a resource was cleaned up or abandoned.
func Finished(l *v1alpha1.LeasedResource) bool {
	return l.Status.State == v1alpha1.LeaseStateReleased || l.Status.State == v1alpha1.LeaseStateAbandoned
}

// changed reports whether the status is about an earlier spec.
func changed(l *v1alpha1.LeasedResource) bool { return l.Generation != l.Status.ObservedGeneration }

func released(l *v1alpha1.LeasedResource) bool {
	return l.Spec.DesiredState == v1alpha1.LeaseDesiredStateReleased
}

// Expiry returns when a resource is cleaned up, unless it is used before. A lease without a status expires by its
// creation.
func Expiry(l *v1alpha1.LeasedResource) time.Time {
	if l.Status.ExpiresAt != nil {
		return l.Status.ExpiresAt.Time
	}
	return l.CreationTimestamp.Add(l.Spec.Duration.Duration)
}

// First returns the first status of a lease.
func First(l *v1alpha1.LeasedResource) v1alpha1.LeasedResourceStatus {
	s := *l.Status.DeepCopy()
	at, used := metav1.NewTime(Expiry(l)), l.CreationTimestamp
	s.State, s.ExpiresAt, s.LastUsedAt = v1alpha1.LeaseStateActive, &at, &used
	return s
}

// Use returns the status of a lease whose resource is used at a time (LEASE-01). A clean-up that runs has no effect on
// it any more.
func Use(l *v1alpha1.LeasedResource, duration time.Duration, now time.Time) v1alpha1.LeasedResourceStatus {
	s := *l.Status.DeepCopy()
	until := seconds(now.Add(duration))
	if l.Status.State == v1alpha1.LeaseStateActive || l.Status.State == "" {
		if before := Expiry(l); before.After(until.Time) {
			until = metav1.NewTime(before)
		}
	}
	used := seconds(now)
	s.State, s.ExpiresAt, s.LastUsedAt = v1alpha1.LeaseStateActive, &until, &used
	s.CleanupStartedAt, s.ClaimExpiresAt, s.CleanupFailures, s.LastError = nil, nil, 0, ""
	return s
}

// Begun returns the status of a lease whose clean-up is claimed at a time, and may take so long. A clean-up that is
// claimed again, because its process is gone, is the same attempt.
func Begun(l *v1alpha1.LeasedResource, limit time.Duration, now time.Time) v1alpha1.LeasedResourceStatus {
	s := *l.Status.DeepCopy()
	at, until := metav1.NewMicroTime(now.Truncate(time.Microsecond)), seconds(now.Add(limit+claimGrace))
	if s.State != v1alpha1.LeaseStateCleaning {
		s.CleanupAttempts++
	}
	s.State, s.CleanupStartedAt, s.ClaimExpiresAt = v1alpha1.LeaseStateCleaning, &at, &until
	return s
}

// Claimed reports whether a status has the claim of a clean-up that began at a time.
func Claimed(s *v1alpha1.LeasedResourceStatus, at metav1.MicroTime) bool {
	return s.State == v1alpha1.LeaseStateCleaning && s.CleanupStartedAt != nil && s.CleanupStartedAt.Time.Equal(at.Time)
}

// Ended returns the status of a lease whose resource was cleaned up or abandoned at a time.
func Ended(l *v1alpha1.LeasedResource, state v1alpha1.LeaseState, now time.Time) v1alpha1.LeasedResourceStatus {
	s := *l.Status.DeepCopy()
	at := seconds(now)
	s.State, s.FinishedAt = state, &at
	s.ExpiresAt, s.CleanupStartedAt, s.ClaimExpiresAt = nil, nil, nil
	if state == v1alpha1.LeaseStateReleased {
		s.CleanupFailures, s.LastError = 0, ""
	}
	return s
}

// Failed returns the status of a lease whose clean-up has failed at a time: it is repeated after a pause that grows.
func Failed(l *v1alpha1.LeasedResource, why string, now time.Time) v1alpha1.LeasedResourceStatus {
	s := *l.Status.DeepCopy()
	s.CleanupFailures++
	until := seconds(now.Add(pauses.After(int(s.CleanupFailures))))
	s.State, s.ExpiresAt, s.LastError = v1alpha1.LeaseStateCleanupFailed, &until, excerpt.Of(why, maxErrorBytes)
	s.CleanupStartedAt, s.ClaimExpiresAt = nil, nil
	return s
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// seconds is a time as the API stores it, rounded up.
func seconds(t time.Time) metav1.Time {
	cut := t.Truncate(time.Second)
	if cut.Before(t) {
		cut = cut.Add(time.Second)
	}
	return metav1.NewTime(cut)
}
