package journaltest

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// steered returns a record that includes the messages of other Turns.
func steered(r journal.Record, names ...string) journal.Record {
	factory := event.NewFactory(event.Identity{Session: "session", Turn: r.Turn.UID, InputMessage: "input"}, nil)
	for _, name := range names {
		r.Events = append(r.Events, factory.InputMessage(event.NewUserMessage("input of "+name)))
		r.Steered = append(
			r.Steered,
			journal.RecordedTurn{Name: name, UID: types.UID(name + "-uid"), Digest: strings.Repeat("5", 64)},
		)
	}
	return r
}

// steeredIsRemembered verifies that the journal has a message that went into another Turn under its own name, for every
// reader, and that a record which lost includes nothing.
func steeredIsRemembered(f *fixture) {
	log, of := f.log(), turn("a")
	closed := f.append(log, steered(respond(of, 1, 1, "first"), "b", "c"))
	f.same("the Turns taken in", len(closed.Steered), 2)
	adopted := f.append(f.log(), steered(respond(of, 1, 1, "another"), "d"))
	closed.Adopted = true
	f.same("the adopted step", adopted, closed)
	if _, err := f.log().Append(f.t.Context(), f.session, respond(turn("b"), 1, 2, "of its own")); !errors.Is(err,
		journal.ErrSteered) {
		f.t.Fatalf("a step of a Turn whose message was steered into another one returned %v", err)
	}
	if _, err := f.log().Append(f.t.Context(), f.session,
		steered(respond(turn("e"), 1, 2, "once more"), "c")); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("a record with a message that was steered in before returned %v", err)
	}
	namesake := turn("b")
	namesake.UID = "of-a-namesake"
	f.append(log, respond(namesake, 1, 2, "under a name that is taken"))
	for what, l := range map[string]*journal.Log{"the writer": log, "a cold reader": f.log()} {
		v := f.view(l, 0)
		f.same("the view of "+what, v, f.naive(f.entries()))
		if into := v.Turns["b"].SteeredInto; into == nil || *into != of {
			f.t.Fatalf("%s knows the message b as %+v", what, v.Turns["b"])
		}
		if _, known := v.Turns["d"]; known {
			f.t.Fatalf("%s knows a message that no entry has", what)
		}
		outcome, err := l.Outcome(f.t.Context(), f.session, "c", 0)
		if outcome != nil || err != nil {
			f.t.Fatalf("the outcome of a message that ran in another Turn is %v, %v", outcome, err)
		}
	}
	f.check()
}
