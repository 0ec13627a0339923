package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// newExecutor returns an executor for tests that run no activity.
func newExecutor() *executor.Executor {
	return executor.NewExecutor(executor.Pools{}, func(types.NamespacedName) {})
}

// held is an executor of hooks that ends a run when the test lets it.
type held struct {
	ran     chan hook.Call
	release chan struct{}
}

func (h *held) Run(ctx context.Context, c hook.Call) hook.Outcome {
	h.ran <- c
	select {
	case <-h.release:
		return hook.Outcome{Decision: hook.Block, Reason: "too late"}
	case <-ctx.Done():
		return hook.Fail("%v", ctx.Err())
	}
}

// hookedBench is a bench with a Session whose active Turn was deleted, and with a hook at the end of Turns.
func hookedBench(t *testing.T) (*bench, *held, chan types.NamespacedName) {
	session := newSession()
	session.Spec.Hooks = []v1alpha1.Hook{{
		Name: "report", Event: v1alpha1.HookEventTurnEnd, CEL: &v1alpha1.CELHook{Expression: "true"},
	}}
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: "demo-1", UID: "demo-1", OpenedAtOrdinal: 1}
	b := newBench(t, session)
	h := &held{ran: make(chan hook.Call, 8), release: make(chan struct{})}
	b.Steps.Hooks = hook.Executors{CEL: h}
	woken := make(chan types.NamespacedName, 8)
	b.Activities = executor.NewExecutor(executor.Pools{
		Models: fairshare.NewPool(fairshare.Options{}), Tools: fairshare.NewPool(fairshare.Options{}),
	}, func(key types.NamespacedName) { woken <- key })
	return b, h, woken
}

// Rules: TURN-16.
func TestTheHooksAtTheEndOfADeletedTurnRunBeforeItsSessionIsReleased(t *testing.T) {
	b, h, woken := hookedBench(t)
	b.pass()
	if c := <-h.ran; c.Identity.Turn != "demo-1" || c.Spec.ID != "session:report" {
		t.Errorf("ran %+v", c)
	}
	b.pass()
	if b.session().Status.ActiveTurn == nil {
		t.Fatal("the Session is released before the hooks have ended")
	}
	close(h.release)
	if key := <-woken; key != demoKey {
		t.Errorf("woke %s", key)
	}
	b.pass()
	status := b.session().Status
	if status.ActiveTurn != nil || status.Totals.Turns != 1 || len(h.ran) != 0 {
		t.Errorf("status %+v, %d further runs", status, len(h.ran))
	}
	view, err := b.Steps.Log.View(t.Context(), turnstate.JournalOf(b.session()), 0)
	if err != nil || view.Head != 2 {
		t.Errorf("the journal is %+v, %v", view, err)
	}
}

var errUnreadable = errors.New("the journal cannot be read")

// unreadable is a journal that cannot be read.
type unreadable struct{ journal.Store }

func (unreadable) Get(context.Context, journal.Session, int64) (*v1alpha1.JournalEntrySpec, error) {
	return nil, errUnreadable
}

func TestHooksAtTheEndOfADeletedTurnThatKeepFailingAreSpacedOut(t *testing.T) {
	b, _, woken := hookedBench(t)
	b.Steps.Log = journal.New(unreadable{journalmemory.New()}, journal.Options{})
	last := &journal.Closed{
		Ordinal: 1, Turn: v1alpha1.JournalTurn{Name: "demo-1", UID: "demo-1"}, Step: 1,
		Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete}},
	}
	b.known.observe(demoKey, "s1")
	pass := func() (time.Duration, error) {
		s := &scope{session: b.session()}
		s.config.Hooks = []hook.Spec{{ID: "session:report", Event: hook.TurnEnd, CEL: &hook.CEL{Expression: "true"}}}
		ended, err := b.endHooks(t.Context(), s, last)
		if ended && err == nil {
			t.Fatal("the hooks have ended")
		}
		return s.requeue, err
	}
	for failure := 1; failure <= 12; failure++ {
		if pause, err := pass(); err != nil || pause != 0 || b.Activities.Len() != 1 {
			t.Fatalf("failure %d: the start gives %v, %v", failure, pause, err)
		}
		<-woken
		if _, err := pass(); !errors.Is(err, errUnreadable) {
			t.Fatalf("failure %d: got %v", failure, err)
		}
		want := executor.Pauses.After(failure)
		if pause, err := pass(); err != nil || pause != want || b.Activities.Len() != 0 {
			t.Fatalf("failure %d: %v, a pause of %v, want %v", failure, err, pause, want)
		}
		b.now = b.now.Add(want)
	}
}

func TestASessionThatIsDeletedStopsTheHooksOfItsTurn(t *testing.T) {
	b, h, _ := hookedBench(t)
	b.pass()
	<-h.ran
	if err := b.Client.Delete(t.Context(), b.session()); err != nil {
		t.Fatal(err)
	}
	b.pass()
	if n := b.Activities.Len(); n != 0 {
		t.Errorf("%d activities are left", n)
	}
}
