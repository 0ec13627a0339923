package memory_test

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

// conversation is a journal of 1,000 steps with a response of about 1 KiB each.
func conversation(b *testing.B) (journal.Store, journal.Session, int64) {
	b.Helper()
	store, session := memory.New(), journal.Session{Namespace: "default", Name: "bench", UID: "bench-uid"}
	log, openedAt := journal.New(store, journal.Options{}), int64(1)
	for i := range 1000 {
		closed, err := log.Append(b.Context(), session, answer(i, openedAt))
		if err != nil {
			b.Fatal(err)
		}
		openedAt = closed.Ordinal + 1
	}
	return store, session, openedAt
}

func answer(i int, openedAt int64) journal.Record {
	turn := journal.Turn{Name: fmt.Sprintf("turn-%d", i), UID: "uid"}
	step := event.NewFactory(event.Identity{Turn: turn.UID}, nil).Step(1, 1)
	text := ""
	for n := range 100 {
		text += fmt.Sprintf("word %d ", i*n)
	}
	return journal.Record{
		Turn:     turn,
		Step:     int32(i + 1),
		OpenedAt: openedAt,
		Digest:   "digest",
		Events: []event.Event{
			step.OutputMessageCompleted(event.OutputMessageCompleted{Message: event.NewAssistantMessage(text, nil)}),
		},
	}
}

func BenchmarkColdView(b *testing.B) {
	store, session, openedAt := conversation(b)
	counting := journaltest.Wrap(store)
	reads := 0
	for b.Loop() {
		counting.Reset()
		if _, err := journal.New(counting, journal.Options{}).View(b.Context(), session, openedAt-1); err != nil {
			b.Fatal(err)
		}
		reads = counting.Reads()
	}
	b.ReportMetric(float64(reads), "reads/op")
}

func BenchmarkWarmView(b *testing.B) {
	store, session, _ := conversation(b)
	counting := journaltest.Wrap(store)
	log := journal.New(counting, journal.Options{})
	if _, err := log.View(b.Context(), session, 0); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		counting.Reset()
		if _, err := log.View(b.Context(), session, 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(counting.Reads()), "reads/op")
}

func BenchmarkAppend(b *testing.B) {
	store, session, openedAt := conversation(b)
	log := journal.New(store, journal.Options{})
	for i := 1000; b.Loop(); i++ {
		closed, err := log.Append(b.Context(), session, answer(i, openedAt))
		if err != nil {
			b.Fatal(err)
		}
		openedAt = closed.Ordinal + 1
	}
}
