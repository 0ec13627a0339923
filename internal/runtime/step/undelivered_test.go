package step

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

func TestNothingIsSpentOnAJournalThatIsDamaged(t *testing.T) {
	for name, prepare := range map[string]func(*bench, *turnstate.Turn){
		"entries are missing":               func(_ *bench, turn *turnstate.Turn) { turn.Progress.Plan.OpenedAtOrdinal = 5 },
		"an entry is missing in the middle": missingEntry,
		"an entry has an unknown format": func(b *bench, _ *turnstate.Turn) {
			e := &v1alpha1.JournalEntrySpec{Session: session.Name, Ordinal: 1, Format: journal.Format + 1, Final: true}
			if err := b.store.Create(b.t.Context(), session, e); err != nil {
				b.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, turn := newBench(t), newTurn("demo-1")
			prepare(b, &turn)
			b.asked = nil
			for range 3 {
				_, err := b.Reason(t.Context(), turn, with())
				if !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrFormat) {
					t.Errorf("reasoning reports %v", err)
				}
				if _, err := b.Probe(t.Context(), turn); err == nil {
					t.Error("the journal passes the check")
				}
			}
			if len(b.asked) > 0 {
				t.Errorf("%d responses were paid for that cannot be written", len(b.asked))
			}
		})
	}
}

// missingEntry leaves out the second entry of a conversation of three Turns.
func missingEntry(b *bench, turn *turnstate.Turn) {
	for i := range 3 {
		earlier := newTurn(fmt.Sprintf("earlier-%d", i))
		earlier.Ref.UID += "x"
		earlier.Progress = plan.Begin(int64(i)+1, *earlier.Progress.Summary.StartedAt)
		b.reason(earlier, with())
	}
	holed := memory.New()
	for _, ordinal := range []int64{1, 3} {
		e, err := b.store.Get(b.t.Context(), session, ordinal)
		if err != nil {
			b.t.Fatal(err)
		}
		if err := holed.Create(b.t.Context(), session, e); err != nil {
			b.t.Fatal(err)
		}
	}
	b.Log, turn.Progress.Plan.OpenedAtOrdinal = journal.New(holed, journal.Options{}), 4
}

func TestAResponseThatIsNotAppendedIsKept(t *testing.T) {
	refuses := true
	l := &line{Store: memory.New(), fails: func(*v1alpha1.JournalEntrySpec) error {
		if refuses {
			return fmt.Errorf("exceeded quota: %w", journal.ErrRefused)
		}
		return nil
	}}
	b := onStore(t, l)
	turn := newTurn("demo-1")
	_, err := b.Reason(t.Context(), turn, with())
	for range 5 {
		var undelivered *UndeliveredResponse
		if !errors.As(err, &undelivered) || !errors.Is(err, journal.ErrRefused) || undelivered.Bytes() == 0 {
			t.Fatalf("reasoning reports %v", err)
		}
		if undelivered.Expired(undelivered.Since.Add(UndeliveredRetention-time.Second)) ||
			!undelivered.Expired(undelivered.Since.Add(UndeliveredRetention)) {
			t.Fatal("it is kept for another time than it should be")
		}
		_, err = b.Deliver(t.Context(), turn, undelivered)
	}
	refuses = false
	var undelivered *UndeliveredResponse
	errors.As(err, &undelivered)
	closed, err := b.Deliver(t.Context(), turn, undelivered)
	if err != nil || closed.Transition.Output != "Hello." || len(b.asked) != 1 {
		t.Errorf("asked %d times, closed %+v, %v", len(b.asked), closed, err)
	}
}

func TestAResponseThatTheStoreCanNeverHoldEndsTheTurn(t *testing.T) {
	l := &line{Store: memory.New(), fails: func(e *v1alpha1.JournalEntrySpec) error {
		if strings.Contains(typesOf(journaltest.Content(e).Events), "llm.generation") {
			return errors.Join(journal.ErrRefused, journal.ErrInvalid, errors.New("spec.events: too long"))
		}
		return nil
	}}
	b := onStore(t, l)
	closed, err := b.Reason(t.Context(), newTurn("demo-1"), with())
	if err != nil || closed.Transition.Phase != v1alpha1.TurnPhaseFailed ||
		!strings.Contains(closed.Transition.Error.Message, "too long") {
		t.Errorf("closed %+v, %v", closed, err)
	}
}
