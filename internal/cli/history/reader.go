package history

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	streams "github.com/capstan-dev/capstan/internal/runtime/stream"
)

// Item is an event of a Session, or the decision about a call.
type Item struct {
	// Turn that the item belongs to.
	Turn v1alpha1.JournalTurn
	// Event that has happened; without a type for a decision. Public is its public form.
	Event  event.Event
	Public stream.Event
	// Decision about a call that needed approval; nil for an event.
	Decision *format.SettledCall
}

// Position is a place in a journal.
type Position struct {
	// Next is the ordinal of the first entry to read, from 1.
	Next int64
	// Events is the number of events before that entry.
	Events int64
	// Head is an entry that is known to exist; 0 for none. Those up to it are read several at a time.
	Head int64
}

// Start is the beginning of a journal with at least head entries.
func Start(head int64) Position {
	return Position{Next: 1, Head: head}
}

// Reader reads journals.
type Reader struct {
	store journal.Store
	log   *journal.Log
}

// New returns a Reader with a REST client of group capstan.dev.
func New(client rest.Interface) *Reader {
	store := &recent{store: &located{Store: kubernetes.New(client), client: client}}
	return &Reader{store: store, log: journal.New(store, journal.Options{})}
}

// End returns the end of a journal that has at least head entries. Of a journal that only the manager can read it is
// the beginning: the event stream, which tells events of one Turn from those of others, has all of them.
func (r *Reader) End(ctx context.Context, s journal.Session, head int64) (Position, error) {
	view, err := r.log.View(ctx, s, head)
	if errors.Is(err, ErrInPostgres) {
		return Start(0), nil
	}
	if err != nil {
		return Position{}, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err)
	}
	return Position{Next: view.Head + 1, Events: view.NextSequence - 1}, nil
}

// Messages returns the conversation of a Session.
func (r *Reader) Messages(ctx context.Context, s journal.Session, head int64) ([]event.Message, error) {
	view, err := r.log.View(ctx, s, head)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err)
	}
	return view.Messages, nil
}

// Items returns the items from a position on, up to the end of the journal, and moves the position.
func (r *Reader) Items(ctx context.Context, s journal.Session, from *Position) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next := ahead(ctx, r.store, s, from.Next, from.Head)
		for {
			spec, err := next(from.Next)
			if errors.Is(err, journal.ErrNotFound) {
				return
			}
			if err != nil {
				yield(Item{}, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err))
				return
			}
			items, events, err := r.step(ctx, s, spec, from.Events)
			if err != nil {
				yield(Item{}, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err))
				return
			}
			from.Next, from.Events = from.Next+1, from.Events+events
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// step returns the items of the step that an entry closes, and the number of its events; none for any other entry. The
// journal has a number of events before it.
func (r *Reader) step(
	ctx context.Context, s journal.Session, spec *v1alpha1.JournalEntrySpec, before int64,
) (items []Item, events int64, err error) {
	if !spec.Final || spec.Turn == nil {
		return nil, 0, nil
	}
	closed, err := r.log.Step(ctx, s, spec.Turn.UID, spec.Ordinal)
	if err != nil {
		return nil, 0, err
	}
	public, err := streams.Durable(s, closed, before+1)
	if err != nil {
		return nil, 0, err
	}
	for i := range closed.Settled {
		if call := &closed.Settled[i].Call; call.Decision != "" {
			items = append(items, Item{Turn: closed.Turn, Decision: call})
		}
	}
	for i, e := range closed.Events {
		items = append(items, Item{Turn: closed.Turn, Event: e, Public: public[i]})
	}
	return items, int64(len(public)), nil
}

// callSearch is how many entries before an open step the step that planned its calls is searched in: between them are
// a checkpoint and withdrawn messages.
const callSearch = 16

// Calls returns the calls of a Turn's open step with their whole arguments, by id.
func (r *Reader) Calls(
	ctx context.Context, s journal.Session, turn types.UID, openedAt int64,
) (map[string]format.PlannedCall, error) {
	for ordinal := openedAt - 1; ordinal >= max(1, openedAt-callSearch); ordinal-- {
		spec, err := r.store.Get(ctx, s, ordinal)
		if err != nil {
			return nil, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err)
		}
		if !spec.Final || spec.Turn == nil || spec.Turn.UID != turn {
			continue
		}
		closed, err := r.log.Step(ctx, s, turn, ordinal)
		if err != nil {
			return nil, fmt.Errorf("reading the journal of Session %s: %w", s.Name, err)
		}
		calls := make(map[string]format.PlannedCall, len(closed.Calls))
		for _, call := range closed.Calls {
			calls[call.ID] = call
		}
		return calls, nil
	}
	return nil, fmt.Errorf("the journal of Session %s has no calls of the open step", s.Name)
}
