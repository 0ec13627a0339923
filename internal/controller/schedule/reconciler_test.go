package schedule

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// A tick costs two writes of the status, one of the Turn and, when it has ended, one more; an idle Schedule costs
// nothing.
// Rules: SCHED-04.
func TestTheWritesOfATick(t *testing.T) {
	b := newBench(t, nightly(), session())
	if result := b.pass(); result.RequeueAfter != 30*time.Second || len(b.writes) != 1 {
		t.Fatalf("a new Schedule: %+v, %v", result, b.writes)
	}
	for range 3 {
		b.pass()
	}
	if len(b.writes) != 1 {
		t.Fatalf("an idle Schedule writes: %v", b.writes)
	}
	b.now = began.Add(30 * time.Second)
	if result := b.pass(); result.RequeueAfter != time.Minute {
		t.Errorf("it is looked at again after %s", result.RequeueAfter)
	}
	b.pass()
	status := "patch *v1alpha1.Schedule status"
	want := strings.Join([]string{status, status, "create *v1alpha1.Turn", status}, "\n")
	if got := strings.Join(b.writes, "\n"); got != want {
		t.Errorf("the writes are\n%s, want\n%s", got, want)
	}
	s := b.schedule()
	if s.Status.Ticks != 1 || len(s.Status.Active) != 1 || s.Status.Active[0].UID == "" ||
		!s.Status.NextScheduleTime.Equal(ptr.To(metav1.NewTime(began.Add(90*time.Second)))) {
		t.Errorf("the status is %+v", s.Status)
	}
	b.end(metav1.ConditionTrue)
	b.pass()
	b.pass()
	if s := b.schedule(); len(b.writes) != 5 || len(s.Status.Active) != 0 {
		t.Errorf("behind the end of the Turn there are %d writes, and %+v", len(b.writes), s.Status.Active)
	}
}

// Every write of three ticks is cut off, before and after the API server has carried it out; another process continues.
// Rules: SCHED-04.
func TestAProcessThatIsKilledAtAnyWriteMakesOneTurnATick(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.ScheduleSpec){
		"a Session": func(*v1alpha1.ScheduleSpec) {}, "a Session for each tick": perTick,
		"replacing": policy(v1alpha1.ConcurrencyPolicyReplace),
	} {
		t.Run(name, func(t *testing.T) {
			run := func(cut int, applied bool) (writes int) {
				b := newBench(t, nightly(change, func(spec *v1alpha1.ScheduleSpec) {
					spec.SuccessfulTurnsHistoryLimit = ptr.To[int32](1)
				}), session())
				b.cut, b.applied = cut, applied
				for minute := range 3 {
					b.now = began.Add(30*time.Second + time.Duration(minute)*time.Minute)
					for range 3 {
						b.pass()
					}
					if minute != 1 {
						b.end(metav1.ConditionTrue)
					}
					for range 3 {
						b.pass()
					}
				}
				for turn, times := range b.created {
					if times != 1 {
						t.Errorf("cut at write %d (applied: %t): %s was created %d times", cut, applied, turn, times)
					}
				}
				if s := b.schedule(); len(b.created) != 3 || s.Status.Ticks != 3 || len(s.Status.Active) != 0 {
					t.Errorf("cut at write %d (applied: %t): %d Turns, %+v", cut, applied, len(b.created), s.Status)
				}
				if turns := b.turns(); len(turns) != 1 {
					t.Errorf("cut at write %d (applied: %t): %d Turns are kept", cut, applied, len(turns))
				}
				return len(b.writes)
			}
			all := run(0, false)
			if all < 12 {
				t.Fatalf("there are %d writes", all)
			}
			for cut := 1; cut <= all; cut++ {
				run(cut, false)
				run(cut, true)
			}
		})
	}
}

