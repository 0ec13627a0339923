package journal

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Claim records that the holder is about to start a call (DUR-01), in every host (DUR-04), unless another process has
// claimed it before, whose claim it then returns, or the step is closed, which it then returns too. Only the holder of
// the returned claim may start the call, once. The error is ErrFull, or the error of the store; calling Claim again,
// with the same holder, is safe.
func (l *Log) Claim(
	ctx context.Context,
	s Session,
	turn Turn,
	step int32,
	openedAt int64,
	call ClaimedCall,
) (ClaimRef, *Closed, error) {
	if call.ID == "" || call.Holder == "" {
		return ClaimRef{}, nil, fmt.Errorf("a claim needs the id of a call and a holder")
	}
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return ClaimRef{}, nil, err
	}
	wanted := func() (bool, error) { return w.claim(call.ID, call.Round).Ordinal == 0, nil }
	e, err := w.write(ctx, Entry{Claimed: &call}, remainder{}, wanted)
	if err != nil {
		return ClaimRef{}, nil, fmt.Errorf("claiming call %s: %w", call.ID, err)
	}
	if e != nil {
		return ClaimRef{Ordinal: e.spec.Ordinal, Call: call}, nil, w.foldOwn(ctx, e)
	}
	// A claim that was found among the entries known so far does not exclude later entries.
	if err := w.toEnd(ctx); err != nil {
		return ClaimRef{}, nil, err
	}
	if w.final == nil {
		return w.claim(call.ID, call.Round), nil, nil
	}
	closed, err := w.outcome(ctx)
	return w.claim(call.ID, call.Round), closed, err
}

// KeepTask records the task that a claimed call has become, by the holder of the claim. It returns the entry that has
// closed the step meanwhile, if there is one. Calling it again is safe.
func (l *Log) KeepTask(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, call ClaimedCall,
) (*Closed, error) {
	if call.ID == "" || call.Holder == "" || call.Task == "" {
		return nil, fmt.Errorf("a task needs the id of a call, the holder of its claim, and an id")
	}
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return nil, err
	}
	wanted := func() (bool, error) {
		claimed := w.claim(call.ID, call.Round).Call
		return claimed.Holder == call.Holder && claimed.Task == "", nil
	}
	e, err := w.write(ctx, Entry{Claimed: &call}, remainder{}, wanted)
	if err != nil {
		return nil, fmt.Errorf("recording the task of call %s: %w", call.ID, err)
	}
	if e != nil {
		return nil, w.foldOwn(ctx, e)
	}
	if err := w.toEnd(ctx); err != nil || w.final == nil {
		return nil, err
	}
	return w.outcome(ctx)
}

// claim is the claim of a request of a call that counts: the first.
func (w *walk) claim(id string, round int32) ClaimRef {
	for _, ref := range w.claims {
		if ref.Call.ID == id && ref.Call.Round == round {
			ref.Settled = w.settledCall(SettledCall{ID: id})
			ref.Asked = w.settledCall(SettledCall{ID: id, Asked: &AskedInput{Round: round + 1}})
			return ref
		}
	}
	return ClaimRef{}
}

// Claims returns the claims of a step's calls, in the order of the journal, with their results. While the step is open
// it always reads the store's first free ordinal.
func (l *Log) Claims(ctx context.Context, s Session, turn types.UID, step int32, openedAt int64) ([]ClaimRef, error) {
	w := l.walk(s, turn, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, err
	}
	var refs []ClaimRef
	for _, ref := range w.claims {
		refs = append(refs, w.claim(ref.Call.ID, ref.Call.Round))
	}
	return refs, nil
}
