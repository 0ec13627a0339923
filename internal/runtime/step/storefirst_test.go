package step

import (
	"errors"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// storing is a Turn before whose model call an entry has to be stored.
func storing() turnstate.Turn {
	turn := newTurn("demo-1")
	turn.StoreFirst = true
	return turn
}

func TestAModelIsCalledAfterAnEntryIsStored(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		p := newProcess(t, store)
		refused := errors.New("not stored")
		p.line.fails = func(*v1alpha1.JournalEntrySpec) error { return refused }
		if _, err := p.Reason(t.Context(), storing(), with()); !errors.Is(err, refused) || len(p.asked) != 0 {
			t.Fatalf("the model was called %d times, error %v", len(p.asked), err)
		}
		// The entry that closes the step is not stored, and the step is run again: one entry before it is enough.
		p.line.fails = func(e *v1alpha1.JournalEntrySpec) error {
			if e.Final {
				return refused
			}
			return nil
		}
		for calls := range 2 {
			var undelivered *UndeliveredResponse
			if _, err := p.Reason(t.Context(), storing(), with()); !errors.As(err, &undelivered) || len(p.asked) != calls+1 {
				t.Fatalf("the model was called %d times, error %v", len(p.asked), err)
			}
			kept := pieces(t, store)
			if len(kept) != 1 || kept[0].Content != journal.PartialContentDiscarded || kept[0].Model != "m" ||
				kept[0].Text != "" {
				t.Fatalf("the journal has %+v", kept)
			}
		}
	})
}

// What an earlier process has recorded of a response is not hidden by such an entry.
func TestNoEntryIsStoredBeforeAResponseIsRecovered(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		first := newProcess(t, store)
		first.respondsAndDies(3*time.Second, model.Partial{Text: "The answer"}, model.Partial{Text: "The answer is 42"})
		first.run(newTurn("demo-1"), finalizing())
		before := len(pieces(t, store))
		b := onStore(t, store)
		if turn, _ := b.reason(storing(), finalizing()); turn.Progress.Output != "The answer is 42" || len(b.asked) != 0 {
			t.Errorf("output %q after %d model calls", turn.Progress.Output, len(b.asked))
		}
		if after := len(pieces(t, store)); after != before {
			t.Errorf("%d pieces, before %d", after, before)
		}
	})
}
