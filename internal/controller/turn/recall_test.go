package turn

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// readmit makes the Turn the active one again, as its Session does that has lost it, with a beginning after an ordinal.
func (w *world) readmit(head int64) {
	w.t.Helper()
	w.sleep(100 * time.Millisecond)
	session, now := w.session(), event.MicroTime(w.present())
	session.Status.Journal.Head = head
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{
		Name: turnName, UID: w.turn().UID, OpenedAtOrdinal: head + 1, AdmittedAt: &now, AdmittedUID: w.turn().UID,
	}
	w.updateStatus(session)
}

// TestATurnThatIsAdmittedAgainContinues: its Session has lost activeTurn before its status has had a plan. The journal
// decides whether its first step is open.
func TestATurnThatIsAdmittedAgainContinues(t *testing.T) {
	for name, test := range map[string]struct {
		tools []*v1alpha1.Tool
		// responded reports whether the first response is in the journal, head is where the second admission finds its
		// end.
		responded bool
		head      int64
		// same reports whether the same process continues.
		same bool
		// asked is how often the model is called, entries is the length of the journal.
		asked   int
		entries int64
	}{
		"after its end":                      {responded: true, head: 1, asked: 1, entries: 1},
		"after its end, in the same process": {responded: true, head: 1, same: true, asked: 1, entries: 1},
		"before its end is found":            {responded: true, asked: 1, entries: 1},
		"with an act step":                   {tools: pureTool(), responded: true, head: 1, asked: 2, entries: 3},
		"with an act step, in the same process": {
			tools: pureTool(), responded: true, head: 1, same: true, asked: 2, entries: 3,
		},
		// Another process stores something before it calls the model again.
		"without an entry": {asked: 1, entries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin(test.tools...)
			m := w.manager(0)
			if test.responded {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
				<-m.woken
			}
			if plan := w.turn().Status.Plan; plan != nil || w.head() > 1 {
				t.Fatalf("the journal has %d entries, and the status the plan %+v", w.head(), plan)
			}
			session := w.session()
			session.Status.ActiveTurn = nil
			w.updateStatus(session)
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			w.readmit(test.head)
			if !test.same {
				m = w.manager(0)
			}
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
			if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseSucceeded || len(w.asked) != test.asked ||
				w.head() != test.entries {
				t.Errorf("phase %s after %d model calls, and %d entries", phase, len(w.asked), w.head())
			}
			for _, call := range w.turn().Status.ToolCalls {
				if w.starts(call.Name) != 1 {
					t.Errorf("%s was started %d times", call.Name, w.starts(call.Name))
				}
			}
		})
	}
}

func pureTool() []*v1alpha1.Tool {
	return []*v1alpha1.Tool{builder.JobTool("look", v1alpha1.SideEffectPure).Obj()}
}

// TestATurnThatItsSessionHasLostIsCancelledAsTheJournalDecides, which may have its response.
func TestATurnThatItsSessionHasLostIsCancelledAsTheJournalDecides(t *testing.T) {
	for name, test := range map[string]struct {
		tools []*v1alpha1.Tool
		// pending reports whether the model responds after the cancellation; entries is the length of the journal.
		pending bool
		phase   v1alpha1.TurnPhase
		entries int64
	}{
		"after its response":                {phase: v1alpha1.TurnPhaseSucceeded, entries: 1},
		"before its response":               {pending: true, phase: v1alpha1.TurnPhaseCancelled, entries: 1},
		"after a response that calls tools": {tools: pureTool(), phase: v1alpha1.TurnPhaseCancelled, entries: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin(test.tools...)
			m := w.manager(0)
			respond := make(chan struct{})
			w.during = func() { <-respond }
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			if !test.pending {
				close(respond)
				<-m.woken
			}
			session := w.session()
			session.Status.ActiveTurn = nil
			w.updateStatus(session)
			w.cancel()
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			if test.pending {
				close(respond)
			}
			if !queue.Finished(w.turn()) {
				if !queue.Runnable(w.turn()) {
					t.Fatalf("the Session does not admit the Turn again: %+v", w.turn().Status)
				}
				w.readmit(w.head())
				m.until("its end", func() bool { return queue.Finished(w.turn()) })
			}
			if phase := w.turn().Status.Phase; phase != test.phase || w.head() != test.entries {
				t.Errorf("phase %s, and %d entries", phase, w.head())
			}
		})
	}
}
