package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Outcomes of calls stay in memory until their step closes, in no share of their namespace. A Turn that waits holds
// none: the journal has them, in one part. A Turn whose own calls run on holds a slot, and at most this much: slots are
// bounded, and parts cost writes.
const (
	// fewHeldBytes is the text that a Turn with running calls may hold for as long as they run.
	fewHeldBytes = 16 << 10
	// manyHeldBytes is the text that it may hold while calls settle, one after another.
	manyHeldBytes = 256 << 10
	// holdFew and holdMany are how long it holds more than that after the last call has settled.
	holdFew, holdMany = 10 * time.Second, time.Second
)

// KeepAt returns when outcomes are to be appended to the journal that only memory has, of a Turn that does not wait for
// others; zero for not before the step closes. last is when the last of them was settled.
func KeepAt(bytes int64, last time.Time) time.Time {
	switch {
	case bytes > manyHeldBytes:
		return last.Add(holdMany)
	case bytes > fewHeldBytes:
		return last.Add(holdFew)
	default:
		return time.Time{}
	}
}

// Held returns the number of outcomes that only memory has, of calls that the manager carried out, and the bytes of all
// texts that are in memory.
func (r ActResults) Held(t Turn) (calls int, bytes int64) {
	for _, call := range t.Progress.ToolCalls {
		outcome, ok := r.Outcomes[call.ID]
		if !ok || r.Dropped[call.ID] {
			continue
		}
		bytes += int64(len(outcome.Error))
		if outcome.Result != nil {
			bytes += int64(len(*outcome.Result))
		}
		if r.keepable(t, call) {
			calls++
		}
	}
	return calls, bytes
}

// Reproducible returns the calls whose outcomes only memory has and that can be produced again: a Job is observed
// again, and a request is sent again that may be.
func (r ActResults) Reproducible(t Turn) []string {
	var ids []string
	for _, call := range t.Progress.ToolCalls {
		if _, ok := r.Outcomes[call.ID]; ok && r.keepable(t, call) && !t.claimable(call) {
			ids = append(ids, call.ID)
		}
	}
	return ids
}

// keepable reports whether the outcome of a call can be appended to the journal before its step closes. A call that was
// not executed is not among them: another process may still start it until the status has its withdrawal. Nor is a
// claim without a result: its holder may still append one.
func (r ActResults) keepable(t Turn, call v1alpha1.ToolCall) bool {
	if call.Executor != v1alpha1.ToolExecutorJob && call.Executor != v1alpha1.ToolExecutorHTTP {
		return false
	}
	if _, kept := r.Kept[call.ID]; kept {
		return false
	}
	switch r.Outcomes[call.ID].State {
	case v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateFailed:
		return true
	case v1alpha1.ToolCallStateUnknown:
		return !t.claimable(call)
	default:
		return false
	}
}

// KeepOutcomes appends the outcomes to the journal that only memory has, in one part where they fit, and drops the
// texts of all outcomes that the journal has from the given results. It returns the closing entry if the step is
// closed, or if the Turn ends here because the journal has no room. After an error the results are as before.
func (h *Host) KeepOutcomes(ctx context.Context, t Turn, known ActResults) (*journal.Closed, error) {
	var calls []journal.SettledCall
	for _, call := range t.Progress.ToolCalls {
		if known.keepable(t, call) {
			kept := keptCall(call.ID, known.Outcomes[call.ID])
			kept.PodUID = call.PodUID
			calls = append(calls, kept)
		}
	}
	if len(calls) > 0 {
		refs, closed, err := h.Log.SettleAll(ctx, t.Session, t.Ref, t.step(), t.Progress.Plan.OpenedAt, calls)
		switch {
		case errors.Is(err, journal.ErrFull):
			return h.full(ctx, t, known, err)
		case err != nil:
			return nil, fmt.Errorf("keeping the outcomes of %d calls: %w", len(calls), err)
		case closed != nil:
			return closed, nil
		}
		known.Adopt(refs)
	}
	known.Drop()
	return nil, nil
}

// Adopt replaces outcomes by those in the journal, without their texts. Results of clients and decisions stay.
func (r ActResults) Adopt(refs []journal.SettledRef) {
	for _, ref := range refs {
		if !GivenByOthers(ref.Call) {
			r.Outcomes[ref.Call.ID] = KeptOutcome(ref.Call)
			r.dropText(r.Kept, ref)
		}
	}
}

// Drop drops the texts of the outcomes that the journal has. Act reads them again, as does every end of the Turn.
func (r ActResults) Drop() {
	for id, ref := range r.Kept {
		if !r.Dropped[id] {
			r.dropText(r.Kept, ref)
		}
	}
	for id, ref := range r.Settled {
		if !r.Dropped[id] && ref.Call.Decision == "" {
			r.dropText(r.Settled, ref)
		}
	}
}

// dropText leaves of an outcome what the status shows of it.
func (r ActResults) dropText(in map[string]journal.SettledRef, ref journal.SettledRef) {
	call := ref.Call
	call.Result, call.Error = nil, nil
	in[call.ID] = journal.SettledRef{Ordinal: ref.Ordinal, Call: call, Adopted: ref.Adopted}
	r.Outcomes[call.ID] = shortened(r.Outcomes[call.ID])
	r.Dropped[call.ID] = true
}

// shortened is an outcome with the start of its texts.
func shortened(outcome tool.Outcome) tool.Outcome {
	if outcome.Result != nil {
		text := tool.Preview(*outcome.Result)
		outcome.Result = &text
	}
	outcome.Error = tool.Preview(outcome.Error)
	return outcome
}

// showKept shows the end of a call in its status. The pod that it ran in may be known from the journal alone.
func (r ActResults) showKept(call *v1alpha1.ToolCall) {
	Describe(call, r.Outcomes[call.ID])
	if pod := r.Kept[call.ID].Call.PodUID; call.PodUID == "" {
		call.PodUID = pod
	}
}

// restore reads the texts again that were dropped. It returns the closing entry instead if the step is closed.
func (h *Host) restore(ctx context.Context, t Turn, results ActResults) (ActResults, *journal.Closed, error) {
	if len(results.Dropped) == 0 {
		return results, nil, nil
	}
	closed, refs, err := h.Log.FindSettled(ctx, t.Session, t.Ref.UID, t.step(), t.Progress.Plan.OpenedAt)
	if err != nil {
		return results, nil, fmt.Errorf("reading the outcomes of step %d of Turn %s: %w", t.step(), t.Ref.Name, err)
	}
	if closed != nil {
		return results, closed, nil
	}
	results.Outcomes = cloned(results.Outcomes)
	restored := 0
	for _, ref := range refs {
		if results.Dropped[ref.Call.ID] && ref.Call.Decision == "" {
			results.Outcomes[ref.Call.ID] = KeptOutcome(ref.Call)
			restored++
		}
	}
	if restored != len(results.Dropped) {
		return results, nil, fmt.Errorf("%w: the journal has the outcomes of %d calls of step %d of Turn %s, not of %d",
			journal.ErrCorrupt, restored, t.step(), t.Ref.Name, len(results.Dropped))
	}
	return results, nil, nil
}