// Before writes of a kind of one process, another one makes a whole pass.
// Rules: SCHED-04.
func TestTwoProcessesMakeOneTurnATick(t *testing.T) {
	for _, kind := range []string{
		"patch *v1alpha1.Schedule status", "create *v1alpha1.Session", "create *v1alpha1.Turn", "",
	} {
		b := newBench(t, nightly(perTick))
		between := 0
		var another func(string)
		another = func(write string) {
			if kind != "" && write != kind {
				return
			}
			b.before = nil
			between++
			b.pass()
			b.before = another
		}
		b.before = another
		for minute := range 5 {
			b.now = began.Add(30*time.Second + time.Duration(minute)*time.Minute)
			b.pass()
			b.pass()
			b.end(metav1.ConditionTrue)
		}
		b.pass()
		if s := b.schedule(); len(b.created) != 5 || s.Status.Ticks != 5 || between < 5 {
			t.Errorf("%s: %d Turns, %d passes between, %+v", kind, len(b.created), between, s.Status)
		}
		for turn, times := range b.created {
			if times != 1 {
				t.Errorf("%s: %s was created %d times", kind, turn, times)
			}
		}
	}
}

// A process is paused before it creates a Turn. The tick is over when it continues.
// Rules: SCHED-04.
func TestATurnThatIsCreatedLateIsDeleted(t *testing.T) {
	b := newBench(t, nightly(perTick, func(spec *v1alpha1.ScheduleSpec) {
		spec.SuccessfulTurnsHistoryLimit = ptr.To[int32](0)
	}))
	b.now = began.Add(30 * time.Second)
	b.before = func(write string) {
		if write != "create *v1alpha1.Session" {
			return
		}
		b.before = nil
		b.pass()
		b.end(metav1.ConditionTrue)
		b.pass()
		if len(b.turns()) != 0 || len(b.sessions()) != 0 {
			t.Fatal("the tick is not over")
		}
	}
	b.pass()
	if len(b.turns()) != 1 {
		t.Fatal("no Turn was created late")
	}
	b.pass()
	if len(b.turns()) != 0 || len(b.sessions()) != 0 {
		t.Errorf("%d late Turns and %d late Sessions are kept", len(b.turns()), len(b.sessions()))
	}
}

// Rules: SCHED-04.
func TestTheClockJumps(t *testing.T) {
	b := newBench(t, nightly(), session())
	b.pass()
	for _, seconds := range []int{30, 31, 10, 3600, 3600, 1800, 60, 3601, 3629, 3630, 40_000_000, 3700, 40_000_020} {
		b.now = began.Add(time.Duration(seconds) * time.Second)
		b.pass()
		b.end(metav1.ConditionTrue)
		b.pass()
	}
	// One at 12:00:00, at 12:59:00, at 13:00:00 and in the distant future.
	if s := b.schedule(); s.Status.Ticks != 4 || len(b.created) != 4 {
		t.Errorf("%d ticks, %d Turns", s.Status.Ticks, len(b.created))
	}
}

// Rules: SCHED-04.
func TestOfMissedTicksOnlyTheLatestIsMadeUpFor(t *testing.T) {
	for name, test := range map[string]struct {
		deadline *int64
		want     int64
	}{
		"without a deadline": {nil, 1}, "within the deadline": {ptr.To[int64](60), 1}, "behind it": {ptr.To[int64](10), 0},
	} {
		b := newBench(
			t,
			nightly(func(spec *v1alpha1.ScheduleSpec) { spec.StartingDeadlineSeconds = test.deadline }),
			session(),
		)
		b.now = began.Add(365*24*time.Hour + 45*time.Second)
		b.pass()
		s := b.schedule()
		if s.Status.Ticks != test.want || len(b.turns()) != int(test.want) {
			t.Errorf("%s: %d ticks, %d Turns", name, s.Status.Ticks, len(b.turns()))
		}
		if next := s.Status.NextScheduleTime; !next.Equal(
			ptr.To(metav1.NewTime(b.now.Truncate(time.Minute).Add(time.Minute))),
		) {
			t.Errorf("%s: the next tick is at %s", name, next)
		}
	}
}

