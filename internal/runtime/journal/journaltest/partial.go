package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// draft starts to record the response of the first step of a Turn.
func (f *fixture) draft(log *journal.Log, of journal.Turn, openedAt int64, message string) *journal.Draft {
	return log.Draft(f.session, of, 1, openedAt, journal.Partial{Message: message, Model: "m", Holder: "ann"})
}

// keep records the current text of a response and fails the test if that is not possible.
func (f *fixture) keep(d *journal.Draft, text string) {
	f.t.Helper()
	if closed, err := d.Keep(f.t.Context(), text); err != nil || closed {
		f.t.Fatalf("keeping %s gives %v, %v", shorten(text), closed, err)
	}
}

func (f *fixture) discard(d *journal.Draft) {
	f.t.Helper()
	if closed, err := d.Discard(f.t.Context()); err != nil || closed {
		f.t.Fatalf("discarding gives %v, %v", closed, err)
	}
}

// resume returns the state that a process without a cache finds.
func (f *fixture) resume(of journal.Turn, step int32, openedAt int64) (*journal.Closed, *journal.Partial) {
	f.t.Helper()
	closed, open, err := f.log().Resume(f.t.Context(), f.session, of, step, openedAt)
	if err != nil {
		f.t.Fatal(err)
	}
	return closed, open.Partial
}

// expectPartial checks the state that a process finds of an open step.
func (f *fixture) expectPartial(of journal.Turn, openedAt int64, message, text string, discarded bool) {
	f.t.Helper()
	closed, partial := f.resume(of, 1, openedAt)
	if closed != nil {
		f.t.Fatalf("the step is closed: %v", closed)
	}
	f.same(
		"what was kept",
		partial,
		&journal.Partial{Message: message, Model: "m", Holder: "ann", Text: text, Discarded: discarded},
	)
}

func (f *fixture) expectEntries(want int) {
	f.t.Helper()
	if entries := f.check(); len(entries) != want {
		f.t.Fatalf("there are %d entries, not %d", len(entries), want)
	}
}

// partialIsKept crosses a checkpoint, and has others write in between.
func partialIsKept(f *fixture) {
	of, other := turn("a"), turn("b")
	f.fill(62)
	log := f.log()
	if closed, partial := f.resume(of, 1, 63); closed != nil || partial != nil {
		f.t.Fatalf("an open step with nothing resumes with %v, %v", closed, partial)
	}
	d := f.draft(log, of, 63, "x")
	f.keep(d, "")
	f.keep(d, "One ")
	f.keep(f.draft(f.log(), other, 63, "y"), "other")
	f.keep(d, "One two <&> ü ")
	f.keep(d, "One two <&> ü ")
	f.keep(f.draft(f.log(), of, 63, "x"), "One")
	f.keep(d, "One two <&> ü three")
	f.expectPartial(of, 63, "x", "One two <&> ü three", false)
	f.expectEntries(62 + 4 + 1)
	f.discard(d)
	f.discard(d)
	f.discard(f.draft(f.log(), of, 63, "x"))
	f.keep(d, "One two <&> ü three four")
	f.expectPartial(of, 63, "x", "One two <&> ü three", true)
	f.expectEntries(62 + 4 + 1 + 1)
	if _, partial := f.resume(of, 2, 63); partial != nil {
		f.t.Fatalf("another step has %v", partial)
	}
}

// newestPartialCounts has two processes that receive responses at the same time, each of which assumes that it is the
// only one.
func newestPartialCounts(f *fixture) {
	of := turn("a")
	one, two := f.draft(f.log(), of, 1, "x"), f.draft(f.log(), of, 1, "y")
	f.keep(one, "a")
	f.keep(two, "1")
	f.keep(one, "ab")
	f.keep(two, "12")
	f.discard(one)
	f.expectPartial(of, 1, "y", "12", false)
	f.expectEntries(5)
}

// partialOfAClosedStep verifies that recorded parts are not part of the conversation, and that a closed step accepts
// none.
func partialOfAClosedStep(f *fixture) {
	of := turn("a")
	d := f.draft(f.log(), of, 1, "x")
	f.keep(d, "Hel")
	closed := f.append(f.log(), respond(of, 1, 1, "Hello."))
	for _, d := range []*journal.Draft{d, f.draft(f.log(), of, 1, "x"), f.draft(f.log(), of, 1, "z")} {
		if gone, err := d.Keep(f.t.Context(), "Hello"); err != nil || !gone {
			f.t.Fatalf("keeping a piece of a closed step gives %v, %v", gone, err)
		}
		if gone, err := d.Discard(f.t.Context()); err != nil || !gone {
			f.t.Fatalf("discarding a piece of a closed step gives %v, %v", gone, err)
		}
	}
	again, partial := f.resume(of, 1, 1)
	if again == nil || again.Ordinal != closed.Ordinal || partial != nil {
		f.t.Fatalf("a closed step resumes with %v, %v", again, partial)
	}
	f.expectEntries(2)
}

