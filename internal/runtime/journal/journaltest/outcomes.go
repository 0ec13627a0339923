package journaltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// ran is the outcome of a call that the manager carried out.
func ran(id, text string) journal.SettledCall {
	at := event.MicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	return journal.SettledCall{
		ID:         id,
		State:      v1alpha1.ToolCallStateSucceeded,
		Reason:     v1alpha1.ToolCallReasonCompleted,
		Result:     &text,
		StartedAt:  &at,
		FinishedAt: &at,
		Image:      "registry.example/tool@sha256:0123",
		PodUID:     "pod-uid",
	}
}

// ranAll are n such outcomes.
func ranAll(n int, text string) []journal.SettledCall {
	calls := make([]journal.SettledCall, n)
	for i := range calls {
		calls[i] = ran(fmt.Sprintf("1-%d", i), text)
	}
	return calls
}

// settleAll settles calls of an open step and fails the test if that is not possible.
func (f *fixture) settleAll(
	log *journal.Log,
	of journal.Turn,
	openedAt int64,
	calls []journal.SettledCall,
) []journal.SettledRef {
	f.t.Helper()
	refs, closed, err := log.SettleAll(f.t.Context(), f.session, of, 1, openedAt, calls)
	if err != nil || closed != nil || len(refs) != len(calls) {
		f.t.Fatalf("settling %d calls gives %s, %v, %v", len(calls), shorten(f.json(refs)), closed, err)
	}
	for i, ref := range refs {
		if ref.Ordinal == 0 || ref.Call.ID != calls[i].ID {
			f.t.Fatalf("call %s is settled at %d as %s", calls[i].ID, ref.Ordinal, ref.Call.ID)
		}
	}
	return refs
}

// expectSettled expects the outcomes of an open step, and their ordinals, as every reader finds them.
func (f *fixture) expectSettled(of journal.Turn, openedAt int64, want []journal.SettledCall, at ...int64) {
	f.t.Helper()
	settled, err := f.log().Settled(f.t.Context(), f.session, of.UID, 1, openedAt)
	closed, found, findErr := f.log().FindSettled(f.t.Context(), f.session, of.UID, 1, openedAt)
	if err := errors.Join(err, findErr); err != nil || closed != nil {
		f.t.Fatalf("the open step is closed by %v, %v", closed, err)
	}
	f.same("the settled calls", callsOf(settled), want)
	f.same("their ordinals", ordinals(settled), at)
	f.same("the settled calls that were found", found, settled)
}

func callsOf(refs []journal.SettledRef) []journal.SettledCall {
	calls := make([]journal.SettledCall, len(refs))
	for i, ref := range refs {
		calls[i] = ref.Call
	}
	return calls
}

func outcomesTogether(f *fixture) {
	of := turn("a")
	f.fill(62)
	calls := append(
		ranAll(3, "done\xff"),
		journal.SettledCall{ID: "1-3", State: v1alpha1.ToolCallStateFailed, Error: ptr("It broke.")},
	)
	refs := f.settleAll(f.log(), of, 63, calls)
	f.same("the ordinals", ordinals(refs), []int64{63, 63, 63, 63})
	for _, ref := range refs {
		if ref.Adopted {
			f.t.Fatalf("call %s is settled by another writer", ref.Call.ID)
		}
	}
	for i := range calls[:3] {
		calls[i].Result = ptr("done\ufffd")
	}
	f.expectSettled(of, 63, calls, 63, 63, 63, 63)
	for _, again := range f.settleAll(f.log(), of, 63, append(calls, ran("1-4", "late"))) {
		if again.Adopted != (again.Call.ID != "1-4") {
			f.t.Fatalf("call %s is adopted: %v", again.Call.ID, again.Adopted)
		}
	}
	r := respond(of, 1, 63, "done")
	if _, err := f.log().Append(f.t.Context(), f.session, r); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("a record without the outcomes is appended with %v", err)
	}
	// As a host composes it: the ordinal of each call.
	r.Parts = []int64{65, 63, 63, 63, 63}
	closed := f.append(f.log(), r)
	f.same("the settled calls of the record", ordinals(closed.Settled), []int64{63, 63, 63, 63, 65})
	f.same("the settled calls that were read", ordinals(f.reread(closed).Settled), []int64{63, 63, 63, 63, 65})
	if entries := f.check(); len(entries) != 66 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
}

