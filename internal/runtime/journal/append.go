package journal

import (
	"context"
	"fmt"
	"slices"
)

// Append closes a step: it writes the record, in parts if it is too large for one entry, or adopts the entry that
// closed the step before. The error is ErrFull, ErrStale, ErrSteered, ErrTooLarge, or the error of the store; after any
// of them the step may be closed nevertheless, and calling Append again is safe.
func (l *Log) Append(ctx context.Context, s Session, r Record) (*Closed, error) {
	r, err := canonical(r)
	if err != nil {
		return nil, fmt.Errorf("closing step %d of Turn %s: %w", r.Step, r.Turn.Name, err)
	}
	w, err := l.writer(ctx, s, r.Turn, r.Step, r.OpenedAt)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.Parts, func(ordinal int64) bool { return ordinal >= w.next }) {
		// The record includes an entry of another writer that this one has not read.
		if err := l.catchUp(ctx, s, w.state, nil); err != nil {
			return nil, err
		}
		if err := w.to(ctx, w.state.at()); err != nil {
			return nil, err
		}
	}
	if w.final != nil {
		return w.outcome(ctx)
	}
	w.bounded, w.forgiving = w.bounded && !r.Closing, true
	specs, err := w.specs(r)
	if err != nil {
		return nil, err
	}
	final, err := w.writeAll(ctx, r, specs)
	if err != nil {
		return nil, err
	}
	if final == nil {
		return w.outcome(ctx)
	}
	return w.finish(r, final)
}

// specs returns the entries that the record takes, the final one last.
func (w *writer) specs(r Record) ([]Entry, error) {
	frame, err := w.frame(Entry{})
	if err != nil {
		return nil, err
	}
	pieces, used, err := split(r.Events, r.Calls, MaxEntryBytes-frame)
	if err != nil {
		return nil, fmt.Errorf("closing step %d of Turn %s: %w", r.Step, r.Turn.Name, err)
	}
	final := Entry{Final: true, Digest: r.Digest, Steered: r.Steered, Context: r.Context, Transition: &r.Transition}
	final.Compaction = r.Compaction
	if frame, err = w.frame(final); err != nil {
		return nil, err
	}
	const perPart = len(`99999999,`)
	frame += perPart * (len(r.Parts) + len(pieces))
	if frame+used > MaxEntryBytes {
		pieces = append(pieces, piece{})
	}
	specs := make([]Entry, len(pieces))
	for i, p := range pieces {
		if i == len(pieces)-1 {
			specs[i] = final
		}
		specs[i].Part, specs[i].Events, specs[i].Calls = int32(i), p.events, p.calls
	}
	return specs, nil
}

// writeAll writes the entries one after another and returns the final one; none if another writer has closed the step.
func (w *writer) writeAll(ctx context.Context, r Record, specs []Entry) (*entry, error) {
	rest := make([]remainder, len(specs)) // size of the entries after each one
	for i := len(specs) - 1; i > 0; i-- {
		e, err := w.entry(specs[i], w.next)
		if err != nil {
			return nil, err
		}
		rest[i-1] = remainder{entries: rest[i].entries + 1, bytes: rest[i].bytes + e.size}
	}
	parts := slices.Clone(r.Parts)
	wanted := func() (bool, error) { return true, w.checkIncludes(r) }
	for i, spec := range specs {
		if spec.Final {
			slices.Sort(parts)
			spec.Parts = slices.Compact(parts) // one part may have the outcomes of several calls
		}
		e, err := w.write(ctx, spec, rest[i], wanted)
		if err != nil || e == nil {
			return nil, err
		}
		if spec.Final {
			return e, nil
		}
		if err := w.foldOwn(ctx, e); err != nil {
			return nil, err
		}
		parts = append(parts, e.spec.Ordinal)
	}
	return nil, fmt.Errorf("step %d of Turn %s has no final entry", w.step, w.turn.Name)
}

// checkIncludes checks that the record includes every result that was settled before it and no others, does not report
// a claimed call as never started, and includes no message that was withdrawn or steered into another Turn.
func (w *writer) checkIncludes(r Record) error {
	for _, id := range r.Unclaimed {
		if claim := w.claim(id, 0); claim.Ordinal != 0 {
			return fmt.Errorf(
				"%w: call %s of step %d of Turn %s was claimed at ordinal %d",
				ErrStale,
				id,
				w.step,
				w.turn.Name,
				claim.Ordinal,
			)
		}
	}
	if r.Compaction != nil && !w.state.has(r.Compaction) {
		return fmt.Errorf("step %d of Turn %s compacts messages that the journal does not have", w.step, w.turn.Name)
	}
	for _, steered := range r.Steered {
		if _, known := w.state.recorded(steered.Name); known {
			return fmt.Errorf("%w: message %s, to be steered into Turn %s, has been recorded", ErrStale, steered.Name,
				w.turn.Name)
		}
	}
	if own, known := w.state.recorded(r.Turn.Name); known && own.UID == r.Turn.UID && own.SteeredInto != nil {
		return fmt.Errorf("%w: Turn %s into Turn %s", ErrSteered, r.Turn.Name, own.SteeredInto.Name)
	}
	for _, ref := range w.settled {
		if !slices.Contains(r.Parts, ref.Ordinal) {
			return fmt.Errorf(
				"%w: call %s of step %d of Turn %s, at ordinal %d",
				ErrStale,
				ref.Call.ID,
				w.step,
				w.turn.Name,
				ref.Ordinal,
			)
		}
	}
	for _, ordinal := range r.Parts {
		if !slices.ContainsFunc(w.settled, func(ref SettledRef) bool { return ref.Ordinal == ordinal }) {
			return fmt.Errorf(
				"step %d of Turn %s names the entry at ordinal %d, which settles none of its calls",
				w.step,
				w.turn.Name,
				ordinal,
			)
		}
	}
	return nil
}

// finish folds the final entry that this writer wrote.
func (w *writer) finish(r Record, final *entry) (*Closed, error) {
	closed := &Closed{
		Ordinal: final.spec.Ordinal, Time: final.spec.Time, Turn: r.Turn, Step: r.Step, Digest: r.Digest,
		Events: r.Events, Calls: r.Calls, Steered: final.spec.Steered, Context: r.Context, Compaction: r.Compaction,
		Transition: transition(final.spec),
	}
	for _, ref := range w.settled {
		if slices.Contains(r.Parts, ref.Ordinal) {
			closed.Settled = append(closed.Settled, ref)
		}
	}
	c, err := changeOf(closed)
	if err != nil {
		return nil, err
	}
	if err := w.state.fold(final, c); err != nil {
		return nil, err
	}
	w.log.remember(w.session, w.state)
	return closed, nil
}