// partialSurvivesFaults makes each call of the store fail, executed and not, while a response grows. The writer
// continues with more text than that which failed.
func partialSurvivesFaults(f *fixture) {
	const whole = "abcdefgh"
	for _, executed := range []bool{false, true} {
		for index, failed := 0, true; failed; index++ {
			failed = f.another().growsOver(whole, index, executed)
		}
	}
}

// growsOver records a growing response while every call of the store from one on fails for a while, and reports whether
// one has failed.
func (f *fixture) growsOver(whole string, index int, executed bool) (failed bool) {
	store := Wrap(f.store)
	store.Intercept(failsFrom(index, 5, executed, &failed))
	of := turn("a")
	d := f.draft(journal.New(store, journal.Options{}), of, 1, "x")
	for n := range whole {
		if _, err := d.Keep(f.t.Context(), whole[:n+1]); err != nil && !errors.Is(err, ErrInjected) {
			f.t.Fatal(err)
		}
	}
	for range 10 {
		if _, err := d.Keep(f.t.Context(), whole); err == nil {
			break
		}
	}
	f.expectPartial(of, 1, "x", whole, false)
	kept := ""
	for _, e := range f.check() {
		kept += e.Partial.Text
	}
	f.same("the pieces", kept, whole)
	return failed
}

// partialMustFit verifies the effect of a Session's limit on recorded parts, and on the response after them.
func partialMustFit(f *fixture) {
	of := turn("a")
	nul := strings.Repeat("\x00", journal.MaxPieceBytes)
	long := "x" + strings.Repeat("ü", journal.MaxPieceBytes)
	f.keep(f.draft(f.log(), of, 1, "nul"), nul)
	d := f.draft(f.log(), of, 1, "x")
	f.keep(d, long)
	f.expectPartial(of, 1, "x", long, false)
	f.expectEntries(1 + 3)
	f.session.Limit = f.view(f.log(), 0).Bytes + 1
	if _, err := f.draft(f.log(), of, 1, "x").Keep(f.t.Context(), long+"more"); !errors.Is(err, journal.ErrFull) {
		f.t.Fatalf("a piece that the log has no room for is refused with %v", err)
	}
	d = f.draft(f.log(), of, 1, "x")
	f.discard(d)
	if _, err := d.Keep(f.t.Context(), long+"more"); err != nil {
		f.t.Fatalf("what was discarded is refused with %v", err)
	}
	f.append(f.log(), respond(of, 1, 1, long))
	f.expectEntries(1 + 3 + 1 + 1)
	if _, err := f.log().
		Append(f.t.Context(), f.session, respond(turn("b"), 1, 6, long)); !errors.Is(
		err,
		journal.ErrFull,
	) {
		f.t.Fatalf("the next answer is refused with %v", err)
	}
}

// partialPiecesAreReadOnce shows that a piece costs no more reads than the entries that others have written since the
// one before.
func partialPiecesAreReadOnce(f *fixture) {
	of := turn("a")
	store := Wrap(f.store)
	d := f.draft(journal.New(store, journal.Options{CacheBytes: 1}), of, 1, "x")
	text := ""
	for n := range 200 {
		store.Reset()
		text += fmt.Sprintf("%d ", n)
		f.keep(d, text)
		if reads := store.Reads(); n > 0 && reads > 2 {
			f.t.Fatalf("piece %d costs %d reads", n, reads)
		}
	}
	f.expectPartial(of, 1, "x", text, false)
}

// partialOutOfPlace appends parts that no writer of this package would append.
func partialOutOfPlace(f *fixture) {
	of := turn("a")
	f.keep(f.draft(f.log(), of, 1, "x"), "abc")
	for i, piece := range []journal.PartialAnswer{
		{Offset: 7, Text: "late"}, {Offset: 0, Text: "abc"}, {Offset: 3, Text: "d"},
	} {
		piece.Message, piece.Content = "x", journal.PartialContentText
		e := &journal.Entry{
			Session: f.session.Name,
			Ordinal: int64(i) + 2,
			Time:    event.MicroTime(time.Now()),
			Turn:    &of,
			Step:    1,
			Partial: &piece,
		}
		if err := f.create(e); err != nil {
			f.t.Fatal(err)
		}
	}
	f.expectPartial(of, 1, "x", "abcd", false)
	f.check()
}
