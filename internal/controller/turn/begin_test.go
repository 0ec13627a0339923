package turn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// countStatusWrites counts the status writes of the processes that start after it.
func (w *world) countStatusWrites() *int {
	count := new(int)
	w.hooks.SubResourcePatch = func(
		ctx context.Context, c client.Client, resource string, o client.Object, p client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		*count++
		return c.SubResource(resource).Patch(ctx, o, p, options...)
	}
	return count
}

// finishedPass passes until the model call has ended and its outcome is written, at a time that stands still.
func (m *manager) finishedPass(at time.Time) {
	m.w.t.Helper()
	m.Clock = func() time.Time { return at }
	for range 20 {
		if _, err := m.pass(); err != nil {
			m.w.t.Fatal(err)
		}
		if queue.Finished(m.w.turn()) {
			return
		}
		if m.Activities.Len() > 0 {
			<-m.woken
		}
	}
	m.w.t.Fatalf("the Turn does not end: %+v", m.w.turn().Status)
}

func TestThePlanIsWrittenWhenTheFirstModelCallTakesASecond(t *testing.T) {
	for name, test := range map[string]struct {
		after  time.Duration
		writes int
	}{
		"at once":           {0, 1},
		"after 999 ms":      {999 * time.Millisecond, 1},
		"after 1 s":         {time.Second, 2},
		"after 1,001 ms":    {1001 * time.Millisecond, 2},
		"after a long time": {time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			writes := w.countStatusWrites()
			w.begin()
			admitted := w.session().Status.ActiveTurn.AdmittedAt.Time
			m := w.manager(0)
			respond := make(chan struct{})
			w.during = func() { <-respond }
			m.Clock = func() time.Time { return admitted }
			next, err := m.pass()
			if err != nil {
				t.Fatal(err)
			}
			if next.RequeueAfter != planDelay || *writes != 0 || w.turn().Status.Plan != nil {
				t.Fatalf("after admission: %v, %d writes, plan %+v", next, *writes, w.turn().Status.Plan)
			}
			at := admitted.Add(test.after)
			m.Clock = func() time.Time { return at }
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			if begun := w.turn().Status.Plan != nil; begun != (test.writes > 1) {
				t.Errorf("the plan is in status: %v", begun)
			}
			close(respond)
			<-m.woken
			m.finishedPass(at)
			status := w.turn().Status
			if *writes != test.writes || status.SessionUID != w.session().UID || len(w.asked) != 1 ||
				!status.Summary.StartedAt.Time.Equal(admitted) || status.Plan.StopReason == "" {
				t.Errorf("%d writes, want %d; %d model calls; status %+v", *writes, test.writes, len(w.asked), status)
			}
		})
	}
}

// TestATurnWithoutAPlanInStatusContinues: another process continues it, whatever the first one had done.
func TestATurnWithoutAPlanInStatusContinues(t *testing.T) {
	for name, test := range map[string]struct {
		// before ends the first process, which has begun the Turn.
		before func(*testing.T, *world, *manager)
		phase  v1alpha1.TurnPhase
		// asked is how often the model is called, entries is the length of the journal.
		asked   int
		entries int64
	}{
		// a process that has not admitted the Turn stores something first
		"before the model was called": {func(*testing.T, *world, *manager) {}, v1alpha1.TurnPhaseSucceeded, 1, 2},
		"when its response is in the journal": {func(t *testing.T, _ *world, m *manager) {
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			<-m.woken
		}, v1alpha1.TurnPhaseSucceeded, 1, 1},
		"when it is cancelled": {func(_ *testing.T, w *world, _ *manager) { w.cancel() }, v1alpha1.TurnPhaseCancelled, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			first := w.manager(0)
			first.Clock = func() time.Time { return w.session().Status.ActiveTurn.AdmittedAt.Time }
			test.before(t, w, first)
			if plan := w.turn().Status.Plan; plan != nil {
				t.Fatalf("the first process has written %+v", plan)
			}
			second := w.manager(0)
			second.until("its end", func() bool { return queue.Finished(w.turn()) })
			if phase := w.turn().Status.Phase; phase != test.phase || len(w.asked) != test.asked {
				t.Errorf("phase %s after %d model calls", phase, len(w.asked))
			}
			if head := w.head(); head != test.entries {
				t.Errorf("the journal has %d entries", head)
			}
		})
	}
}

// TestAnotherProcessThatWritesThePlanStoresSomethingFirst: the first process may have paid for a response that the
// journal does not accept.
func TestAnotherProcessThatWritesThePlanStoresSomethingFirst(t *testing.T) {
	for name, skew := range map[string]time.Duration{
		"a second later": time.Hour, "with a clock that is behind": -time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			w.manager(0) // has admitted the Turn
			second := w.manager(skew)
			second.until("the plan", func() bool { return w.turn().Status.Plan != nil })
			second.until("its end", func() bool { return queue.Finished(w.turn()) })
			if head := w.head(); head != 2 {
				t.Errorf("the journal has %d entries", head)
			}
		})
	}
}

