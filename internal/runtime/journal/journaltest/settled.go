package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

func result(id, text string) journal.SettledCall {
	return journal.SettledCall{ID: id, Source: "source", Result: &text}
}

// settle settles a call of an open step and fails the test if that is not possible.
func (f *fixture) settle(
	log *journal.Log,
	of journal.Turn,
	openedAt int64,
	call journal.SettledCall,
) journal.SettledRef {
	f.t.Helper()
	ref, closed, err := log.Settle(f.t.Context(), f.session, of, 1, openedAt, call)
	if err != nil || closed != nil || ref.Ordinal == 0 {
		f.t.Fatalf("settling call %s gives %v, %v, %v", call.ID, ref, closed, err)
	}
	return ref
}

func settledOnce(f *fixture) {
	ctx, of := f.t.Context(), turn("a")
	f.fill(62)
	first := f.settle(f.log(), of, 63, result("1-0", "first"))
	second := f.settle(f.log(), of, 63, result("1-0", "second"))
	other := f.settle(f.log(), of, 63, journal.SettledCall{ID: "1-1", Error: ptr("failed\xff")})
	if first.Adopted || !second.Adopted || second.Ordinal != first.Ordinal || *second.Call.Result != "first" ||
		other.Adopted ||
		other.Ordinal != 65 {
		f.t.Fatalf("settled as %s, %s, %s", f.json(first), f.json(second), f.json(other))
	}
	for _, log := range []*journal.Log{f.log(), f.log()} {
		settled, err := log.Settled(ctx, f.session, of.UID, 1, 63)
		if err != nil {
			f.t.Fatal(err)
		}
		f.same("the settled calls", ordinals(settled), []int64{63, 65})
	}
	for name, uid := range map[string]journal.Turn{"another step": of, "another Turn": turn("b")} {
		step := int32(1)
		if uid == of {
			step = 2
		}
		settled, err := f.log().Settled(ctx, f.session, uid.UID, step, 63)
		if err != nil || len(settled) > 0 {
			f.t.Fatalf("%s has the settled calls %v, %v", name, settled, err)
		}
	}
	r := respond(of, 1, 63, "done")
	r.Parts = []int64{65, 63}
	closed := f.append(f.log(), r)
	f.same("the settled calls of the record", ordinals(closed.Settled), []int64{63, 65})
	f.same("the settled calls that were read", ordinals(f.reread(closed).Settled), []int64{63, 65})
	settled, err := f.log().Settled(ctx, f.session, of.UID, 1, 63)
	if err != nil {
		f.t.Fatal(err)
	}
	f.same("the settled calls of the closed step", ordinals(settled), []int64{63, 65})
	f.check()
}

// firstResultCounts appends a second result of a call, which no writer of this package does.
func firstResultCounts(f *fixture) {
	of := turn("a")
	first := f.settle(f.log(), of, 1, result("1-0", "first"))
	second := result("1-0", "second")
	e := &journal.Entry{
		Session: f.session.Name,
		Ordinal: 2,
		Time:    event.MicroTime(time.Now()),
		Turn:    &of,
		Step:    1,
		Settled: &second,
	}
	if err := f.create(e); err != nil {
		f.t.Fatal(err)
	}
	settled, err := f.log().Settled(f.t.Context(), f.session, of.UID, 1, 1)
	if err != nil || len(settled) != 1 || settled[0].Ordinal != first.Ordinal || *settled[0].Call.Result != "first" {
		f.t.Fatalf("the settled calls are %s, %v", f.json(settled), err)
	}
	r := respond(of, 1, 1, "done")
	r.Parts = []int64{first.Ordinal}
	if closed := f.append(f.log(), r); closed.Adopted || closed.Ordinal != 3 {
		f.t.Fatalf("the step was closed at %d, adopted %v", closed.Ordinal, closed.Adopted)
	}
	f.check()
}

func settledConcurrently(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		var mu sync.Mutex
		own := map[string]int{}
		at := map[string]int64{}
		together(func(i int) {
			for n := range 3 {
				call := result(fmt.Sprintf("1-%d", n), fmt.Sprintf("from %d", i))
				ref, closed, err := logs[i].Settle(deadline(f.t), f.session, turn("a"), 1, 1, call)
				if err != nil || closed != nil || ref.Ordinal == 0 {
					f.t.Errorf("settling gives %v, %v, %v", ref, closed, err)
					return
				}
				mu.Lock()
				if !ref.Adopted {
					own[call.ID]++
				}
				if before := at[call.ID]; before != 0 && before != ref.Ordinal {
					f.t.Errorf("call %s is settled at ordinal %d for one writer and at %d for another", call.ID, before, ref.Ordinal)
				}
				at[call.ID] = ref.Ordinal
				mu.Unlock()
			}
		})
		f.same("who settled what", own, map[string]int{"1-0": 1, "1-1": 1, "1-2": 1})
		if entries := f.check(); len(entries) != 3 {
			f.t.Fatalf("there are %d entries", len(entries))
		}
	}
}

