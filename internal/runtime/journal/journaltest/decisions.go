package journaltest

import (
	"errors"
	"sync/atomic"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// approval is that of call 1-0.
func approval() journal.SettledCall {
	return journal.SettledCall{ID: "1-0", Source: "source", Decision: v1alpha1.DecisionApprove, By: "ann@example.org"}
}

// approvalTakenIn closes a step as a process would for which the approval has timed out, when another process has
// appended the approval.
func approvalTakenIn(f *fixture) {
	ctx, of := f.t.Context(), turn("a")
	stale := f.log()
	f.settle(stale, of, 1, result("1-1", "known"))
	ref := f.settle(f.log(), of, 1, approval())
	rejected, closed, err := f.log().
		Settle(ctx, f.session, of, 1, 1, journal.SettledCall{ID: "1-0", Decision: v1alpha1.DecisionReject})
	if err != nil || closed != nil || rejected.Ordinal != ref.Ordinal ||
		rejected.Call.Decision != v1alpha1.DecisionApprove {
		f.t.Fatalf("a call that is approved is rejected as %s, %v, %v", f.json(rejected), closed, err)
	}
	r := respond(of, 1, 1, "it was not approved in time")
	r.Parts = []int64{1}
	if _, err := stale.Append(ctx, f.session, r); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("a record without a recorded approval returned %v", err)
	}
	if _, err := stale.Append(ctx, f.session, cancel(of, 1, 1)); !errors.Is(err, journal.ErrStale) {
		f.t.Fatalf("the end of a Turn without a recorded approval returned %v", err)
	}
	r.Parts = []int64{1, ref.Ordinal}
	end := f.append(stale, r)
	for what, settled := range map[string][]journal.SettledRef{
		"that was written": end.Settled, "that was read": f.reread(end).Settled,
	} {
		if len(settled) != 2 {
			f.t.Fatalf("the record %s has the settled calls %s", what, f.json(settled))
		}
		f.same("the approval of the record "+what, settled[1].Call, approval())
	}
	f.check()
}

// approvalTakenInByTheEnd ends a Turn whose step has an approval and a result.
func approvalTakenInByTheEnd(f *fixture) {
	of := turn("a")
	given := f.settle(f.log(), of, 1, result("1-1", "given"))
	ref := f.settle(f.log(), of, 1, approval())
	end := cancel(of, 1, 1)
	end.Parts = []int64{given.Ordinal, ref.Ordinal}
	closed := f.append(f.log(), end)
	f.same("the settled calls of the end", ordinals(closed.Settled), end.Parts)
	f.same("the settled calls that were read", ordinals(f.reread(closed).Settled), end.Parts)
	f.check()
}

// approvalRaces approves a call while others end its step without knowing of it: either the step is closed and there is
// no approval, or there is one and no process has closed the step.
func approvalRaces(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		var approved, ended atomic.Int32
		together(func(i int) {
			if i%2 == 0 {
				ref, closed, err := logs[i].Settle(deadline(f.t), f.session, turn("a"), 1, 1, approval())
				if err != nil || (ref.Ordinal == 0) != (closed != nil) {
					f.t.Errorf("approving gives %v, %v, %v", ref, closed, err)
				}
				if ref.Ordinal != 0 {
					approved.Add(1)
				}
				return
			}
			_, err := logs[i].Append(deadline(f.t), f.session, respond(turn("a"), 1, 1, "it was not approved in time"))
			if err != nil && !errors.Is(err, journal.ErrStale) {
				f.t.Errorf("closing returned %v", err)
			}
			if err == nil {
				ended.Add(1)
			}
		})
		if (approved.Load() == 0) == (ended.Load() == 0) {
			f.t.Fatalf("%d have approved the call, %d have closed the step", approved.Load(), ended.Load())
		}
		if entries := f.check(); len(entries) != 1 {
			f.t.Fatalf("there are %d entries", len(entries))
		}
	}
}
