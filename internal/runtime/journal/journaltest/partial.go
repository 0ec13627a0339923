package journaltest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// text is a piece of an answer that is text so far, calls what is said of it when the model begins to call tools.
func text(message string, offset int64, text string) v1alpha1.PartialAnswer {
	return v1alpha1.PartialAnswer{Message: message, Model: "m", Content: v1alpha1.PartialText, Offset: offset, Text: text}
}

func calls(message string, offset int64) v1alpha1.PartialAnswer {
	return v1alpha1.PartialAnswer{Message: message, Model: "m", Content: v1alpha1.PartialToolCalls, Offset: offset}
}

// keep keeps a piece of an answer and fails the test if that is not possible.
func (f *fixture) keep(log *journal.Log, of journal.Turn, openedAt int64, piece v1alpha1.PartialAnswer) {
	f.t.Helper()
	if closed, err := log.KeepPartial(f.t.Context(), f.session, of, 1, openedAt, piece); err != nil || closed {
		f.t.Fatalf("keeping %s gives %v, %v", f.json(piece), closed, err)
	}
}

// resume is what a process finds that knows nothing.
func (f *fixture) resume(of journal.Turn, step int32, openedAt int64) (*journal.Closed, *journal.Partial) {
	f.t.Helper()
	closed, partial, err := f.log().Resume(f.t.Context(), f.session, of, step, openedAt)
	if err != nil {
		f.t.Fatal(err)
	}
	return closed, partial
}

// partialIsKept crosses a checkpoint, and has others write in between.
func partialIsKept(f *fixture) {
	of, other := turn("a"), turn("b")
	f.fill(62)
	log := f.log()
	if closed, partial := f.resume(of, 1, 63); closed != nil || partial != nil {
		f.t.Fatalf("an open step with nothing resumes with %v, %v", closed, partial)
	}
	f.keep(log, of, 63, text("x", 0, "One "))
	f.keep(f.log(), other, 63, text("y", 0, "other"))
	f.keep(log, of, 63, text("x", 4, "two <&> ü "))
	f.keep(log, of, 63, text("x", 4, "two <&> ü ")) // once more, as after a time-out
	f.keep(f.log(), of, 63, text("x", 0, "One "))
	f.keep(log, of, 63, text("x", 15, "three"))
	_, partial := f.resume(of, 1, 63)
	f.same("what was kept", partial, &journal.Partial{Message: "x", Model: "m", Text: "One two <&> ü three"})
	if entries := f.check(); len(entries) != 62+4+1 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
	f.keep(log, of, 63, calls("x", 20))
	f.keep(log, of, 63, calls("x", 20))
	f.keep(log, of, 63, text("x", 20, " four"))
	_, partial = f.resume(of, 1, 63)
	f.same("what was kept", partial, &journal.Partial{Message: "x", Model: "m", Text: "One two <&> ü three", ToolCalls: true})
	if entries := f.check(); len(entries) != 62+4+1+1 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
	if _, partial := f.resume(of, 2, 63); partial != nil {
		f.t.Fatalf("another step has %v", partial)
	}
}

// newestPartialCounts has two processes receive answers at a time, each of which believes that it is the only one.
func newestPartialCounts(f *fixture) {
	of := turn("a")
	one, two := f.log(), f.log()
	f.keep(one, of, 1, text("x", 0, "a"))
	f.keep(two, of, 1, text("y", 0, "1"))
	f.keep(one, of, 1, text("x", 1, "b"))
	f.keep(two, of, 1, text("y", 1, "2"))
	f.keep(one, of, 1, calls("x", 2))
	_, partial := f.resume(of, 1, 1)
	f.same("what was kept", partial, &journal.Partial{Message: "y", Model: "m", Text: "12"})
	f.check()
}

// partialOfAClosedStep shows that what is kept is no part of the conversation, and that a closed step keeps nothing.
func partialOfAClosedStep(f *fixture) {
	of := turn("a")
	log := f.log()
	f.keep(log, of, 1, text("x", 0, "Hel"))
	closed := f.append(f.log(), say(of, 1, 1, "Hello."))
	for _, l := range []*journal.Log{log, f.log()} {
		if gone, err := l.KeepPartial(f.t.Context(), f.session, of, 1, 1, text("x", 3, "lo")); err != nil || !gone {
			f.t.Fatalf("keeping a piece of a closed step gives %v, %v", gone, err)
		}
	}
	again, partial := f.resume(of, 1, 1)
	if again == nil || again.Ordinal != closed.Ordinal || partial != nil {
		f.t.Fatalf("a closed step resumes with %v, %v", again, partial)
	}
	if entries := f.check(); len(entries) != 2 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
}

// partialSurvivesFaults lets each call of the store fail, executed and not, while an answer is kept piece by piece.
func partialSurvivesFaults(f *fixture) {
	const whole = "abcdefgh"
	for _, executed := range []bool{false, true} {
		for index := 0; ; index++ {
			f := f.another()
			store := Wrap(f.store)
			log := journal.New(store, journal.Options{})
			failed := false
			store.Intercept(func(c Call) Fault {
				if c.Index != index {
					return Fault{}
				}
				failed = true
				if executed {
					return Fault{After: Fail}
				}
				return Fault{Before: Fail}
			})
			of := turn("a")
			for offset := range int64(len(whole)) {
				piece := text("x", offset, whole[offset:offset+1])
				for try := 0; ; try++ {
					_, err := log.KeepPartial(f.t.Context(), f.session, of, 1, 1, piece)
					if err == nil {
						break
					}
					if try > 0 || !errors.Is(err, ErrInjected) {
						f.t.Fatal(err)
					}
				}
			}
			_, partial := f.resume(of, 1, 1)
			f.same(fmt.Sprintf("what was kept with call %d failing", index), partial, &journal.Partial{Message: "x", Model: "m", Text: whole})
			if entries := f.check(); len(entries) != len(whole) {
				f.t.Fatalf("there are %d entries", len(entries))
			}
			if !failed {
				break
			}
		}
	}
}

func partialMustFit(f *fixture) {
	of := turn("a")
	if _, err := f.log().KeepPartial(f.t.Context(), f.session, of, 1, 1, text("", 0, "a")); err == nil {
		f.t.Fatal("a piece of no message is kept")
	}
	f.keep(f.log(), of, 1, text("x", 0, strings.Repeat("\x00", 64<<10)))
	if _, err := f.log().KeepPartial(f.t.Context(), f.session, of, 1, 1, text("y", 0, strings.Repeat("a", journal.MaxEntryBytes))); !errors.Is(err, journal.ErrTooLarge) {
		f.t.Fatalf("a piece that no entry holds is refused with %v", err)
	}
	f.session.Limit = f.view(f.log(), 0).Bytes + 100
	if _, err := f.log().KeepPartial(f.t.Context(), f.session, of, 1, 1, text("y", 0, "a")); !errors.Is(err, journal.ErrFull) {
		f.t.Fatalf("a piece that the log has no room for is refused with %v", err)
	}
	f.check()
}