// TestATurnThatWasAdmittedMeanwhileIsNotCancelledAsQueued: the Session of the cache does not show the admission.
func TestATurnThatWasAdmittedMeanwhileIsNotCancelledAsQueued(t *testing.T) {
	w := newWorld(t).begin()
	w.cancel()
	m := w.manager(0)
	m.Client = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, o, options...)
			if session, ok := o.(*v1alpha1.Session); ok {
				session.Status.ActiveTurn = nil
			}
			return err
		},
	})
	next, err := m.pass()
	if err != nil || next.RequeueAfter == 0 || queue.Finished(w.turn()) {
		t.Errorf("the pass gives %+v, %v; the Turn is %+v", next, err, w.turn().Status)
	}
	m.Client = m.Live.(client.Client)
	m.until("its end", func() bool { return queue.Finished(w.turn()) })
	if head := w.head(); head != 1 {
		t.Errorf("the journal has %d entries", head)
	}
}

// head is the last ordinal of the journal.
func (w *world) head() int64 {
	w.t.Helper()
	view, err := journal.New(w.store, journal.Options{Clock: w.present}).
		View(w.t.Context(), journal.Session{Namespace: testNamespace, Name: "demo", UID: w.session().UID}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return view.Head
}

func TestATurnThatStallsAtItsFirstStepHasItsPlan(t *testing.T) {
	w := newWorld(t).begin()
	w.store = refusing{w.store}
	m := w.manager(0)
	for range 4 {
		_, _ = m.pass()
		if m.Activities.Len() > 0 {
			<-m.woken
		}
	}
	status := w.turn().Status
	if status.Plan == nil || status.Plan.Step != 1 || journalStall(w.turn()) != v1alpha1.ReasonJournalRefused {
		t.Errorf("status %+v", status)
	}
}

// refusing is a store that accepts nothing.
type refusing struct{ journal.Store }

func (refusing) Create(context.Context, journal.Session, *v1alpha1.JournalEntrySpec) error {
	return errors.Join(journal.ErrRefused, errors.New("quota"))
}

func TestATurnThatHasBegunIsOrphanedWithoutItsPlanInStatus(t *testing.T) {
	w := newWorld(t).begin()
	release := make(chan struct{})
	w.during = func() { <-release }
	defer close(release)
	m := w.manager(0)
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), w.session()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: turnName}}
	if err := w.client.Get(
		t.Context(),
		client.ObjectKeyFromObject(turn),
		turn,
	); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("the Turn is there, with %v: %+v", err, turn.Status)
	}
}

func TestATurnThatAnEarlierBuildHasAdmittedBeginsAtOnce(t *testing.T) {
	w := newWorld(t).begin()
	session := w.session()
	session.Status.ActiveTurn.AdmittedAt, session.Status.ActiveTurn.OpenedAtOrdinal = nil, 0
	w.updateStatus(session)
	if _, err := w.manager(0).pass(); err != nil {
		t.Fatal(err)
	}
	if plan := w.turn().Status.Plan; plan == nil || plan.OpenedAtOrdinal != 1 {
		t.Errorf("plan %+v", plan)
	}
}

// TestATurnDoesNotBeginWithTheAdmissionOfTheTurnBefore: the merge patch of an earlier build has replaced only the name
// and the UID of the active Turn.
func TestATurnDoesNotBeginWithTheAdmissionOfTheTurnBefore(t *testing.T) {
	for name, of := range map[string]types.UID{"of another Turn": "another", "of an unknown Turn": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			session := w.session()
			long := metav1.NewMicroTime(w.present().Add(-time.Hour))
			active := session.Status.ActiveTurn
			active.AdmittedAt, active.OpenedAtOrdinal, active.AdmittedUID = &long, 7, of
			w.updateStatus(session)
			m := w.manager(0)
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			status := w.turn().Status
			if status.Plan == nil || status.Plan.OpenedAtOrdinal != 1 || !status.Summary.StartedAt.After(long.Time) {
				t.Errorf("plan %+v, summary %+v", status.Plan, status.Summary)
			}
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
		})
	}
}

func TestATurnThatNamesAModelThatDoesNotExistReportsItAtOnce(t *testing.T) {
	w := newWorld(t).begin()
	turn := w.turn()
	w.change(turn, func() {
		turn.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "none"}}
	})
	if _, err := w.manager(0).pass(); err != nil {
		t.Fatal(err)
	}
	if status := w.turn().Status; status.Plan == nil || !strings.Contains(status.ModelNotFound, "none") {
		t.Errorf("status %+v", status)
	}
}