// Rules: SCHED-01, SCHED-02, SCHED-04.
func TestASingleTimeIsMadeOnce(t *testing.T) {
	single := func(spec *v1alpha1.ScheduleSpec) {
		spec.Schedule, spec.At = "", ptr.To(metav1.NewTime(began.Add(time.Hour)))
	}
	b := newBench(t, nightly(single), session())
	if result := b.pass(); result.RequeueAfter != time.Hour {
		t.Errorf("it is looked at after %s", result.RequeueAfter)
	}
	b.now = began.Add(2 * time.Hour)
	for range 3 {
		if result := b.pass(); result.RequeueAfter != 0 {
			t.Errorf("it is looked at again after %s", result.RequeueAfter)
		}
		b.end(metav1.ConditionTrue)
		b.now = b.now.Add(24 * time.Hour)
	}
	reason, _ := b.ready()
	if s := b.schedule(); s.Status.Ticks != 1 || len(b.created) != 1 || s.Status.NextScheduleTime != nil ||
		reason != v1alpha1.ReasonCompleted {
		t.Errorf("%d Turns, %s, %+v", len(b.created), reason, s.Status)
	}

	passed := newBench(t, nightly(single, func(spec *v1alpha1.ScheduleSpec) {
		spec.At = ptr.To(metav1.NewTime(began.Add(-time.Second)))
	}), session())
	passed.pass()
	if reason, _ := passed.ready(); reason != v1alpha1.ReasonCompleted || len(passed.turns()) != 0 {
		t.Errorf("a time before the Schedule: %s, %d Turns", reason, len(passed.turns()))
	}
}

func TestTheConcurrencyPolicies(t *testing.T) {
	for name, test := range map[string]struct {
		policy            v1alpha1.ConcurrencyPolicy
		turns, cancelled  int
		requeues          bool
		afterTheEnd, once int
	}{
		"by default": {"", 3, 0, true, 3, 0},
		"Allow":      {v1alpha1.ConcurrencyPolicyAllow, 3, 0, true, 3, 0},
		"Forbid":     {v1alpha1.ConcurrencyPolicyForbid, 1, 0, false, 2, 0},
		"Replace":    {v1alpha1.ConcurrencyPolicyReplace, 3, 2, true, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nightly(policy(test.policy)), session())
			var result ctrl.Result
			for minute := range 3 {
				b.now = began.Add(30*time.Second + time.Duration(minute)*time.Minute)
				result = b.pass()
			}
			cancelled := 0
			turns := b.turns()
			for i := range turns {
				if turns[i].Spec.DesiredState == v1alpha1.DesiredStateCancelled {
					cancelled++
				}
			}
			if len(turns) != test.turns || cancelled != test.cancelled || (result.RequeueAfter > 0) != test.requeues {
				t.Errorf("%d Turns, %d cancelled, looked at again after %s", len(turns), cancelled, result.RequeueAfter)
			}
			b.end(metav1.ConditionTrue)
			b.pass()
			if len(b.created) != test.afterTheEnd {
				t.Errorf("%d Turns behind the end", len(b.created))
			}
		})
	}
}

func TestTicksWaitWhileManyTurnsHaveNotEnded(t *testing.T) {
	b := newBench(t, nightly(), session())
	for minute := range v1alpha1.MaxActiveTicks + 5 {
		b.now = began.Add(30*time.Second + time.Duration(minute)*time.Minute)
		b.pass()
	}
	if got := len(b.turns()); got != v1alpha1.MaxActiveTicks {
		t.Errorf("%d Turns", got)
	}
}

func TestASuspendedScheduleAndOneWithoutItsSession(t *testing.T) {
	b := newBench(t, nightly(func(spec *v1alpha1.ScheduleSpec) { spec.Suspend = ptr.To(true) }))
	b.now = began.Add(time.Hour)
	if result := b.pass(); result.RequeueAfter != 0 || len(b.turns()) != 0 || b.schedule().Status.NextScheduleTime != nil {
		t.Errorf("suspended: %+v, %d Turns", result, len(b.turns()))
	}
	b.change(func(s *v1alpha1.Schedule) { s.Spec.Suspend = nil })
	if result := b.pass(); result.RequeueAfter != 0 || len(b.turns()) != 0 {
		t.Errorf("without its Session: %+v, %d Turns", result, len(b.turns()))
	}
	if reason, _ := b.ready(); reason != v1alpha1.ReasonSessionNotFound {
		t.Errorf("it is %s", reason)
	}
	if err := b.live.Create(t.Context(), session()); err != nil {
		t.Fatal(err)
	}
	b.pass()
	if reason, _ := b.ready(); reason != v1alpha1.ReasonReady || len(b.turns()) != 1 {
		t.Errorf("with its Session it is %s, with %d Turns", reason, len(b.turns()))
	}
}