func settledLate(f *fixture) {
	ctx, of, log := f.t.Context(), turn("a"), f.log()
	known := f.settle(log, of, 1, result("1-0", "in time"))
	r := respond(of, 1, 1, "done")
	r.Parts = []int64{known.Ordinal}
	closed := f.append(f.log(), r)
	again, end, err := log.Settle(ctx, f.session, of, 1, 1, result("1-0", "again"))
	if err != nil || again.Ordinal != known.Ordinal || end == nil || end.Ordinal != closed.Ordinal {
		f.t.Fatalf("settling again, when another Log has closed the step since, gives %v, %v, %v", again, end, err)
	}
	for _, l := range []*journal.Log{log, f.log()} {
		ref, end, err := l.Settle(ctx, f.session, of, 1, 1, result("1-1", "late"))
		if err != nil || ref.Ordinal != 0 || end == nil || end.Ordinal != closed.Ordinal {
			f.t.Fatalf("settling a call of a closed step gives %v, %v, %v", ref, end, err)
		}
		ref, end, err = l.Settle(ctx, f.session, of, 1, 1, result("1-0", "again"))
		if err != nil || ref.Ordinal != known.Ordinal || *ref.Call.Result != "in time" || end == nil {
			f.t.Fatalf("settling a call of a closed step again returned %v, %v, %v", ref, end, err)
		}
	}
	if entries := f.check(); len(entries) != 2 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
}

func staleRecord(f *fixture) {
	ctx, of := f.t.Context(), turn("a")
	log := f.log()
	first := f.settle(log, of, 1, result("1-0", "known"))
	r := respond(of, 1, 1, "done", noise(1, 600_000))
	r.Parts = []int64{first.Ordinal}
	second := f.settle(f.log(), of, 1, result("1-1", "came in"))
	if _, err := log.Append(ctx, f.session, r); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("a record without a settled result returned %v", err)
	}
	// The end of a Turn is no exception: it must not contradict the journal.
	end := cancel(of, 1, 1)
	end.Parts = []int64{first.Ordinal}
	other := f.another()
	if _, err := log.Append(ctx, f.session, end); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("the end of a Turn without a settled result returned %v", err)
	}
	end.Parts = []int64{first.Ordinal, second.Ordinal}
	if closed := f.append(log, end); closed.Adopted {
		f.t.Fatal("a closing record was not written")
	}
	settled, err := f.log().Settled(ctx, f.session, of.UID, 1, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	f.same("the calls that count", ordinals(settled), end.Parts)
	ref, closed, err := f.log().Settle(ctx, f.session, of, 1, 1, result("1-1", "again"))
	if err != nil || ref.Ordinal != second.Ordinal || closed == nil {
		f.t.Fatalf("a result that the end includes is settled as %v, %v, %v", ref, closed, err)
	}
	f.check()

	known := other.settle(other.log(), of, 1, result("1-0", "known"))
	came := other.settle(other.log(), of, 1, result("1-1", "came in"))
	r.Parts = []int64{known.Ordinal, came.Ordinal}
	if closed := other.append(other.log(), r); closed.Adopted || len(closed.Settled) != 2 {
		f.t.Fatalf("the record with every result was closed as %s", shorten(f.json(closed)))
	}
	other.check()
}

// recordOfAnother closes a step with a result that another process has written since this one last wrote.
func recordOfAnother(f *fixture) {
	of, log := turn("a"), f.log()
	first := f.settle(log, of, 1, result("1-0", "by this one"))
	second := f.settle(f.log(), of, 1, result("1-1", "by another one"))
	end := cancel(of, 1, 1)
	end.Parts = []int64{first.Ordinal, second.Ordinal}
	if closed := f.append(log, end); closed.Adopted || len(closed.Settled) != 2 {
		f.t.Fatalf("the record with a result of another process was closed as %s", shorten(f.json(closed)))
	}
	f.check()
}

func settledTooLarge(f *fixture) {
	fits := strings.Repeat("\u0001", 64*1024)
	f.settle(f.log(), turn("a"), 1, result("1-0", fits))
	_, _, err := f.log().
		Settle(f.t.Context(), f.session, turn("a"), 1, 1, result("1-1", strings.Repeat("\u0001", 100*1024)))
	if !errors.Is(err, journal.ErrTooLarge) {
		f.t.Fatalf("a result as large as an entry returned %v", err)
	}
	f.check()
}
