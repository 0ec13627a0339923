package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Settle records the result of one call, of a client tool (CLIENT-04) or of a claimed call (DUR-02), unless there is
// one already, which it then returns as adopted, or the step is closed, which it then returns too. For a closed step
// the reference is set only if the record that closed it includes the call's result. The error is ErrFull, ErrTooLarge
// (a result of up to 64 KiB always fits), or the error of the store; calling Settle again is safe.
func (l *Log) Settle(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, call v1alpha1.SettledCall,
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
	e, err := w.write(ctx, v1alpha1.JournalEntrySpec{Settled: &call}, remainder{}, wanted)
	if err != nil {
		return SettledRef{}, nil, fmt.Errorf("settling call %s: %w", call.ID, err)
	}
	if e != nil {
		return SettledRef{Ordinal: e.spec.Ordinal, Call: call}, nil, w.took(ctx, e)
	}
	// A result that was found among the entries known so far does not exclude later entries.
	if err := w.toEnd(ctx); err != nil {
		return SettledRef{}, nil, err
	}
	var ref SettledRef
	for _, counted := range w.counted() {
		if sameSlot(counted.Call, call) {
			ref = counted
		}
	}
	if w.final == nil {
		return ref, nil, nil
	}
	closed, err := w.outcome(ctx)
	return ref, closed, err
}

// canonicalCall returns a settled call in the form in which it is read back.
func canonicalCall(call v1alpha1.SettledCall) (v1alpha1.SettledCall, error) {
	if call.ID == "" {
		return call, fmt.Errorf("a settled call needs an id")
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return call, fmt.Errorf("encoding the result of call %s: %w", call.ID, err)
	}
	var same v1alpha1.SettledCall
	if err := json.Unmarshal(raw, &same); err != nil {
		return call, fmt.Errorf("reading back the result of call %s: %w", call.ID, err)
	}
	return same, nil
}
