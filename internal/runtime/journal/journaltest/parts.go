package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

func largeStep(f *fixture) {
	of := turn("a")
	var texts []string
	for i := range 50 {
		texts = append(texts, noise(uint64(i), 64*1024))
	}
	many := respond(of, 1, 1, texts...)
	single := respond(of, 2, 0, strings.Repeat("\\\"<&\u2028\u0001ü", 200_000))
	calls := respond(of, 3, 0, "calling")
	calls.Calls = []journal.PlannedCall{
		{ID: "3-0", Name: "small", Arguments: "{}"},
		{
			ID:         "3-1",
			ProviderID: "p",
			Name:       "large",
			Arguments:  noise(7, 1_200_000),
			Refusal:    strings.Repeat("\u0002", 150_000),
		},
		{ID: "3-2", Name: "small", Arguments: "{}"},
	}
	// The events fill an entry so far that the transition has no room beside them.
	filled := respond(of, 4, 0, noise(8, journal.MaxEntryBytes-10_000))
	for i := range 64 {
		filled.Transition.ToolCalls = append(filled.Transition.ToolCalls, v1alpha1.ToolCall{
			ID: fmt.Sprintf(
				"4-%d",
				i,
			),
			Name:     noise(1, 64),
			Executor: v1alpha1.ToolExecutorNone,
			State:    v1alpha1.ToolCallStateFailed,
			Preview:  noise(2, 160),
		})
	}
	log, openedAt := f.log(), int64(1)
	for i, r := range []journal.Record{many, single, calls, filled} {
		r.OpenedAt = openedAt
		closed := f.append(log, r)
		if entries := closed.Ordinal - openedAt + 1; entries < []int64{7, 8, 5, 2}[i] {
			f.t.Fatalf("step %d took %d entries", r.Step, entries)
		}
		openedAt = closed.Ordinal + 1
		f.same("the ids of the events", ids(closed.Events), ids(r.Events))
		f.same("the calls", closed.Calls, r.Calls)
		closed.Adopted = true
		f.same("the step that was read", f.reread(closed), closed)
		found, err := f.log().Find(f.t.Context(), f.session, of.UID, r.Step, r.OpenedAt)
		if err != nil {
			f.t.Fatal(err)
		}
		f.same("the step that was found", found, closed)
	}
	entries := f.check()
	f.same("the warm view", f.view(log, 0), f.naive(entries))
	answer := f.view(log, 0).Messages[51].PlainText()
	f.same("the text of the large answer", len(answer), len(strings.Repeat("\\\"<&\u2028\u0001ü", 200_000)))
}

// deadParts stops a writer after each of its entries, and lets another one close the step, or another Turn continue.
func deadParts(f *fixture) {
	for dead := 1; dead <= 3; dead++ {
		f.t.Run(fmt.Sprintf("after %d entries", dead), func(t *testing.T) {
			contest := (&fixture{t: t, store: f.store}).contest(61)
			r := contest.record
			contest.die(dead, r)
			again := respond(r.Turn, r.Step, r.OpenedAt, noise(9, 900_000))
			next := contest.append(contest.log(), respond(turn("next"), 1, r.OpenedAt, "the next turn"))
			closed := contest.append(contest.log(), again)
			if closed.Adopted || next.Adopted {
				t.Fatal("the parts of a dead writer were adopted")
			}
			contest.same("the events", ids(closed.Events), ids(again.Events))
			contest.same("the events that were read", ids(contest.reread(closed).Events), ids(again.Events))
			contest.check()
		})
	}
}

// die writes so many entries of a record and no more.
func (f *fixture) die(entries int, r journal.Record) {
	f.t.Helper()
	faulty := Wrap(f.store)
	creates := 0
	faulty.Intercept(func(c Call) Fault {
		if c.Create {
			creates++
		}
		if creates > entries {
			return Fault{Before: Fail}
		}
		return Fault{}
	})
	if _, err := journal.New(faulty, journal.Options{}).Append(f.t.Context(), f.session, r); !errors.Is(err, ErrInjected) {
		f.t.Fatalf("a writer that dies after %d entries returned %v", entries, err)
	}
}

func cancelRaces(f *fixture) {
	for round := range 8 {
		contest := f.contest(61)
		r := contest.record
		var closed [2]*journal.Closed
		var errs [2]error
		var group sync.WaitGroup
		group.Go(func() { closed[0], errs[0] = contest.log().Append(deadline(f.t), contest.session, r) })
		group.Go(func() {
			closed[1], errs[1] = contest.log().Append(deadline(f.t), contest.session, cancel(r.Turn, r.Step, r.OpenedAt))
		})
		group.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			f.t.Fatalf("round %d: %v", round, err)
		}
		if closed[0].Adopted == closed[1].Adopted {
			f.t.Fatalf("round %d: both adopted: %v", round, closed[0].Adopted)
		}
		closed[0].Adopted = closed[1].Adopted
		contest.same("the step", closed[0], closed[1])
		contest.check()
	}
}
