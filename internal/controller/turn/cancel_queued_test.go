package turn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// queued makes the Turn one that the Session has not admitted, and cancels it.
func (w *world) queued(delivery v1alpha1.Delivery) *world {
	w.t.Helper()
	session := w.session()
	session.Status.ActiveTurn = nil
	w.updateStatus(session)
	turn := w.turn()
	w.change(turn, func() { turn.Spec.Delivery = delivery })
	w.cancel()
	return w
}

// admit writes the admission of a Turn that another process has decided on when the Session was as given.
func (w *world) admit(base *v1alpha1.Session, turn *v1alpha1.Turn) error {
	now, next := event.MicroTime(w.present()), base.DeepCopy()
	next.Status.ActiveTurn = &v1alpha1.ActiveTurn{
		Name: turn.Name, UID: turn.UID, OpenedAtOrdinal: 1, AdmittedAt: &now, AdmittedUID: turn.UID,
	}
	_, err := status.Patch(w.t.Context(), w.client, base, next)
	return err
}

var deliveries = map[string]struct {
	delivery v1alpha1.Delivery
	entries  int64
}{
	"a Turn of its own":          {v1alpha1.DeliveryQueue, 0},
	"a message for another Turn": {v1alpha1.DeliverySteer, 1},
}

// TestAnAdmissionOnItsWayFailsAfterTheCancellation: it has read the Turn before the user cancelled it.
func TestAnAdmissionOnItsWayFailsAfterTheCancellation(t *testing.T) {
	for name, test := range deliveries {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin().queued(test.delivery)
			before := w.session()
			if _, err := w.manager(0).pass(); err != nil {
				t.Fatal(err)
			}
			if turn := w.turn(); turn.Status.Phase != v1alpha1.TurnPhaseCancelled || w.head() != test.entries {
				t.Fatalf("the journal has %d entries, and the Turn %+v", w.head(), turn.Status)
			}
			if err := w.admit(before, w.turn()); !apierrors.IsConflict(err) {
				t.Errorf("the Turn was admitted after its end: %v", err)
			}
		})
	}
}

// TestAnAdmissionThatComesFirstDecides: the Turn has begun, and its journal ends it.
func TestAnAdmissionThatComesFirstDecides(t *testing.T) {
	for name, test := range deliveries {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin().queued(test.delivery)
			admitted := false
			w.hooks.SubResourcePatch = func(
				ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				if _, ok := o.(*v1alpha1.Session); ok && !admitted {
					admitted = true
					if err := w.admit(w.session(), w.turn()); err != nil {
						t.Error(err)
					}
				}
				return c.SubResource(resource).Patch(ctx, o, p, options...)
			}
			m := w.manager(0)
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
			if turn := w.turn(); !admitted || turn.Status.Phase != v1alpha1.TurnPhaseCancelled ||
				turn.Status.Plan.OpenedAtOrdinal == 0 || w.head() != 1 {
				t.Errorf("admitted: %t; the journal has %d entries, and the Turn %+v", admitted, w.head(), turn.Status)
			}
		})
	}
}

// TestACancelledTurnIsWithdrawnOnce: the Session is not written when an admission is impossible anyway. A Session
// releases a Turn and admits the next one in one write.
func TestACancelledTurnIsWithdrawnOnce(t *testing.T) {
	for name, test := range map[string]struct {
		// active is the active Turn; nil for none.
		active    func(*v1alpha1.Turn)
		withdrawn bool
		writes    int
	}{
		"an idle Session":               {writes: 2},
		"by an earlier process":         {withdrawn: true, writes: 1},
		"behind a Turn that runs":       {active: func(*v1alpha1.Turn) {}, writes: 1},
		"behind a Turn that has ended":  {active: ended, writes: 2},
		"behind a Turn that is another": {active: func(turn *v1alpha1.Turn) { turn.UID = "gone" }, writes: 2},
		"behind a Turn that is gone":    {active: func(turn *v1alpha1.Turn) { turn.Name = "gone" }, writes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin().queued(v1alpha1.DeliveryQueue)
			session := w.session()
			if test.active != nil {
				active := w.newTurn("demo-0", "Hello")
				w.create(active)
				test.active(active)
				if active.Status.Plan != nil {
					w.updateStatus(active)
				}
				session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: active.Name, UID: active.UID}
			}
			if test.withdrawn {
				session.Status.WithdrawnUID = w.turn().UID
			}
			w.updateStatus(session)
			before, writes := w.session(), w.countStatusWrites()
			if _, err := w.manager(0).pass(); err != nil {
				t.Fatal(err)
			}
			if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseCancelled || *writes != test.writes {
				t.Errorf("phase %s after %d writes, want %d", phase, *writes, test.writes)
			}
			if err := w.admit(before, w.turn()); test.writes == 2 && !apierrors.IsConflict(err) {
				t.Errorf("the Turn was admitted after its end: %v", err)
			}
		})
	}
}

