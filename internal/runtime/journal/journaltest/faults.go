package journaltest

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// faultAtAnyCall makes each call in turn fail, with and without having been executed, and expects the same history
// every time.
func faultAtAnyCall(f *fixture) {
	f.everyCall(func(c contest, log *journal.Log, store *Store, index int, executed bool) {
		c.fault(log, store, index, executed)
	})
}

func (f contest) fault(log *journal.Log, faulty *Store, index int, executed bool) {
	r := f.record
	failed := false
	faulty.Intercept(func(c Call) Fault {
		if c.Index != index {
			return Fault{}
		}
		failed = true
		if executed {
			return Fault{After: Fail}
		}
		return Fault{Before: Fail}
	})
	closed, err := log.Append(f.t.Context(), f.session, r)
	if err != nil {
		if !errors.Is(err, ErrInjected) {
			f.t.Fatal(err)
		}
		closed, err = log.Append(f.t.Context(), f.session, r)
	}
	if err != nil || closed.Adopted || !failed {
		f.t.Fatalf("failed %v, closed %v, %v", failed, closed, err)
	}
	f.same("the events", closed.Events, f.reread(closed).Events)
	f.same("the warm view", f.view(log, 0), f.view(f.log(), 0))
	f.same("the events of the record", ids(closed.Events), ids(r.Events))
	f.check()
}

// reread returns the step as a process without a cache reads it.
func (f *fixture) reread(closed *journal.Closed) *journal.Closed {
	f.t.Helper()
	again, err := f.log().Step(f.t.Context(), f.session, closed.Turn.UID, closed.Ordinal)
	if err != nil {
		f.t.Fatal(err)
	}
	return again
}

func ids(events []event.Event) []string {
	all := make([]string, 0, len(events))
	for _, e := range events {
		all = append(all, e.ID)
	}
	return all
}

func everyCreateTimesOut(f *fixture) {
	contest := f.contest(61)
	faulty := Wrap(contest.store)
	faulty.Intercept(func(c Call) Fault {
		if c.Create {
			return Fault{After: Fail}
		}
		return Fault{}
	})
	log := journal.New(faulty, journal.Options{})
	closed := contest.append(log, contest.record)
	if closed.Adopted {
		contest.t.Fatal("the writer treated its own entry as that of another writer")
	}
	entries := contest.check()
	if got := len(entries); got != int(closed.Ordinal) {
		contest.t.Fatalf("there are %d entries, the last is %d", got, closed.Ordinal)
	}
	ref, late, err := log.Settle(
		contest.t.Context(),
		contest.session,
		turn("b"),
		1,
		closed.Ordinal+1,
		journal.SettledCall{ID: "1-0", Result: ptr("x")},
	)
	if err != nil || late != nil || ref.Adopted {
		contest.t.Fatalf("settling gives %v, %v, %v", ref, late, err)
	}
	contest.check()
}

func lostCreate(f *fixture) {
	var at []int64
	faulty := Wrap(f.store)
	faulty.Intercept(func(c Call) Fault {
		if !c.Create {
			return Fault{}
		}
		if at = append(at, c.Ordinal); len(at) == 1 {
			return Fault{Before: Fail}
		}
		return Fault{}
	})
	if closed := f.append(
		journal.New(faulty, journal.Options{}),
		respond(turn("a"), 1, 1, "x"),
	); closed.Adopted ||
		closed.Ordinal != 1 {
		f.t.Fatalf("closed at %d, adopted %v", closed.Ordinal, closed.Adopted)
	}
	f.same("where creates were tried", at, []int64{1, 1})
	f.check()
}

func refusedCreate(f *fixture) {
	faulty := Wrap(f.store)
	faulty.Intercept(func(c Call) Fault {
		if c.Create {
			return Fault{Before: func(context.Context) error { return fmt.Errorf("no: %w", journal.ErrRefused) }}
		}
		return Fault{}
	})
	log := journal.New(faulty, journal.Options{})
	if _, err := log.Append(f.t.Context(), f.session, respond(turn("a"), 1, 1, "x")); !errors.Is(err, journal.ErrRefused) {
		f.t.Fatalf("a refused create returned %v", err)
	}
	if n := faulty.Creates(); n != 1 {
		f.t.Fatalf("a refused create was tried %d times", n)
	}
	faulty.Intercept(func(Call) Fault { return Fault{Before: Fail} })
	log.Forget(f.session)
	if _, err := log.Append(f.t.Context(), f.session, respond(turn("a"), 1, 1, "x")); !errors.Is(err, ErrInjected) {
		f.t.Fatalf("a store that cannot be reached returned %v", err)
	}
	if entries := f.entries(); len(entries) != 0 {
		f.t.Fatalf("%d entries were written", len(entries))
	}
}

// createThenRefused executes the first create and loses its response; every later create is refused, as by a quota that
// this entry has used up.
func createThenRefused(f *fixture) {
	faulty, creates := Wrap(f.store), 0
	faulty.Intercept(func(c Call) Fault {
		if !c.Create {
			if creates == 1 {
				creates++
				return Fault{Before: Fail}
			}
			return Fault{}
		}
		creates++
		if creates == 1 {
			return Fault{After: Fail}
		}
		return Fault{Before: func(context.Context) error { return fmt.Errorf("exceeded quota: %w", journal.ErrRefused) }}
	})
	closed, err := journal.New(faulty, journal.Options{}).Append(f.t.Context(), f.session, respond(turn("a"), 1, 1, "x"))
	if err != nil || closed.Ordinal != 1 || closed.Adopted {
		f.t.Fatalf("the step that its own entry closes: %+v, %v", closed, err)
	}
	f.check()
}

// lateCreate executes the create of an abandoned writer before and after that of its successor.
func lateCreate(f *fixture) {
	for _, before := range []bool{true, false} {
		f := f.another()
		f.fill(3)
		var late *v1alpha1.JournalEntrySpec
		lost := &losing{Store: f.store, lost: func(e *v1alpha1.JournalEntrySpec) { late = e }}
		if _, err := journal.New(lost, journal.Options{}).
			Append(f.t.Context(), f.session, respond(turn("a"), 1, 4, "first")); !errors.Is(
			err,
			ErrInjected,
		) {
			f.t.Fatalf("a create that is lost returned %v", err)
		}
		if before {
			if err := f.store.Create(f.t.Context(), f.session, late); err != nil {
				f.t.Fatal(err)
			}
		}
		closed := f.append(f.log(), respond(turn("a"), 1, 4, "second"))
		if closed.Adopted != before {
			f.t.Fatalf("the late create came first: %v, adopted %v", before, closed.Adopted)
		}
		if !before {
			if err := f.store.Create(f.t.Context(), f.session, late); !errors.Is(err, journal.ErrExists) {
				f.t.Fatalf("the late create returned %v", err)
			}
		}
		if entries := f.check(); len(entries) != 4 {
			f.t.Fatalf("there are %d entries", len(entries))
		}
	}
}

// losing loses every create.
type losing struct {
	journal.Store
	lost func(*v1alpha1.JournalEntrySpec)
}

// Create implements journal.Store: it reports the entry, and writes nothing.
func (l *losing) Create(_ context.Context, _ journal.Session, e *v1alpha1.JournalEntrySpec) error {
	l.lost(e)
	return ErrInjected
}
