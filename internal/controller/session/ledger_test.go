package session

import (
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// fillingBench has a Session whose journal, by status, takes all that its namespace may.
func fillingBench(t *testing.T) *bench {
	const limit = 100_000
	held := newSession()
	held.Finalizers = []string{"example.org/held"}
	held.Status.Journal.Bytes = limit
	b := newBench(t, held)
	b.Steps.Log = journal.New(journalmemory.New(), journal.Options{MaxNamespaceBytes: limit})
	return b
}

// full reports whether the ceiling of the namespace keeps another Session's journal from growing.
func (b *bench) full() bool {
	b.t.Helper()
	other := newSession()
	other.Name, other.UID = "other", "s2"
	_, err := b.Steps.Log.Append(b.t.Context(), turnstate.JournalOf(other), journal.Record{
		Turn: v1alpha1.JournalTurn{Name: "x", UID: "x"}, Step: 1, OpenedAt: 1,
		Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseReason, Step: 2}},
	})
	if err != nil && !errors.Is(err, journal.ErrFull) {
		b.t.Fatal(err)
	}
	return err != nil
}

func (b *bench) deleteSession() {
	b.t.Helper()
	if err := b.Client.Delete(b.t.Context(), b.session()); err != nil {
		b.t.Fatal(err)
	}
}

func TestTheJournalOfASessionCountsByItsStatus(t *testing.T) {
	b := fillingBench(t)
	b.pass()
	if !b.full() {
		t.Error("the namespace has room beside a Session whose journal takes all of it")
	}
}

func TestAJournalCountsUntilItsSessionIsGone(t *testing.T) {
	b := fillingBench(t)
	b.pass()
	b.deleteSession()
	for range 2 {
		b.pass()
		if !b.full() {
			t.Fatal("the journal of a Session that a finalizer keeps does not count")
		}
	}
	session := b.session()
	session.Finalizers = nil
	if err := b.Client.Update(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	b.pass()
	if b.full() {
		t.Error("the journal of a Session that was deleted still counts")
	}
}

func TestASessionFirstSeenWhileItIsDeletedCounts(t *testing.T) {
	b := fillingBench(t)
	b.deleteSession()
	b.pass()
	if !b.full() {
		t.Error("after a restart, the journal of a Session that a finalizer keeps does not count")
	}
}

func TestAnotherSessionOfTheNameReplacesTheJournal(t *testing.T) {
	b := fillingBench(t)
	b.pass()
	b.deleteSession()
	old := b.session()
	old.Finalizers = nil
	next := newSession()
	next.UID = "s3"
	for _, write := range []func() error{
		func() error { return b.Client.Update(t.Context(), old) },
		func() error { return b.Client.Create(t.Context(), next) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	b.pass()
	if b.full() {
		t.Error("the journal of a replaced Session still counts")
	}
}

func TestADeletedSessionReturnsItsSlotWhileItIsHeld(t *testing.T) {
	held := newSession()
	held.Finalizers = []string{"example.org/held"}
	b := newBench(t, held, inDemo("demo-1", nil))
	b.pass()
	if b.Turns.Active() != 1 {
		t.Fatalf("%d Turns are active", b.Turns.Active())
	}
	b.deleteSession()
	b.pass()
	if b.Turns.Active() != 0 {
		t.Error("a Session that is being deleted keeps its slot")
	}
}