func ended(turn *v1alpha1.Turn) {
	now := metav1.NowMicro()
	turnstate.Apply(&turn.Status, turn.Generation, turnstate.CancelledBeforeStart(now), now)
}

// TestATurnThatWaitsForItsJournalIsWithdrawnOnce: the UIDs of other Turns replace its own in the meantime. Cancelled
// Turns that wait for the same journal would otherwise write the Session in turn.
func TestATurnThatWaitsForItsJournalIsWithdrawnOnce(t *testing.T) {
	w := newWorld(t).begin().queued(v1alpha1.DeliveryQueue)
	store := journaltest.Wrap(w.store)
	store.Intercept(func(journaltest.Call) journaltest.Fault { return journaltest.Fault{Before: journaltest.Fail} })
	w.store = store
	writes := w.countStatusWrites()
	m := w.manager(0)
	for range 3 {
		if _, err := m.pass(); err == nil || queue.Finished(w.turn()) {
			t.Fatalf("the Turn does not wait for its journal: %v", err)
		}
		session := w.session()
		session.Status.WithdrawnUID = "another"
		w.updateStatus(session)
	}
	if *writes != 1 {
		t.Errorf("%d writes, want one of the Session", *writes)
	}
	store.Reset()
	m.until("its end", func() bool { return queue.Finished(w.turn()) })
	if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseCancelled || *writes != 2 {
		t.Errorf("phase %s after %d writes", phase, *writes)
	}
}

// TestTurnsThatAreCancelledTogetherAreWithdrawnTogether: concurrent writes of their Session would conflict with each
// other.
func TestTurnsThatAreCancelledTogetherAreWithdrawnTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).begin().queued(v1alpha1.DeliveryQueue)
		var names []string
		for i := range 16 {
			turn := w.newTurn(fmt.Sprintf("also-%d", i), "Hello")
			turn.Spec.DesiredState = v1alpha1.DesiredStateCancelled
			w.create(turn)
			names = append(names, turn.Name)
		}
		before := w.session()
		var writes atomic.Int32
		w.hooks.SubResourcePatch = func(
			ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			if _, ok := o.(*v1alpha1.Session); ok {
				writes.Add(1)
				<-time.After(time.Millisecond)
			}
			return c.SubResource(resource).Patch(ctx, o, p, options...)
		}
		m := w.manager(0)
		var passes sync.WaitGroup
		for _, name := range names {
			passes.Go(func() {
				if _, err := m.passOf(name); err != nil {
					t.Error(err)
				}
			})
		}
		passes.Wait()
		for _, name := range names {
			if turn := w.turnNamed(name); turn.Status.Phase != v1alpha1.TurnPhaseCancelled {
				t.Errorf("Turn %s is %s", name, turn.Status.Phase)
			}
			if err := w.admit(before, w.turnNamed(name)); !apierrors.IsConflict(err) {
				t.Errorf("Turn %s was admitted after its end: %v", name, err)
			}
		}
		if n := writes.Load(); n > 2 {
			t.Errorf("%d writes of the Session for %d Turns", n, len(names))
		}
	})
}
