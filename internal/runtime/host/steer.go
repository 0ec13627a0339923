package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// MaxSteers is how many messages go into a Turn at one step. The others follow at the next one.
const MaxSteers = 32

// maxSteerBytes bounds the messages that go into a Turn at one step together, except for the last one. It is twice the
// size of the largest.
const maxSteerBytes = 2 * maxTurnMessageBytes

// Steer is a message that waits to go into a Turn that runs (STEER-01).
type Steer struct {
	// Ref names the Turn that the message was sent as.
	Ref v1alpha1.JournalTurn
	// Input is the user's text; of a message in parts, its texts joined by line breaks.
	Input string
	// Content is the user's message in parts; nil when it is Input alone.
	Content []event.Part
	// ReadMessage returns the whole message if Input is only its beginning; nil if Input and Content are the message.
	ReadMessage MessageReader
	// Controls of the message; nil for none.
	Controls *v1alpha1.TurnControls
}

// Pending returns the messages that would go into the Turn if its open step ended now. A message whose name is in the
// journal already does not go into any Turn. taken reports whether one of those that wait is part of this Turn already:
// another process may have closed the open step.
func (h *Host) Pending(ctx context.Context, t Turn) (pending []Steer, taken bool, err error) {
	offered, err := t.offered(ctx)
	if err != nil || len(offered) == 0 {
		return nil, false, err
	}
	view, err := h.Log.View(ctx, t.Session, t.Progress.Plan.OpenedAtOrdinal-1)
	if err != nil {
		return nil, false, fmt.Errorf("reading the Turns in the journal: %w", err)
	}
	taken = slices.ContainsFunc(offered, func(s Steer) bool {
		recorded := view.Turns[s.Ref.Name]
		return recorded.UID == s.Ref.UID && recorded.SteeredInto != nil && recorded.SteeredInto.UID == t.Ref.UID
	})
	return unused(offered, view.Turns), taken, nil
}

// offered are the messages that wait for the Turn.
func (t Turn) offered(ctx context.Context) ([]Steer, error) {
	if t.Steers == nil {
		return nil, nil
	}
	steers, err := t.Steers(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the messages to steer into Turn %s: %w", t.Ref.Name, err)
	}
	return steers, nil
}

// unused returns the messages whose names are not in the journal, as many as go into a Turn at once.
func unused(offered []Steer, known map[string]journal.RecordedTurn) []Steer {
	var pending []Steer
	for _, s := range offered {
		if _, used := known[s.Ref.Name]; !used && len(pending) < MaxSteers {
			pending = append(pending, s)
		}
	}
	return pending
}

// read returns the messages as they are sent to a model, in order, as many as a step accepts. A message that cannot be
// read now waits, and so do those after it.
func read(ctx context.Context, steers []Steer) []Steer {
	var whole []Steer
	var size int64
	for _, s := range steers {
		if s.ReadMessage != nil {
			spec, err := s.ReadMessage(ctx)
			if err != nil {
				break
			}
			s.Input, s.Content = MessageOf(spec)
			s.ReadMessage = nil
		}
		whole = append(whole, s)
		if size += messageBytes(s.Input, s.Content); size >= maxSteerBytes {
			break
		}
	}
	return whole
}

// steer adds the messages to the record of a step that another model call follows. They are part of the entry that
// decides it: a reader of that entry finds the messages, and if they are missing, they are still to be delivered.
func (h *Host) steer(t Turn, record *journal.Record, steers []Steer) {
	for _, s := range steers {
		message := s.message()
		record.Events = append(record.Events, h.events(t).InputMessage(message))
		record.Steered = append(
			record.Steered,
			journal.RecordedTurn{Name: s.Ref.Name, UID: s.Ref.UID, Digest: digestOf(message)},
		)
		// The controls of the last user message apply, even if they are empty (CFG-07).
		record.Transition.Controls, record.Transition.ModelNotFound = &v1alpha1.TurnControls{}, ""
		if s.Controls != nil {
			record.Transition.Controls = s.Controls.DeepCopy()
		}
	}
}

// Steered checks whether the Turn's message has gone into another Turn, and returns the resulting status and that Turn;
// nil if it has not. The hint is an ordinal known to exist, 0 if none is.
func (h *Host) Steered(ctx context.Context, t Turn, hint int64) (*v1alpha1.TurnProgress, *v1alpha1.JournalTurn, error) {
	view, err := h.Log.View(ctx, t.Session, hint)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the journal: %w", err)
	}
	recorded, known := view.Turns[t.Ref.Name]
	if !known || recorded.UID != t.Ref.UID || recorded.SteeredInto == nil {
		return nil, nil, nil
	}
	progress := h.steered()
	return &progress, recorded.SteeredInto, nil
}

// CancelSteer ends a Turn whose message was to go into another one. The journal decides: an entry withdraws the
// message, so that no step accepts it any more, unless one has done so. It returns the status of the Turn, and the Turn
// that has its message; nil for none.
func (h *Host) CancelSteer(
	ctx context.Context, t Turn, hint int64,
) (v1alpha1.TurnProgress, *v1alpha1.JournalTurn, error) {
	for {
		view, err := h.Log.View(ctx, t.Session, hint)
		if err != nil {
			return v1alpha1.TurnProgress{}, nil, fmt.Errorf("reading the journal: %w", err)
		}
		recorded, known := view.Turns[t.Ref.Name]
		switch {
		case known && recorded.UID != t.Ref.UID:
			// No Turn accepts a message whose name was already used.
			return CancelledBeforeStart(h.micro()), nil, nil
		case known && recorded.SteeredInto != nil:
			return h.steered(), recorded.SteeredInto, nil
		}
		if t, err = t.whole(ctx); err != nil {
			return v1alpha1.TurnProgress{}, nil, err
		}
		record := journal.Record{
			Turn: t.Ref, Step: 1, OpenedAt: view.Head + 1, Digest: t.digest(), Closing: true,
			Transition: CancelledBeforeStart(h.micro()),
		}
		if known {
			closed, err := h.Log.Outcome(ctx, t.Session, t.Ref.Name, hint)
			if err != nil {
				return v1alpha1.TurnProgress{}, nil, fmt.Errorf("reading the withdrawal of message %s: %w", t.Ref.Name, err)
			}
			return closed.Transition, nil, nil
		}
		closed, err := h.Log.Append(ctx, t.Session, record)
		if errors.Is(err, journal.ErrStale) || errors.Is(err, journal.ErrSteered) {
			continue
		}
		if err != nil {
			return v1alpha1.TurnProgress{}, nil, fmt.Errorf("withdrawing message %s: %w", t.Ref.Name, err)
		}
		return closed.Transition, nil, nil
	}
}

// steered is the status of a Turn whose message went into another one: no step of its own was ever open.
func (h *Host) steered() v1alpha1.TurnProgress {
	now := h.micro()
	p := plan.NeverBegan(v1alpha1.TurnPhaseSucceeded, now)
	p.Plan.StopReason = v1alpha1.StopReasonSteered
	return p
}
