package journaltest

import (
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// endedOnce verifies that the first record of the hooks at the end of a Turn counts, for every reader, wherever later
// Turns have begun, and that it changes nothing else.
func endedOnce(f *fixture) {
	log := f.log()
	last := f.append(log, respond(turn("a"), 1, 1, "the end"))
	ended := func(what string, l *journal.Log, last *journal.Closed, want *journal.HookedEnd) {
		got, err := l.Ended(f.t.Context(), f.session, last)
		if err != nil {
			f.t.Fatal(err)
		}
		f.same("the hooks of "+what, got, want)
	}
	ended("a Turn whose hooks have not run", log, last, nil)
	first := journal.HookedEnd{Hooks: []journal.HookRun{{Hook: "session:h", Decision: "error", Reason: "timeout"}}}
	keep := func(l *journal.Log, last *journal.Closed, end journal.HookedEnd) {
		if err := l.KeepEnd(f.t.Context(), f.session, last, end); err != nil {
			f.t.Fatal(err)
		}
	}
	keep(log, last, first)
	keep(log, last, journal.HookedEnd{})
	keep(f.log(), last, journal.HookedEnd{})
	next := f.append(log, respond(turn("b"), 1, 2, "of another Turn"))
	keep(f.log(), next, journal.HookedEnd{})
	for what, l := range map[string]*journal.Log{"the writer": log, "a cold reader": f.log()} {
		ended("the first Turn, for "+what, l, last, &first)
		ended("the next Turn, for "+what, l, next, &journal.HookedEnd{})
		f.same("the view of "+what, f.view(l, 0), f.naive(f.entries()))
	}
	f.same("the entries", len(f.entries()), 4)
	f.check()
}