// manyOutcomes settles as many calls as a step may have, each with the longest result, in the worst encoding.
func manyOutcomes(f *fixture) {
	of := turn("a")
	calls := ranAll(64, strings.Repeat("x", 64<<10))
	refs := f.settleAll(f.log(), of, 1, calls)
	f.expectSettled(of, 1, calls, ordinals(refs)...)
	if entries := f.check(); len(entries) > 10 {
		f.t.Fatalf("%d entries for 4 MiB", len(entries))
	}
	worst := []journal.SettledCall{ran("2-0", strings.Repeat("\x01", 64<<10)), ran("2-1", strings.Repeat("\x01", 64<<10))}
	f.settleAll(f.log(), of, 1, worst)
	huge := []journal.SettledCall{ran("2-2", "small"), ran("2-3", strings.Repeat("\x01", 100<<10))}
	before := len(f.entries())
	if _, _, err := f.log().SettleAll(f.t.Context(), f.session, of, 1, 1, huge); !errors.Is(err, journal.ErrTooLarge) {
		f.t.Fatalf("an outcome that no entry holds is settled with %v", err)
	}
	if after := len(f.check()); after != before {
		f.t.Fatalf("%d entries were written beside an outcome that no entry holds", after-before)
	}
}

// firstOutcomeCounts mixes outcomes that are recorded together with those of single calls.
func firstOutcomeCounts(f *fixture) {
	of := turn("a")
	first := f.settle(f.log(), of, 1, ran("1-1", "first"))
	f.settle(f.log(), of, 1, journal.SettledCall{ID: "1-0", Source: "source", Decision: v1alpha1.DecisionApprove})
	refs := f.settleAll(
		f.log(),
		of,
		1,
		[]journal.SettledCall{ran("1-0", "second"), ran("1-1", "second"), ran("1-2", "second")},
	)
	if !refs[1].Adopted || refs[1].Ordinal != first.Ordinal || *refs[1].Call.Result != "first" || refs[0].Adopted ||
		refs[2].Ordinal != 3 {
		f.t.Fatalf("settled as %s", f.json(refs))
	}
	// Another process, which knew of nothing, has written at the same time.
	late := ranAll(4, "third")
	e := &journal.Entry{
		Session:  f.session.Name,
		Ordinal:  4,
		Time:     event.MicroTime(time.Now()),
		Turn:     &of,
		Step:     1,
		Outcomes: late,
	}
	if err := f.create(e); err != nil {
		f.t.Fatal(err)
	}
	if again := f.settle(f.log(), of, 1, ran("1-2", "fourth")); !again.Adopted || *again.Call.Result != "second" {
		f.t.Fatalf("the call is settled as %s", f.json(again))
	}
	want := []journal.SettledCall{
		ran("1-1", "first"),
		{ID: "1-0", Source: "source", Decision: v1alpha1.DecisionApprove},
		ran("1-0", "second"),
		ran("1-2", "second"), ran("1-3", "third"),
	}
	f.expectSettled(of, 1, want, 1, 2, 3, 3, 4)
	end := cancel(of, 1, 1)
	end.Parts = []int64{1, 2, 3, 3, 4}
	closed := f.append(f.log(), end)
	f.same("the settled calls of the end", callsOf(closed.Settled), want)
	f.same("the settled calls that were read", callsOf(f.reread(closed).Settled), want)
	f.check()
}

