package turn

import (
	"context"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// shutters close, after the model call of a Turn has ended, the gates that hold back a call that is still to start.
var shutters = map[string]func(w *world, m *manager){
	"the Model has lost its key": func(w *world, _ *manager) {
		w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
	},
	"a policy is missing": func(w *world, m *manager) {
		w.lockUp(m)
		m.Policies = &policies.Verifier{Live: w.client}
		m.Policies.Refresh(w.t.Context())
	},
	"the policies are not checked yet": func(w *world, m *manager) {
		w.lockUp(m)
		m.Policies = &policies.Verifier{Live: w.client}
	},
	"another Turn has the slot": func(w *world, m *manager) {
		m.Turns = fairshare.NewTurns(fairshare.TurnsOptions{Active: 1})
		m.Turns.Adopt(fairshare.Begun{Session: "another", Namespace: testNamespace})
		m.Turns.Adopt(fairshare.Begun{Session: w.session().UID, Namespace: testNamespace, Waits: true})
	},
	"the next attempt is due later": func(w *world, _ *manager) {
		turn := w.turn()
		later := moment.DeepCopy()
		later.Time = later.Add(time.Hour)
		turn.Status.TurnProgress = plan.Begin(1, *w.session().Status.ActiveTurn.AdmittedAt)
		turn.Status.Plan.NotBefore = later
		w.updateStatus(turn)
	},
}

// modelCalled begins the Turn of the world, and returns when its model call has ended and no pass has seen that.
func (m *manager) modelCalled() {
	m.w.t.Helper()
	for m.Activities.Len() == 0 {
		if _, err := m.pass(); err != nil {
			m.w.t.Fatal(err)
		}
	}
	<-m.woken
}

// expectSucceeded runs passes that nothing but the Turn's own writes wakes.
func (m *manager) expectSucceeded() {
	m.w.t.Helper()
	for range 5 {
		if _, err := m.pass(); err != nil {
			m.w.t.Fatal(err)
		}
	}
	if status := m.w.turn().Status; status.Phase != v1alpha1.TurnPhaseSucceeded || len(m.w.asked) != 1 {
		m.w.t.Errorf("phase %s after %d model calls: %+v", status.Phase, len(m.w.asked), m.w.succeeded())
	}
}

// The journal has the end of the Turn, so that its status follows: recording never waits.
func TestTheResultOfAModelCallIsCollectedWhileTheNextOneCannotStart(t *testing.T) {
	for name, shut := range shutters {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			m := w.manager(0)
			m.modelCalled()
			shut(w, m)
			m.expectSucceeded()
		})
		t.Run(name+", in a new process", func(t *testing.T) {
			w := newWorld(t).begin()
			w.manager(0).modelCalled()
			m := w.manager(0)
			shut(w, m)
			m.expectSucceeded()
		})
	}
}

// A running model call is not disturbed by the wait of another one.
func TestATurnWhoseModelCallRunsIsNotShownAsWaiting(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	release := make(chan struct{})
	w.during = func() { <-release }
	for w.turn().Status.Plan == nil {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
		w.sleep(planDelay)
	}
	w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
	version := w.turn().ResourceVersion
	if result, err := m.pass(); err != nil || result.RequeueAfter != 0 {
		t.Errorf("a pass gives %+v, %v", result, err)
	}
	if status := w.turn().Status; w.turn().ResourceVersion != version || m.Turns.Active() != 1 {
		t.Errorf(
			"phase %s, %d active Turns, version %s after %s",
			status.Phase,
			m.Turns.Active(),
			w.turn().ResourceVersion,
			version,
		)
	}
	close(release)
	<-m.woken
	m.expectSucceeded()
}

// A process reads the journal once for a Turn that is held back, and not in each pass.
func TestATurnThatIsHeldBackReadsTheJournalOnce(t *testing.T) {
	w := newWorld(t).begin()
	store := &countedReads{Store: w.store}
	w.store = store
	w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
	var m *manager
	for _, process := range []string{"the first process", "the second process"} {
		m = w.manager(0)
		before := store.reads
		m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
		reads, version := store.reads, w.turn().ResourceVersion
		for range 5 {
			w.sleep(time.Hour)
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
		}
		if reads == before || store.reads != reads || w.turn().ResourceVersion != version {
			t.Errorf("%s: %d reads before the Turn waits, %d after; version %s after %s",
				process, reads-before, store.reads-reads, w.turn().ResourceVersion, version)
		}
	}
	w.judge(v1alpha1.ReasonReady, "The Model can be called.")
	m.until("the end", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
}

// The outcome of a request that has ended is recorded, although no other call may start any more.
func TestTheResultOfARequestIsCollectedWhileTheTurnIsBlocked(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			w.begin(w.site("look", class))
			m := w.manager(0)
			m.until(
				"the request was sent",
				func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseAct && m.Activities.Len() > 0 },
			)
			m.untilEnded(2)
			w.archive()
			m.until("the end", w.finished)
			if got := w.resultText("look"); got != "result of look" || w.starts("look") != 1 {
				t.Errorf("the model received %q after %d requests", got, w.starts("look"))
			}
		})
	}
	t.Run("AtMostOnce, in a new process", func(t *testing.T) {
		w := newWorld(t)
		w.begin(w.site("look", v1alpha1.SideEffectAtMostOnce))
		first := w.manager(0)
		first.until(
			"the request was sent",
			func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseAct && first.Activities.Len() > 0 },
		)
		first.untilEnded(2)
		w.archive()
		w.manager(0).until("the end", w.finished)
		if got := w.resultText("look"); got != "result of look" || w.starts("look") != 1 {
			t.Errorf("the model received %q after %d requests", got, w.starts("look"))
		}
	})
}

// untilEnded waits until that many activities have ended: a wake of an earlier one may still be in line.
func (m *manager) untilEnded(activities int32) {
	m.w.t.Helper()
	for m.ended.Load() < activities {
		<-m.woken
	}
}

// archive ends the life of the Harness: the Turn may start nothing any more.
func (w *world) archive() {
	w.t.Helper()
	harness := &v1alpha1.Harness{}
	harness.Namespace, harness.Name = testNamespace, "base"
	w.change(harness, func() { harness.Spec.Lifecycle = v1alpha1.LifecycleArchived })
}

// countedReads is an entry store that counts its reads.
type countedReads struct {
	journal.Store
	reads int
}

func (c *countedReads) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	c.reads++
	return c.Store.Get(ctx, s, ordinal)
}
