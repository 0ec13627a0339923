package journal_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

var followed = journal.Session{Namespace: "ns", Name: "s", UID: "session-uid"}

// counting is a store that counts reads.
type counting struct {
	journal.Store
	reads int
}

// Get implements journal.Store.
func (c *counting) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	c.reads++
	return c.Store.Get(ctx, s, ordinal)
}

// conversation writes steps of two events each, some of them in two entries, and returns the ids of all events.
func conversation(t *testing.T, store journal.Store, o journal.Options, steps int) (ids []string) {
	t.Helper()
	log := journal.New(store, o)
	openedAt := int64(1)
	for i := range steps {
		turn := journal.Turn{Name: "t" + strconv.Itoa(i), UID: types.UID("t" + strconv.Itoa(i))}
		if i%5 == 0 {
			draft := log.Draft(followed, turn, 1, openedAt, journal.Partial{Message: "m", Holder: "h"})
			if _, err := draft.Keep(t.Context(), "some text"); err != nil {
				t.Fatal(err)
			}
		}
		f := event.NewFactory(event.Identity{Session: followed.UID, Turn: turn.UID}, time.Now)
		closed, err := log.Append(t.Context(), followed, journal.Record{
			Turn: turn, Step: 1, OpenedAt: openedAt, Digest: "d",
			Events:     []event.Event{f.SessionActivated(), f.TurnStarted("x")},
			Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseComplete}},
		})
		if err != nil {
			t.Fatal(err)
		}
		openedAt = closed.Ordinal + 1
		for _, e := range closed.Events {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// read returns the ids of the events after a sequence number, as one who follows reads them.
func read(t *testing.T, log *journal.Log, after, hint int64) (ids []string) {
	t.Helper()
	p, err := log.Seek(t.Context(), followed, after, hint, journal.Unknown)
	if err != nil {
		t.Fatal(err)
	}
	if p.Sequence > after+1 {
		t.Fatalf("after %d the position is %+v", after, p)
	}
	for {
		first := p.Sequence
		closed, next, err := log.NextStep(t.Context(), followed, p, journal.Unknown)
		if err != nil {
			t.Fatal(err)
		}
		if closed == nil {
			return ids
		}
		for i, e := range closed.Events {
			if first+int64(i) > after {
				ids = append(ids, e.ID)
			}
		}
		p = next
	}
}

// Rules: EVT-01, EVT-02.
func TestOneWhoFollowsReadsEachEventOnceFromAnySequenceNumber(t *testing.T) {
	store := &counting{Store: memory.New()}
	var seen []int64
	want := conversation(t, store, journal.Options{
		OnEntry: func(_ types.UID, ordinal int64) { seen = append(seen, ordinal) },
	}, 150)
	last := seen[len(seen)-1]
	if last < 2*journal.CheckpointInterval {
		t.Fatalf("the journal has only %d entries", last)
	}
	for _, hint := range []int64{0, 1, last / 2, last, 10 * last} {
		for after := int64(0); after <= int64(len(want)); after += 7 {
			log := journal.New(store, journal.Options{})
			store.reads = 0
			got := read(t, log, after, hint)
			if len(got) != len(want)-int(after) || len(got) > 0 && got[0] != want[after] {
				t.Fatalf("after %d, with the hint %d: %d events of %d, the first one %s", after, hint, len(got), len(want),
					append(got, "")[0])
			}
			if log.CachedBytes() != 0 {
				t.Fatalf("%d bytes are in the cache", log.CachedBytes())
			}
			if rest := last - after*last/int64(len(want)); int64(store.reads) > rest+2*journal.CheckpointInterval {
				t.Errorf("after %d, with the hint %d: %d reads for about %d entries", after, hint, store.reads, rest)
			}
		}
	}
}

func TestOneWhoFollowsReadsNoEntryThatIsInTheCacheOrMayNotExist(t *testing.T) {
	store := &counting{Store: memory.New()}
	waits, head := 0, int64(0)
	log := journal.New(store, journal.Options{
		OnEntry:      func(_ types.UID, ordinal int64) { head = ordinal },
		BeforeFollow: func(context.Context, string) error { waits++; return nil },
	})
	f := event.NewFactory(event.Identity{Session: followed.UID, Turn: "t"}, time.Now)
	if _, err := log.Append(t.Context(), followed, journal.Record{
		Turn: journal.Turn{Name: "t", UID: "t"}, Step: 1, OpenedAt: 1, Digest: "d",
		Events:     []event.Event{f.SessionActivated()},
		Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseComplete}},
	}); err != nil {
		t.Fatal(err)
	}
	store.reads = 0
	closed, p, err := log.NextStep(t.Context(), followed, journal.Position{Ordinal: 1, Sequence: 1}, head)
	if err != nil || closed == nil || p != (journal.Position{Ordinal: 2, Sequence: 2}) {
		t.Fatalf("the step is %v, the position %+v, %v", closed, p, err)
	}
	if closed, p, err = log.NextStep(t.Context(), followed, p, head); closed != nil || err != nil || p.Ordinal != 2 {
		t.Errorf("behind the head: %v, %+v, %v", closed, p, err)
	}
	if store.reads != 0 || waits != 0 {
		t.Errorf("%d reads, %d waits", store.reads, waits)
	}
	if _, _, err := log.NextStep(t.Context(), followed, p, head+1); !errors.Is(err, journal.ErrCorrupt) || waits != 1 {
		t.Errorf("an entry that should exist is missing: %v, after %d waits", err, waits)
	}
}