func outcomesConcurrently(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		var mu sync.Mutex
		texts := map[string]string{}
		together(func(i int) {
			calls := []journal.SettledCall{
				ran(fmt.Sprintf("1-%d", i%3), fmt.Sprintf("from %d", i)),
				ran("1-3", fmt.Sprintf("from %d", i)),
			}
			refs, closed, err := logs[i].SettleAll(deadline(f.t), f.session, turn("a"), 1, 1, calls)
			if err != nil || closed != nil {
				f.t.Errorf("settling gives %v, %v, %v", refs, closed, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, ref := range refs {
				if known, ok := texts[ref.Call.ID]; ok && known != *ref.Call.Result {
					f.t.Errorf("call %s is settled as %q for one writer and as %q for another", ref.Call.ID, known, *ref.Call.Result)
				}
				texts[ref.Call.ID] = *ref.Call.Result
			}
		})
		if len(texts) != 4 {
			f.t.Fatalf("settled are %v", texts)
		}
		f.check()
	}
}

func outcomesLate(f *fixture) {
	of, log := turn("a"), f.log()
	known := f.settleAll(log, of, 1, ranAll(1, "in time"))
	r := respond(of, 1, 1, "done")
	r.Parts = ordinals(known)
	closed := f.append(f.log(), r)
	for _, l := range []*journal.Log{log, f.log()} {
		refs, end, err := l.SettleAll(f.t.Context(), f.session, of, 1, 1, ranAll(2, "late"))
		if err != nil || end == nil || end.Ordinal != closed.Ordinal {
			f.t.Fatalf("settling calls of a closed step gives %v, %v", end, err)
		}
		if refs[0].Ordinal != known[0].Ordinal || *refs[0].Call.Result != "in time" || refs[1].Ordinal != 0 {
			f.t.Fatalf("they are settled as %s", f.json(refs))
		}
		end, refs, err = l.FindSettled(f.t.Context(), f.session, of.UID, 1, 1)
		if err != nil || end == nil || end.Ordinal != closed.Ordinal || len(refs) > 0 {
			f.t.Fatalf("the closed step is found as %v, %v, %v", end, refs, err)
		}
	}
	if entries := f.check(); len(entries) != 2 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
}

// outcomesSurviveFaults makes each call of the store fail, executed and not, while outcomes of two parts are recorded.
func outcomesSurviveFaults(f *fixture) {
	calls := ranAll(10, strings.Repeat("y", 64<<10))
	for _, executed := range []bool{false, true} {
		for index, failed := 0, true; failed; index++ {
			failed = f.another().settlesOver(calls, index, executed)
		}
	}
}

func (f *fixture) settlesOver(calls []journal.SettledCall, index int, executed bool) (failed bool) {
	store := Wrap(f.store)
	store.Intercept(failsFrom(index, 7, executed, &failed))
	of, log := turn("a"), journal.New(store, journal.Options{})
	var refs []journal.SettledRef
	var err error
	for range 10 {
		if refs, _, err = log.SettleAll(f.t.Context(), f.session, of, 1, 1, calls); err == nil {
			break
		}
		if !errors.Is(err, ErrInjected) {
			f.t.Fatal(err)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	store.Intercept(func(Call) Fault { return Fault{} })
	f.expectSettled(of, 1, calls, ordinals(refs)...)
	r := respond(of, 1, 1, "done")
	r.Parts = ordinals(refs)
	f.append(log, r)
	if entries := f.check(); len(entries) != 3 {
		f.t.Fatalf("there are %d entries", len(entries))
	}
	return failed
}

// outcomesMustFit verifies the effect of a Session's limit on recorded outcomes, and on the entry that closes their
// step.
func outcomesMustFit(f *fixture) {
	of, long := turn("a"), strings.Repeat("z", 64<<10)
	calls := ranAll(10, long)
	f.session.Limit = 600 << 10
	if _, _, err := f.log().SettleAll(f.t.Context(), f.session, of, 1, 1, calls); !errors.Is(err, journal.ErrFull) {
		f.t.Fatalf("outcomes that the log has no room for are settled with %v", err)
	}
	if entries := f.entries(); len(entries) > 0 {
		f.t.Fatalf("%d parts of outcomes were written that do not fit", len(entries))
	}
	f.session.Limit = 800 << 10
	refs := f.settleAll(f.log(), of, 1, calls)
	if _, _, err := f.log().
		SettleAll(f.t.Context(), f.session, of, 1, 1, []journal.SettledCall{ran("2-0", long+long+long)}); !errors.Is(
		err,
		journal.ErrFull,
	) {
		f.t.Fatalf("one outcome too many is settled with %v", err)
	}
	// The entry that closes the step has the same texts once more.
	r := respond(of, 1, 1, strings.Repeat("z", 640<<10))
	r.Parts = ordinals(refs)
	f.append(f.log(), r)
	if _, err := f.log().
		Append(f.t.Context(), f.session, respond(turn("b"), 1, 5, "more")); !errors.Is(
		err,
		journal.ErrFull,
	) {
		f.t.Fatalf("the next step is closed with %v", err)
	}
	f.check()
}
