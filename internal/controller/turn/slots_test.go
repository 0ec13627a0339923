package turn

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A message that waits to be steered cannot be cancelled, because the journal accepts no entry. The slot of the active
// Turn of its Session is not its own to release.
func TestAQueuedMessageDoesNotReleaseTheSlotOfTheActiveTurn(t *testing.T) {
	w := newWorld(t)
	store := &gatedStore{Store: journalmemory.New()}
	w.store = store
	w.begin(builder.JobTool("endless", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.Turns = fairshare.NewTurns(fairshare.TurnsOptions{Active: 1})
	m.until("the tool", func() bool { return w.starts("endless") == 1 })

	message := w.newTurn("demo-2", "Wait.")
	message.Spec.Delivery = v1alpha1.DeliverySteer
	w.create(message)
	w.change(message, func() { message.Spec.DesiredState = v1alpha1.DesiredStateCancelled })
	store.refuses = true
	if _, err := m.passOf(message.Name); err != nil {
		t.Fatal(err)
	}
	if reason := stalledBy(w.turnNamed(message.Name)); reason != v1alpha1.ReasonJournalRefused {
		t.Fatalf("the message is stalled by %q", reason)
	}
	if m.Turns.Begin(types.UID("another"), "elsewhere", func() {}) {
		t.Error("another Session got the slot of a Turn that works")
	}
	store.lift()
	w.ends(w.podOf(w.jobOf("endless")), result.Report{Outcome: result.Exited, Started: true, Result: "at last"})
	m.until("the end", w.finished)
}

// A Turn that cannot continue itself releases its slot.
func TestAStalledActiveTurnReleasesItsSlot(t *testing.T) {
	w := newWorld(t)
	store := &gatedStore{Store: journalmemory.New()}
	w.store = store
	w.begin(builder.JobTool("endless", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.Turns = fairshare.NewTurns(fairshare.TurnsOptions{Active: 1})
	m.until("the tool", func() bool { return w.starts("endless") == 1 })
	store.refuses = true
	w.ends(w.podOf(w.jobOf("endless")), result.Report{Outcome: result.Exited, Started: true, Result: "at last"})
	m.until("the report", func() bool { return stalledBy(w.turn()) == v1alpha1.ReasonJournalRefused })
	if !m.Turns.Begin(types.UID("another"), "elsewhere", func() {}) {
		t.Error("a Turn that waits for a repair keeps its slot")
	}
}

// A Turn that has ended needs no memory of its last step, as long as it exists.
func TestATurnThatHasEndedKeepsNoStepInMemory(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.until("the end", w.finished)
	for range 2 {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
	}
	key := types.NamespacedName{Namespace: testNamespace, Name: turnName}
	if step := m.memories.of(key, w.turn().UID).step; step.known != nil || step.number != 0 {
		t.Errorf("it keeps step %d with %+v", step.number, step.known)
	}
}
