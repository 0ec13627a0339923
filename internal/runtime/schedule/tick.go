package schedule

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Verdict is what follows for a Schedule from its spec, its newest tick and the time.
type Verdict struct {
	// Due is the tick whose objects are to be created now; zero for none. Of several that were missed it is the latest.
	Due time.Time
	// Next is the first tick that is yet to come; zero for none.
	Next time.Time
	// Reason and Message are those of the condition Ready.
	Reason, Message string
	// Stalled reports whether only a new spec helps.
	Stalled bool
}

// Decide returns what follows for a Schedule at a time. It regards neither the Turns that run nor the Session.
func Decide(s *v1alpha1.Schedule, now time.Time) Verdict {
	now = now.UTC().Truncate(time.Second)
	if s.Spec.At != nil {
		return once(s, now)
	}
	times, err := Parse(s.Spec.Schedule, s.Spec.TimeZone)
	var zone *ZoneError
	switch {
	case errors.As(err, &zone):
		return Verdict{
			Reason: v1alpha1.ReasonUnknownTimeZone, Stalled: true,
			Message: "The manager does not know the time zone " + s.Spec.TimeZone + ". Use a name of the IANA database.",
		}
	case err != nil:
		return Verdict{
			Reason: v1alpha1.ReasonInvalidSchedule, Stalled: true,
			Message: "The schedule cannot be read: " + err.Error() + ". Correct it.",
		}
	case Suspended(s):
		return Verdict{Reason: v1alpha1.ReasonSuspended, Message: suspendedMessage}
	}
	latest := now
	if last := s.Status.LastScheduleTime; last != nil && last.After(latest) {
		latest = last.Time
	}
	v := Verdict{Due: times.Latest(earliest(s, now), now), Next: times.Next(latest), Reason: v1alpha1.ReasonReady}
	v.Message = "Turns are created at the times of the schedule."
	if v.Next.IsZero() && v.Due.IsZero() {
		v.Reason, v.Stalled = v1alpha1.ReasonInvalidSchedule, true
		v.Message = "The schedule has no time within five years. Correct it."
	}
	return v
}

const suspendedMessage = "The Schedule is suspended and creates no Turns. Set spec.suspend to false to continue."

// Suspended reports whether a Schedule creates no Turns for now.
func Suspended(s *v1alpha1.Schedule) bool { return s.Spec.Suspend != nil && *s.Spec.Suspend }

// Pending reports whether the Turn of an active tick is still to be created.
func Pending(s *v1alpha1.Schedule) bool {
	return slices.ContainsFunc(s.Status.Active, func(a v1alpha1.ActiveTick) bool { return a.UID == "" })
}

// earliest returns the time after which a tick may be due: no tick is created again, none from before the Schedule, and
// none that is later than its deadline.
func earliest(s *v1alpha1.Schedule, now time.Time) time.Time {
	after := s.CreationTimestamp.Time
	if last := s.Status.LastScheduleTime; last != nil && last.After(after) {
		after = last.Time
	}
	if limit := s.Spec.StartingDeadlineSeconds; limit != nil {
		if start := now.Add(-time.Duration(*limit) * time.Second); start.After(after) {
			after = start
		}
	}
	return after
}

// once decides about a Schedule with a single time.
func once(s *v1alpha1.Schedule, now time.Time) Verdict {
	at := s.Spec.At.UTC()
	switch {
	case Suspended(s) && Pending(s):
		return Verdict{Reason: v1alpha1.ReasonSuspended, Message: suspendedMessage}
	case s.Status.LastScheduleTime != nil:
		return Verdict{Reason: v1alpha1.ReasonCompleted, Message: "The Turn of the Schedule was created."}
	case at.Before(s.CreationTimestamp.Time):
		return Verdict{
			Reason:  v1alpha1.ReasonCompleted,
			Message: "The time of the Schedule had passed when it was created: it creates no Turn.",
		}
	case Suspended(s):
		return Verdict{Reason: v1alpha1.ReasonSuspended, Message: suspendedMessage}
	case at.After(now):
		return Verdict{Next: at, Reason: v1alpha1.ReasonReady, Message: "A Turn is created at the time of the Schedule."}
	}
	if limit := s.Spec.StartingDeadlineSeconds; limit != nil && now.Sub(at) >= time.Duration(*limit)*time.Second {
		return Verdict{
			Reason:  v1alpha1.ReasonCompleted,
			Message: "The time of the Schedule and its startingDeadlineSeconds have passed: it creates no Turn.",
		}
	}
	return Verdict{Due: at, Reason: v1alpha1.ReasonReady, Message: "The Turn of the Schedule is to be created."}
}

// Admits reports whether a tick may start now, beside those whose Turns have not ended.
func Admits(s *v1alpha1.Schedule, active []v1alpha1.ActiveTick) bool {
	if s.Spec.ConcurrencyPolicy == v1alpha1.ConcurrencyPolicyForbid && len(active) > 0 {
		return false
	}
	return len(active) < v1alpha1.MaxActiveTicks
}

// Begin records a tick in a status, before its objects are created.
func Begin(s *v1alpha1.Schedule, tick time.Time) {
	at := metav1.NewTime(tick.UTC())
	s.Status.LastScheduleTime = &at
	s.Status.Ticks++
	s.Status.Active = append(s.Status.Active, v1alpha1.ActiveTick{Tick: at, Name: Name(s, tick)})
}

// Replaced returns the ticks whose Turns are to be cancelled, because a later tick replaces them.
func Replaced(s *v1alpha1.Schedule) []v1alpha1.ActiveTick {
	active := s.Status.Active
	if s.Spec.ConcurrencyPolicy != v1alpha1.ConcurrencyPolicyReplace || len(active) < 2 {
		return nil
	}
	return active[:len(active)-1]
}
