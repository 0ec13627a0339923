package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Pending returns the messages that would go into the Turn if its open step ended now. A message whose name is in the
// journal already does not go into any Turn. taken reports whether one of those that wait is part of this Turn already:
// another process may have closed the open step.
func (run *Runner) Pending(ctx context.Context, t turnstate.Turn) (pending []turnstate.Steer, taken bool, err error) {
	waiting, err := pendingMessages(ctx, t)
	if err != nil || len(waiting) == 0 {
		return nil, false, err
	}
	view, err := run.Log.View(ctx, t.Session, t.Progress.Plan.OpenedAtOrdinal-1)
	if err != nil {
		return nil, false, fmt.Errorf("reading the Turns in the journal: %w", err)
	}
	taken = slices.ContainsFunc(waiting, func(s turnstate.Steer) bool {
		recorded := view.Turns[s.Ref.Name]
		return recorded.UID == s.Ref.UID && recorded.SteeredInto != nil && recorded.SteeredInto.UID == t.Ref.UID
	})
	return notInJournal(waiting, view.Turns), taken, nil
}

// pendingMessages are the messages that wait for the Turn.
func pendingMessages(ctx context.Context, t turnstate.Turn) ([]turnstate.Steer, error) {
	if t.Steers == nil {
		return nil, nil
	}
	steers, err := t.Steers(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the messages to steer into Turn %s: %w", t.Ref.Name, err)
	}
	return steers, nil
}

// notInJournal returns the messages whose names are not in the journal, as many as go into a Turn at once.
func notInJournal(waiting []turnstate.Steer, known map[string]journal.RecordedTurn) []turnstate.Steer {
	var pending []turnstate.Steer
	for _, s := range waiting {
		if _, used := known[s.Ref.Name]; !used && len(pending) < turnstate.MaxSteers {
			pending = append(pending, s)
		}
	}
	return pending
}

// readMessages returns the messages as they are sent to a model, in order, as many as a step accepts. A message that
// cannot be read now waits, and so do those after it.
func readMessages(ctx context.Context, steers []turnstate.Steer) []turnstate.Steer {
	var whole []turnstate.Steer
	var size int64
	for _, s := range steers {
		if s.ReadMessage != nil {
			spec, err := s.ReadMessage(ctx)
			if err != nil {
				break
			}
			s.Input, s.Content = turnstate.MessageOf(spec)
			s.ReadMessage = nil
		}
		whole = append(whole, s)
		if size += s.SentBytes(); size >= turnstate.MaxSteerBytes {
			break
		}
	}
	return whole
}

// steer adds the messages to the record of a step that another model call follows. They are part of the entry that
// decides it: a reader of that entry finds the messages, and if they are missing, they are still to be delivered.
func (run *Runner) steer(t turnstate.Turn, record *journal.Record, steers []turnstate.Steer) {
	for _, s := range steers {
		message := s.Message()
		record.Events = append(record.Events, run.events(t).InputMessage(message))
		record.Steered = append(
			record.Steered,
			journal.RecordedTurn{Name: s.Ref.Name, UID: s.Ref.UID, Digest: s.Digest()},
		)
		if s.SubmittedBy != t.SubmittedBy {
			record.Transition.Users = v1alpha1.TurnUsersSeveral
			record.Transition.SteeredBy = withUser(record.Transition.SteeredBy, s.SubmittedBy)
		}
		if s.Task {
			continue
		}
		// The controls of the last user message apply, even if they are empty (CFG-07).
		record.Transition.Controls, record.Transition.ModelNotFound = &v1alpha1.TurnControls{}, ""
		if s.Controls != nil {
			record.Transition.Controls = s.Controls.DeepCopy()
		}
	}
}

// withUser returns a list of users with another one. Without a name, and where there are too many names, it is an empty
// one, which stands for any user. The list is not changed.
func withUser(users []string, user string) []string {
	named := len(users)
	if slices.Contains(users, "") {
		named--
	}
	if named >= v1alpha1.MaxSteeringUsers && !slices.Contains(users, user) {
		user = ""
	}
	if slices.Contains(users, user) {
		return users
	}
	return append(slices.Clone(users), user)
}

// Steered checks whether the Turn's message has gone into another Turn, and returns the resulting status and that Turn;
// nil if it has not. The hint is an ordinal known to exist, 0 if none is.
func (run *Runner) Steered(
	ctx context.Context,
	t turnstate.Turn,
	hint int64,
) (*v1alpha1.TurnProgress, *v1alpha1.JournalTurn, error) {
	view, err := run.Log.View(ctx, t.Session, hint)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the journal: %w", err)
	}
	recorded, known := view.Turns[t.Ref.Name]
	if !known || recorded.UID != t.Ref.UID || recorded.SteeredInto == nil {
		return nil, nil, nil
	}
	progress := turnstate.Steered(run.micro())
	return &progress, recorded.SteeredInto, nil
}

// CancelSteer ends a Turn whose message was to go into another one. The journal decides: an entry withdraws the
// message, so that no step accepts it any more, unless one has done so. It returns the status of the Turn, and the Turn
// that has its message; nil for none.
func (run *Runner) CancelSteer(
	ctx context.Context, t turnstate.Turn, hint int64,
) (v1alpha1.TurnProgress, *v1alpha1.JournalTurn, error) {
	for {
		view, err := run.Log.View(ctx, t.Session, hint)
		if err != nil {
			return v1alpha1.TurnProgress{}, nil, fmt.Errorf("reading the journal: %w", err)
		}
		recorded, known := view.Turns[t.Ref.Name]
		switch {
		case known && recorded.UID != t.Ref.UID:
			// No Turn accepts a message whose name was already used.
			return turnstate.CancelledBeforeStart(run.micro()), nil, nil
		case known && recorded.SteeredInto != nil:
			return turnstate.Steered(run.micro()), recorded.SteeredInto, nil
		}
		if t, err = wholeMessage(ctx, t); err != nil {
			return v1alpha1.TurnProgress{}, nil, err
		}
		record := journal.Record{
			Turn: t.Ref, Step: 1, OpenedAt: view.Head + 1, Digest: t.Digest(), Closing: true,
			Transition: turnstate.CancelledBeforeStart(run.micro()),
		}
		if known {
			closed, err := run.Log.Outcome(ctx, t.Session, t.Ref.Name, hint)
			if err != nil {
				return v1alpha1.TurnProgress{}, nil, fmt.Errorf("reading the withdrawal of message %s: %w", t.Ref.Name, err)
			}
			return closed.Transition, nil, nil
		}
		closed, err := run.Log.Append(ctx, t.Session, record)
		if errors.Is(err, journal.ErrStale) || errors.Is(err, journal.ErrSteered) {
			continue
		}
		if err != nil {
			return v1alpha1.TurnProgress{}, nil, fmt.Errorf("withdrawing message %s: %w", t.Ref.Name, err)
		}
		return closed.Transition, nil, nil
	}
}
