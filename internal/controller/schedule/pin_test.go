package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// written is a Schedule with ann as its author.
func written(spec *v1alpha1.ScheduleSpec) { spec.SubmittedBy = "ann" }

// again replaces the Session by another one of its name.
func (b *bench) again() {
	b.t.Helper()
	other := session()
	other.UID = "another"
	if err := errors.Join(b.live.Delete(b.t.Context(), session()), b.live.Create(b.t.Context(), other)); err != nil {
		b.t.Fatal(err)
	}
}

// minutes lets minutes pass, in each of which the Turns end.
func (b *bench) minutes(n int) {
	b.t.Helper()
	for range n {
		b.now = b.now.Add(time.Minute)
		b.pass()
		b.pass()
		b.end(metav1.ConditionTrue)
	}
}

// Who may create Sessions does not receive the messages of a user by deleting the Session that the user has named.
// Rules: SCHED-04.
func TestASessionThatIsCreatedAgainIsSentNothingInTheNameOfAUser(t *testing.T) {
	t.Run("between ticks", func(t *testing.T) {
		b := newBench(t, nightly(written), session())
		b.minutes(1)
		b.again()
		b.minutes(2)
		if reason, message := b.ready(); len(b.created) != 1 || reason != v1alpha1.ReasonSessionReplaced ||
			!strings.Contains(message, "ann") {
			t.Fatalf("%d Turns, %s: %s", len(b.created), reason, message)
		}
		b.change(func(s *v1alpha1.Schedule) { s.Spec.TimeZone = "Europe/Berlin" })
		b.minutes(1)
		if reason, message := b.ready(); len(b.created) != 2 || reason != v1alpha1.ReasonReady {
			t.Errorf("after a change of the spec there are %d Turns, %s: %s", len(b.created), reason, message)
		}
	})
	t.Run("before the first tick", func(t *testing.T) {
		b := newBench(t, nightly(written), session())
		b.pass()
		b.again()
		b.minutes(2)
		if len(b.created) != 0 {
			t.Errorf("%d Turns", len(b.created))
		}
	})
	t.Run("between the write of a tick and its Turn", func(t *testing.T) {
		b := newBench(t, nightly(written), session())
		b.pass()
		b.now = began.Add(30 * time.Second)
		b.before = func(string) {
			b.before = nil
			b.again()
		}
		b.pass()
		b.pass()
		if reason, _ := b.ready(); len(b.created) != 0 || reason != v1alpha1.ReasonSessionReplaced {
			t.Errorf("%d Turns, %s", len(b.created), reason)
		}
	})
	t.Run("of a model", func(t *testing.T) {
		s := nightly(written)
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "capstan.dev/v1alpha1", Kind: "Session", Name: "demo", UID: "former", Controller: ptr.To(true),
		}}
		b := newBench(t, s, session())
		b.minutes(2)
		if len(b.created) != 0 {
			t.Errorf("%d Turns", len(b.created))
		}
	})
	t.Run("without a user", func(t *testing.T) {
		b := newBench(t, nightly(), session())
		b.minutes(1)
		b.again()
		b.minutes(1)
		if len(b.created) != 2 || b.schedule().Status.SessionUID != "" {
			t.Errorf("%d Turns, %+v", len(b.created), b.schedule().Status)
		}
	})
}

// Any author may suspend a Schedule. That neither has the messages of its user sent to another Session, nor does it
// start a tick whose Turn could not be created.
// Rules: SCHED-04.
func TestWhoSuspendsAScheduleDoesNotChooseItsSession(t *testing.T) {
	suspend := func(to *bool) func(*v1alpha1.Schedule) {
		return func(s *v1alpha1.Schedule) { s.Spec.Suspend = to }
	}
	s := nightly(written)
	b := newBench(t, s, session())
	b.pass()
	tick := began.Add(30 * time.Second)
	blocking := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: schedule.Name(s, tick), UID: "mine"}}
	if err := b.live.Create(t.Context(), blocking); err != nil {
		t.Fatal(err)
	}
	b.now = tick
	if _, err := b.manager().Reconcile(t.Context(), ctrl.Request{NamespacedName: nightlyKey}); err == nil {
		t.Fatal("the Turn is adopted")
	}
	b.again()
	b.change(suspend(ptr.To(true)))
	b.pass()
	if err := b.live.Delete(t.Context(), blocking); err != nil {
		t.Fatal(err)
	}
	for _, suspended := range []*bool{ptr.To(true), nil, ptr.To(true), ptr.To(false)} {
		b.change(suspend(suspended))
		b.minutes(2)
		if reason, _ := b.ready(); len(b.created) != 0 || reason != v1alpha1.ReasonSessionReplaced ||
			b.schedule().Status.SessionUID != "demo" {
			t.Errorf("with suspend %v there are %d Turns, %s, for %s", ptr.Deref(suspended, false), len(b.created), reason,
				b.schedule().Status.SessionUID)
		}
	}
	b.change(func(s *v1alpha1.Schedule) { s.Spec.Suspend, s.Spec.Turn.Input = nil, "Report again." })
	b.minutes(1)
	if reason, _ := b.ready(); len(b.created) == 0 || reason != v1alpha1.ReasonReady ||
		b.schedule().Status.SessionUID != "another" {
		t.Errorf("after a change of the message there are %d Turns, %s", len(b.created), reason)
	}
}

// A tick that has begun waits while its Schedule is suspended, and a single one is not shown as completed.
func TestATickThatHasBegunWaitsWhileItsScheduleIsSuspended(t *testing.T) {
	single := func(spec *v1alpha1.ScheduleSpec) {
		spec.Schedule, spec.At = "", ptr.To(metav1.NewTime(began.Add(30*time.Second)))
	}
	for name, s := range map[string]*v1alpha1.Schedule{
		"repeated": nightly(written), "single": nightly(written, single), "per tick": nightly(perTick),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, s, session())
			b.pass()
			b.now = began.Add(30 * time.Second)
			b.cut = len(b.writes) + 2 // The tick is written, and its Turn or its Session is not.
			b.pass()
			b.cut = 0
			if !schedule.Pending(b.schedule()) {
				t.Fatalf("the tick has not begun: %v", b.writes)
			}
			b.change(func(s *v1alpha1.Schedule) { s.Spec.Suspend = ptr.To(true) })
			b.pass()
			b.pass()
			if reason, _ := b.ready(); len(b.created) != 0 || reason != v1alpha1.ReasonSuspended {
				t.Errorf("%d Turns, %s", len(b.created), reason)
			}
			b.change(func(s *v1alpha1.Schedule) { s.Spec.Suspend = nil })
			b.pass()
			if len(b.created) != 1 {
				t.Errorf("continued there are %d Turns", len(b.created))
			}
		})
	}
}

// The condition does not change to and fro while the Turn of a single tick waits for its Session.
func TestASingleTickThatWaitsForItsSessionIsQuiet(t *testing.T) {
	b := newBench(t, nightly(written, func(spec *v1alpha1.ScheduleSpec) {
		spec.Schedule, spec.At = "", ptr.To(metav1.NewTime(began.Add(30*time.Second)))
	}), session())
	b.pass()
	b.now = began.Add(30 * time.Second)
	b.before = func(string) {
		b.before = nil
		b.again()
	}
	b.pass()
	writes := len(b.writes)
	b.pass()
	if reason, _ := b.ready(); len(b.writes) != writes || reason != v1alpha1.ReasonSessionReplaced {
		t.Errorf("%s, after the writes %v", reason, b.writes[writes:])
	}
}
