package journaltest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// claim claims a call of an open step and fails the test if that is not possible.
func (f *fixture) claim(log *journal.Log, of journal.Turn, openedAt int64, id, holder string) journal.ClaimRef {
	f.t.Helper()
	ref, closed, err := log.Claim(f.t.Context(), f.session, of, 1, openedAt, journal.ClaimedCall{ID: id, Holder: holder})
	if err != nil || closed != nil || ref.Ordinal == 0 {
		f.t.Fatalf("claiming call %s gives %v, %v, %v", id, ref, closed, err)
	}
	return ref
}

func claimedOnce(f *fixture) {
	ctx, of := f.t.Context(), turn("a")
	f.fill(62)
	log := f.log()
	first := f.claim(log, of, 63, "1-0", "ann")
	again := f.claim(log, of, 63, "1-0", "ann")
	second := f.claim(f.log(), of, 63, "1-0", "bob")
	other := f.claim(f.log(), of, 63, "1-1", "bob")
	if first.Call.Holder != "ann" || !reflect.DeepEqual(again, first) || !reflect.DeepEqual(second, first) ||
		other.Ordinal != 65 || other.Call.Holder != "bob" {
		f.t.Fatalf("claimed as %s, %s, %s, %s", f.json(first), f.json(again), f.json(second), f.json(other))
	}
	settled := f.settle(log, of, 63, result("1-0", "done"))
	if late := f.claim(
		f.log(),
		of,
		63,
		"1-0",
		"bob",
	); late.Ordinal != first.Ordinal || late.Settled.Ordinal != settled.Ordinal ||
		*late.Settled.Call.Result != "done" {
		f.t.Fatalf("a claim that has led to a result is %s", f.json(late))
	}
	claims, err := f.log().Claims(ctx, f.session, of.UID, 1, 63)
	if err != nil || len(claims) != 2 || claims[0].Settled.Ordinal != settled.Ordinal || claims[1].Settled.Ordinal != 0 {
		f.t.Fatalf("the claims are %s, %v", f.json(claims), err)
	}
	for name, of := range map[string]journal.Turn{"another step": of, "another Turn": turn("b")} {
		step := int32(1)
		if of == turn("a") {
			step = 2
		}
		if claims, err := f.log().Claims(ctx, f.session, of.UID, step, 63); err != nil || len(claims) > 0 {
			f.t.Fatalf("%s has the claims %v, %v", name, claims, err)
		}
	}
	r := respond(of, 1, 63, "done")
	r.Parts = []int64{settled.Ordinal}
	closed := f.append(f.log(), r)
	for _, l := range []*journal.Log{log, f.log()} {
		ref, end, err := l.Claim(ctx, f.session, of, 1, 63, journal.ClaimedCall{ID: "1-2", Holder: "ann"})
		if err != nil || ref.Ordinal != 0 || end == nil || end.Ordinal != closed.Ordinal {
			f.t.Fatalf("claiming a call of a closed step gives %v, %v, %v", ref, end, err)
		}
	}
	f.check()
}

func taskOfClaim(f *fixture) {
	ctx, of := f.t.Context(), turn("a")
	claim := f.claim(f.log(), of, 1, "1-0", "ann")
	keep := func(holder, task string) {
		f.t.Helper()
		made := journal.ClaimedCall{ID: "1-0", Holder: holder, Task: task}
		if closed, err := f.log().KeepTask(ctx, f.session, of, 1, 1, made); err != nil || closed != nil {
			f.t.Fatalf("recording a task gives %v, %v", closed, err)
		}
	}
	keep("bob", "task-0") // It has not claimed the call.
	keep("ann", "task-1")
	keep("ann", "task-2")
	late := f.claim(f.log(), of, 1, "1-0", "bob")
	if late.Ordinal != claim.Ordinal || late.Call.Holder != "ann" || late.Call.Task != "task-1" {
		f.t.Fatalf("the claim is %s", f.json(late))
	}
	if _, err := f.log().KeepTask(ctx, f.session, of, 1, 1, journal.ClaimedCall{ID: "1-0", Holder: "ann"}); err == nil {
		f.t.Fatal("a task without an id is recorded")
	}
	f.check()
}

// firstClaimCounts appends a second claim of a call, which no writer of this package does.
func firstClaimCounts(f *fixture) {
	of := turn("a")
	first := f.claim(f.log(), of, 1, "1-0", "ann")
	e := &journal.Entry{
		Session: f.session.Name,
		Ordinal: 2,
		Time:    event.MicroTime(time.Now()),
		Turn:    &of,
		Step:    1,
		Claimed: &journal.ClaimedCall{ID: "1-0", Holder: "bob"},
	}
	if err := f.create(e); err != nil {
		f.t.Fatal(err)
	}
	if ref := f.claim(f.log(), of, 1, "1-0", "bob"); !reflect.DeepEqual(ref, first) {
		f.t.Fatalf("the claim that counts is %s", f.json(ref))
	}
	claims, err := f.log().Claims(f.t.Context(), f.session, of.UID, 1, 1)
	if err != nil || len(claims) != 1 || !reflect.DeepEqual(claims[0], first) {
		f.t.Fatalf("the claims are %s, %v", f.json(claims), err)
	}
	f.check()
}

func claimedConcurrently(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		var mu sync.Mutex
		holders := map[string]map[string]bool{}
		won := map[string]int{}
		together(func(i int) {
			me := fmt.Sprintf("holder-%d", i)
			for n := range 3 {
				id := fmt.Sprintf("1-%d", n)
				ref, closed, err := logs[i].Claim(
					deadline(f.t),
					f.session,
					turn("a"),
					1,
					1,
					journal.ClaimedCall{ID: id, Holder: me},
				)
				if err != nil || closed != nil || ref.Ordinal == 0 {
					f.t.Errorf("claiming gives %v, %v, %v", ref, closed, err)
					return
				}
				mu.Lock()
				if holders[id] == nil {
					holders[id] = map[string]bool{}
				}
				holders[id][ref.Call.Holder] = true
				if ref.Call.Holder == me {
					won[id]++
				}
				mu.Unlock()
			}
		})
		f.same("how many may start each call", won, map[string]int{"1-0": 1, "1-1": 1, "1-2": 1})
		for id, of := range holders {
			if len(of) != 1 {
				f.t.Fatalf("the holders of call %s are %v", id, of)
			}
		}
		if entries := f.check(); len(entries) != 3 {
			f.t.Fatalf("there are %d entries", len(entries))
		}
	}
}

// unclaimedRecord verifies that no record can report a claimed call as never started.
func unclaimedRecord(f *fixture) {
	of := turn("a")
	for _, closing := range []bool{true, false} {
		f := f.another()
		log := f.log()
		f.claim(log, of, 1, "1-1", "ann")
		r := respond(of, 1, 1, "done")
		r.Closing, r.Unclaimed = closing, []string{"1-0"}
		f.claim(f.log(), of, 1, "1-0", "bob")
		if _, err := log.Append(f.t.Context(), f.session, r); !errors.Is(err, journal.ErrStale) {
			f.t.Fatalf("a record (closing %v) that does not know of a claim returned %v", closing, err)
		}
		r.Unclaimed = []string{"1-2"}
		if closed := f.append(log, r); closed.Adopted || closed.Ordinal != 3 {
			f.t.Fatalf("the step was closed at %d, adopted %v", closed.Ordinal, closed.Adopted)
		}
		f.check()
	}
}
