package journal

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// writer writes the entries of one operation for one step. Before each it has read every entry since the step was
// opened.
type writer struct {
	*walk
	state   *state
	turn    Turn
	time    metav1.MicroTime
	bounded bool // by the Session's limit
	// forgiving excludes the parts from the size of the journal that hold the step's own response or outcomes: they must
	// not leave the entry that closes the step, which has them as well, without room.
	forgiving bool
}

// writer begins an operation: it reads all entries that are known to exist. It does not read the first free ordinal,
// because a create shows as well whether it is free.
func (l *Log) writer(ctx context.Context, s Session, turn Turn, step int32, openedAt int64) (*writer, error) {
	openedAt = max(openedAt, 1)
	st, fresh, err := l.load(ctx, s, openedAt-1)
	if err != nil {
		return nil, err
	}
	if !fresh && st.at() < openedAt-1 {
		if err := l.catchUp(ctx, s, st, nil); err != nil {
			return nil, err
		}
	}
	if head := st.at(); head < openedAt-1 {
		return nil, EndsTooEarly(s, turn, step, openedAt, head)
	}
	w := &writer{walk: l.walk(s, turn.UID, step, openedAt), state: st, turn: turn, bounded: l.bounded(s)}
	w.time = w.now()
	return w, w.to(ctx, st.at())
}

// EndsTooEarly is the error of a step that was opened behind the head of its journal: entries are missing.
func EndsTooEarly(s Session, turn Turn, step int32, openedAt, head int64) error {
	return fmt.Errorf("%w: step %d of Turn %s was opened at ordinal %d, but the journal of Session %s/%s ends at %d",
		ErrCorrupt, step, turn.Name, openedAt, s.Namespace, s.Name, head)
}

// now is the time as entries have it.
func (w *writer) now() metav1.MicroTime {
	return event.MicroTime(w.log.clock())
}

// remainder is the rest of the same record after an entry.
type remainder struct {
	entries int
	bytes   int64
}

// write creates an entry at the first free ordinal, and before it a checkpoint if one is due. Before each create, after
// every earlier entry was read, it calls wanted. It returns no entry and no error if the step was closed, or the entry
// is not wanted any more.
func (w *writer) write(
	ctx context.Context,
	spec Entry,
	rest remainder,
	wanted func() (bool, error),
) (*entry, error) {
	for {
		if err := w.to(ctx, w.state.at()); err != nil || w.final != nil {
			return nil, err
		}
		if ok, err := wanted(); err != nil || !ok {
			return nil, err
		}
		e, err := w.entry(spec, w.next)
		if err != nil {
			return nil, err
		}
		rest := remainder{entries: rest.entries + 1, bytes: rest.bytes + e.size}
		if reserved(w.next) {
			if e, err = checkpoint(w.session, w.state, w.next, w.time); err != nil {
				return nil, err
			}
			rest.bytes += e.size
		}
		if err := w.fits(rest); err != nil {
			return nil, err
		}
		there, ours, err := w.log.put(ctx, w.session, e)
		if err != nil {
			return nil, err
		}
		if ours && there.spec.Checkpoint == nil {
			return there, nil
		}
		if err := w.moveOn(ctx, there, ours); err != nil {
			return nil, err
		}
	}
}

// entry returns the content for an ordinal.
func (w *writer) entry(spec Entry, ordinal int64) (*entry, error) {
	spec.Session, spec.Ordinal, spec.Time, spec.Turn, spec.Step = w.session.Name, ordinal, w.time, &w.turn, w.step
	e, err := newEntry(&spec)
	if err != nil {
		return nil, err
	}
	if e.size > MaxEntryBytes {
		return nil, fmt.Errorf("%w: an entry of step %d of Turn %s takes %d bytes", ErrTooLarge, w.step, w.turn.Name, e.size)
	}
	return e, nil
}

// moveOn processes an entry that is not the one to be written. After another writer's entry there may be more.
func (w *writer) moveOn(ctx context.Context, there *entry, ours bool) error {
	if !ours {
		return w.log.catchUp(ctx, w.session, w.state, nil)
	}
	return w.foldOwn(ctx, there)
}

// foldOwn folds an entry of this writer that closes nothing.
func (w *writer) foldOwn(ctx context.Context, e *entry) error {
	if err := w.log.fold(ctx, w.session, w.state, e); err != nil {
		return err
	}
	w.log.remember(w.session, w.state)
	return nil
}

// fits reports whether the content to be written, and the checkpoints that come in between, keep the journal within the
// Session's limit.
func (w *writer) fits(rest remainder) error {
	if !w.bounded {
		return nil
	}
	needed, at := rest.bytes, w.next
	if reserved(at) {
		at++ // this one is counted
	}
	for range rest.entries {
		if reserved(at) {
			e, err := checkpoint(w.session, w.state, at, w.time)
			if err != nil {
				return err
			}
			needed += e.size
			at++
		}
		at++
	}
	used := w.state.bytes()
	if w.forgiving {
		used -= w.ownBytes
	}
	if err := w.log.room(w.session, used, needed); err != nil {
		return fmt.Errorf("step %d of Turn %s: %w", w.step, w.turn.Name, err)
	}
	return nil
}

// frame is the most that an entry of this step takes, without events, calls and parts.
func (w *writer) frame(spec Entry) (int, error) {
	const largest = 99_999_999
	spec.Session, spec.Time, spec.Turn, spec.Step = w.session.Name, w.time, &w.turn, w.step
	spec.Ordinal, spec.Part = largest, largest
	raw, err := json.Marshal(spec)
	if err != nil {
		return 0, fmt.Errorf("encoding an entry of step %d of Turn %s: %w", w.step, w.turn.Name, err)
	}
	return len(raw) + len(`,"events":[],"calls":[],"parts":[]`), nil
}