func TestTheHistoryLimits(t *testing.T) {
	b := newBench(t, nightly(perTick))
	for minute := range 10 {
		b.now = began.Add(30*time.Second + time.Duration(minute)*time.Minute)
		b.pass()
		if len(b.sessions()) != len(b.turns()) {
			t.Fatalf("%d Sessions for %d Turns", len(b.sessions()), len(b.turns()))
		}
		if minute%2 == 0 {
			b.end(metav1.ConditionTrue)
		} else {
			b.end(metav1.ConditionFalse)
		}
		b.pass()
	}
	if turns, sessions := b.turns(), b.sessions(); len(turns) != 4 || len(sessions) != 4 || len(b.created) != 10 {
		t.Errorf("%d Turns and %d Sessions of %d are kept", len(turns), len(sessions), len(b.created))
	}
}

func TestATurnOfAnotherCauseIsNotAdopted(t *testing.T) {
	s := nightly()
	b := newBench(t, s, session())
	b.pass()
	tick := began.Add(30 * time.Second)
	foreign := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: schedule.Name(s, tick), UID: "foreign"}}
	if err := b.live.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.now = tick
	for range 2 {
		if _, err := b.manager().Reconcile(t.Context(), ctrl.Request{NamespacedName: nightlyKey}); err == nil {
			t.Fatal("the Turn is adopted")
		}
	}
	if reason, message := b.ready(); reason != v1alpha1.ReasonNameTaken || !strings.Contains(message, foreign.Name) {
		t.Errorf("it is %s: %s", reason, message)
	}
	if len(b.writes) != 5 {
		t.Errorf("the writes are %v", b.writes)
	}
	if err := b.live.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	b.pass()
	if reason, _ := b.ready(); reason != v1alpha1.ReasonReady || len(b.turns()) != 1 {
		t.Errorf("it is %s, with %d Turns", reason, len(b.turns()))
	}
}

func TestWhatIsInvalidIsStalled(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.ScheduleSpec){
		v1alpha1.ReasonInvalidSchedule: func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "99 * * * *" },
		v1alpha1.ReasonUnknownTimeZone: func(spec *v1alpha1.ScheduleSpec) { spec.TimeZone = "Europe/Atlantis" },
	} {
		b := newBench(t, nightly(change), session())
		result := b.pass()
		reason, _ := b.ready()
		if reason != want || !meta.IsStatusConditionTrue(b.schedule().Status.Conditions, v1alpha1.ConditionStalled) ||
			result.RequeueAfter != 0 {
			t.Errorf("%s: %s, %+v", want, reason, result)
		}
		b.change(func(s *v1alpha1.Schedule) { s.Spec.Schedule, s.Spec.TimeZone = "0 0 * * *", "" })
		b.pass()
		if reason, _ := b.ready(); reason != v1alpha1.ReasonReady ||
			meta.FindStatusCondition(b.schedule().Status.Conditions, v1alpha1.ConditionStalled) != nil {
			t.Errorf("corrected it is %s", reason)
		}
	}
}

func TestAJumpOfTheClockIsNoticed(t *testing.T) {
	last := time.Now()
	if jumped(last, last.Add(10*time.Second)) {
		t.Error("the passing of time is a jump")
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		// Without the reading of the monotonic clock, only the time of day counts.
		if !jumpedBy(10*time.Second+by, 10*time.Second) {
			t.Errorf("a jump by %s is not noticed", by)
		}
	}
}
