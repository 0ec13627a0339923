package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Settle records the result of one call, of a client tool (CLIENT-04) or of a claimed call (DUR-02), unless there is
// one already, which it then returns as adopted, or the step is closed, which it then returns too. For a closed step
// the reference is set only if the record that closed it includes the call's result. The error is ErrFull, ErrTooLarge
// (a result of up to 64 KiB always fits), or the error of the store; calling Settle again is safe.
func (l *Log) Settle(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, call SettledCall,
) (SettledRef, *Closed, error) {
	call, err := canonicalCall(call)
	if err != nil {
		return SettledRef{}, nil, err
	}
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return SettledRef{}, nil, err
	}
	wanted := func() (bool, error) { return w.settledCall(call).Ordinal == 0, nil }
	e, err := w.write(ctx, Entry{Settled: &call}, remainder{}, wanted)
	if err != nil {
		return SettledRef{}, nil, fmt.Errorf("settling call %s: %w", call.ID, err)
	}
	if e != nil {
		return SettledRef{Ordinal: e.spec.Ordinal, Call: call}, nil, w.foldOwn(ctx, e)
	}
	// A result that was found among the entries known so far does not exclude later entries.
	if err := w.toEnd(ctx); err != nil {
		return SettledRef{}, nil, err
	}
	ref := slotOf(w.counted(), call)
	if w.final == nil {
		return ref, nil, nil
	}
	closed, err := w.outcome(ctx)
	return ref, closed, err
}

// SettleAll records the outcomes of calls that the manager carried out, as Settle does for one, in as few parts as hold
// them. It returns where the journal has each of them, in the order of the calls; the first outcome of a call counts,
// whichever writer recorded it. For a closed step only the outcomes that its record includes have an ordinal. After
// ErrFull nothing of it is written, unless another process has used up the room meanwhile; calling SettleAll again is
// safe.
func (l *Log) SettleAll(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, calls []SettledCall,
) ([]SettledRef, *Closed, error) {
	calls = slices.Clone(calls)
	for i := range calls {
		var err error
		if calls[i], err = canonicalCall(calls[i]); err != nil {
			return nil, nil, err
		}
	}
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return nil, nil, err
	}
	own, err := w.settleAll(ctx, calls)
	if err != nil {
		return nil, nil, fmt.Errorf("settling %d calls: %w", len(calls), err)
	}
	refs := make([]SettledRef, len(calls))
	for i, call := range calls {
		refs[i] = slotOf(w.counted(), call)
		refs[i].Adopted = refs[i].Ordinal != 0 && !slices.Contains(own, refs[i].Ordinal)
	}
	if w.final == nil {
		return refs, nil, nil
	}
	closed, err := w.outcome(ctx)
	return refs, closed, err
}

// settleAll writes the calls that are not settled, and reads the entries after that. It returns the ordinals of the
// entries that it wrote.
func (w *writer) settleAll(ctx context.Context, calls []SettledCall) ([]int64, error) {
	known := func(c SettledCall) bool { return w.settledCall(c).Ordinal != 0 }
	calls = slices.DeleteFunc(slices.Clone(calls), known)
	batches, err := w.batches(calls)
	if err != nil {
		return nil, err
	}
	rest := make([]remainder, len(batches)+1) // size of each batch and those after it
	for i := len(batches) - 1; i >= 0; i-- {
		e, err := w.entry(Entry{Outcomes: batches[i]}, w.next)
		if err != nil {
			return nil, err
		}
		rest[i] = remainder{entries: rest[i+1].entries + 1, bytes: rest[i+1].bytes + e.size}
	}
	var own []int64
	wrote := false
	for i, batch := range batches {
		open := func() (bool, error) {
			return slices.ContainsFunc(batch, func(c SettledCall) bool { return !known(c) }), nil
		}
		e, err := w.write(ctx, Entry{Outcomes: batch}, rest[i+1], open)
		if err != nil {
			return nil, err
		}
		if wrote = e != nil; !wrote {
			continue
		}
		own = append(own, e.spec.Ordinal)
		if err := w.foldOwn(ctx, e); err != nil {
			return nil, err
		}
	}
	if wrote {
		return own, w.to(ctx, w.state.at())
	}
	// Results that were found among the entries known so far do not exclude later entries.
	return own, w.toEnd(ctx)
}

// batches distributes calls over parts, in order.
func (w *writer) batches(calls []SettledCall) ([][]SettledCall, error) {
	frame, err := w.frame(Entry{})
	if err != nil {
		return nil, err
	}
	budget := MaxEntryBytes - frame - len(`,"outcomes":[]`)
	var batches [][]SettledCall
	used := 0
	for _, call := range calls {
		size, err := jsonSize(call)
		if err != nil {
			return nil, fmt.Errorf("encoding the outcome of call %s: %w", call.ID, err)
		}
		if size > budget {
			return nil, fmt.Errorf("%w: the outcome of call %s takes %d bytes", ErrTooLarge, call.ID, size)
		}
		if len(batches) == 0 || used+size > budget {
			batches, used = append(batches, nil), 0
		}
		last := len(batches) - 1
		batches[last], used = append(batches[last], call), used+size
	}
	return batches, nil
}

// canonicalCall returns a settled call in the form in which it is read back.
func canonicalCall(call SettledCall) (SettledCall, error) {
	if call.ID == "" {
		return call, fmt.Errorf("a settled call needs an id")
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return call, fmt.Errorf("encoding the result of call %s: %w", call.ID, err)
	}
	var same SettledCall
	if err := json.Unmarshal(raw, &same); err != nil {
		return call, fmt.Errorf("reading back the result of call %s: %w", call.ID, err)
	}
	return same, nil
}
