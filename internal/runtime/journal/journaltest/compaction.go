package journaltest

import (
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// compacted checks that readers with and without a cache have the same conversation, wherever compactions are between
// checkpoints, and that nothing is removed from the journal.
func compacted(f *fixture) {
	at := map[int]bool{3: true, 40: true, 63: true, 64: true, 130: true, 190: true}
	look := map[int64]bool{
		4: true, 41: true, 63: true, 65: true, 67: true, 127: true, 129: true, 133: true, 191: true, 195: true, 260: true,
	}
	log, openedAt := f.log(), int64(1)
	var want []event.Message
	events := int64(0)
	for n := 1; openedAt <= 260; n++ {
		r := respond(turn(fmt.Sprintf("turn-%d", n)), 1, openedAt, noise(uint64(n), 3000))
		if at[n] {
			summary := event.NewSummary(fmt.Sprintf("summary-%d", n), fmt.Sprintf("All up to %d.", n))
			r.Compaction = &journal.Compaction{KeptFrom: want[len(want)-2].ID, Summary: &summary}
			want = append([]event.Message{summary}, want[len(want)-2:]...)
		}
		closed := f.append(log, r)
		messages, err := event.MessagesOf(closed.Events)
		if err != nil {
			f.t.Fatal(err)
		}
		want, events = append(want, messages...), events+int64(len(closed.Events))
		openedAt = closed.Ordinal + 1
		if !look[closed.Ordinal] {
			continue
		}
		warm := f.view(log, closed.Ordinal)
		f.same(fmt.Sprintf("the conversation at %d", closed.Ordinal), warm.Messages, want)
		for _, hint := range []int64{0, closed.Ordinal} {
			counting := Wrap(f.store)
			cold := f.view(journal.New(counting, journal.Options{}), hint)
			f.same(fmt.Sprintf("the cold conversation at %d", closed.Ordinal), cold.Messages, want)
			if cold.Conversation != warm.Conversation || n > 3 && cold.Conversation >= cold.Bytes {
				f.t.Fatalf("the conversation at %d takes %d bytes without a cache and %d with one, of %d", closed.Ordinal,
					cold.Conversation, warm.Conversation, cold.Bytes)
			}
			if len(cold.Turns) != n || cold.NextSequence != events+1 || cold.Bytes != warm.Bytes {
				f.t.Fatalf("at %d the journal has %d Turns, the sequence number %d and %d bytes", closed.Ordinal,
					len(cold.Turns), cold.NextSequence, cold.Bytes)
			}
			if cost := counting.Reads(); cost > maxColdReads+maxSearch {
				f.t.Fatalf("the cold view at %d took %d reads", closed.Ordinal, cost)
			}
		}
	}
	f.check()
}

// compactsOthers checks that a record that compacts messages which the journal does not have is not appended.
func compactsOthers(f *fixture) {
	log := f.log()
	f.append(log, respond(turn("first"), 1, 1, "one"))
	r := respond(turn("second"), 1, 2, "two")
	r.Compaction = &journal.Compaction{KeptFrom: "no such message"}
	if _, err := log.Append(f.t.Context(), f.session, r); err == nil {
		f.t.Fatal("the record was appended")
	}
	if n := len(f.check()); n != 1 {
		f.t.Fatalf("the journal has %d entries", n)
	}
}
