package follow

import (
	"context"
	"iter"
	"slices"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// heldFor is how long a state waits for the events that it follows from. They come by another connection.
const heldFor = 2 * time.Second

// received is an element of a sequence that another goroutine reads.
type received[T any] struct {
	value T
	err   error
}

// pump reads a sequence into a channel, until the context ends. The channel is closed with the sequence.
func pump[T any](ctx context.Context, sequence iter.Seq2[T, error]) <-chan received[T] {
	out := make(chan received[T])
	go func() {
		defer close(out)
		for value, err := range sequence {
			select {
			case out <- received[T]{value, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// streaming joins the event stream and the states of Turns.
type streaming struct {
	*Follower
	session journal.Session
	from    history.Position
	yield   func(Update, error) bool

	// turn is the name of the Turn that is followed; empty for all of the Session.
	turn string
	// names are those of the Turns whose events are passed on: turn, and those that its message is steered into.
	names map[string]bool
	// last is the sequence number of the last event.
	last int64
	// steps are the last steps of Turns whose events have come, by name, and ended the Turns whose last event has.
	steps map[string]int32
	ended map[string]bool
	held  []held
	// unwatch ends the watch of the Turn that is followed.
	unwatch context.CancelFunc
	// others are the last durable events of other Turns, until the Turn begins: it may turn out that its message went into
	// one of them.
	others []stream.Event
}

// maxOthers bounds the events of other Turns that are kept.
const maxOthers = 256

// held is a state that waits for the events before it.
type held struct {
	turn  *v1alpha1.Turn
	until time.Time
}

// run passes on events and states to the end of the Turn. It reports whether the stream has ended before, so that
// objects are to be watched from here on.
func (s *streaming) run(parent context.Context) (lost bool, why error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	of := stream.Session{Namespace: s.session.Namespace, Name: s.session.Name, UID: s.session.UID}
	events := pump(ctx, s.Stream.Follow(ctx, of, s.from.Events))
	states := s.watchTurn(ctx)
	for {
		switch next, more := s.release(time.Now()); {
		case !more:
			return false, nil
		case next != "":
			s.turn, s.names[next] = next, true
			states = s.watchTurn(ctx)
			if !s.replay(next) {
				return false, nil
			}
		}
		more, lost, why := s.next(parent, events, states)
		if !more {
			return lost, why
		}
	}
}

// watchTurn reads the states of the Turn that is followed, and ends the watch of the one before.
func (s *streaming) watchTurn(ctx context.Context) <-chan received[*v1alpha1.Turn] {
	if s.unwatch != nil {
		s.unwatch()
	}
	ctx, s.unwatch = context.WithCancel(ctx)
	return pump(ctx, s.states(ctx, s.session.Namespace, s.turn))
}

// next waits for an event or a state. It reports whether there is to be more and, if not, whether the stream has ended.
func (s *streaming) next(
	ctx context.Context, events <-chan received[stream.Event], states <-chan received[*v1alpha1.Turn],
) (more, lost bool, why error) {
	timer := time.NewTimer(s.wait(time.Now()))
	defer timer.Stop()
	select {
	case e, ok := <-events:
		if ctx.Err() != nil {
			break
		}
		if !ok || e.err != nil {
			return false, true, e.err
		}
		return s.event(e.value), false, nil
	case state := <-states:
		if ctx.Err() != nil {
			break
		}
		if state.err != nil {
			s.yield(Update{}, state.err)
			return false, false, nil
		}
		s.hold(state.value)
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		s.yield(Update{}, err)
		return false, false, nil
	}
	return true, false, nil
}

// wait is how long the first held state may still wait.
func (s *streaming) wait(now time.Time) time.Duration {
	if len(s.held) == 0 {
		return time.Hour
	}
	return max(s.held[0].until.Sub(now), 0)
}

// hold keeps a state until its events have come.
func (s *streaming) hold(turn *v1alpha1.Turn) {
	if turn == nil || turn.Spec.SessionRef.Name != s.session.Name {
		return
	}
	s.held = append(s.held, held{turn, time.Now().Add(heldFor)})
}

// release passes on the states whose events have come. It returns the name of the Turn to follow next, if the one that
// is followed was steered into it, and whether there is to be more.
func (s *streaming) release(now time.Time) (next string, more bool) {
	for len(s.held) > 0 && (s.follows(s.held[0].turn) || !now.Before(s.held[0].until)) {
		turn := s.held[0].turn
		s.held = s.held[1:]
		if !s.yield(Update{Turn: turn}, nil) {
			return "", false
		}
		if s.turn == turn.Name && pending.Ended(turn) {
			if next = into(turn); next == "" {
				return "", false
			}
			s.held = nil
			return next, true
		}
	}
	return "", true
}

// follows reports whether the events that a state follows from have come.
func (s *streaming) follows(turn *v1alpha1.Turn) bool {
	begun := turn.Status.Summary != nil && turn.Status.Summary.StartedAt != nil
	switch {
	case !begun, into(turn) != "":
		return true // it has no events
	case pending.Ended(turn):
		return s.ended[turn.Name]
	case turn.Status.Plan == nil:
		return true
	default:
		return s.steps[turn.Name] >= turn.Status.Plan.Step-1
	}
}

// event passes on an event of the stream. It reports whether there is to be more.
func (s *streaming) event(e stream.Event) bool {
	s.last = max(s.last, e.Sequence)
	if e.Turn == nil {
		return true
	}
	s.steps[e.Turn.Name] = max(s.steps[e.Turn.Name], e.Step)
	s.ended[e.Turn.Name] = s.ended[e.Turn.Name] || e.Type == stream.TypeTurnCompleted || e.Type == stream.TypeTurnFailed
	if s.names != nil && !s.names[e.Turn.Name] {
		s.keep(e)
		return true
	}
	u, ok := updateOf(e)
	return !ok || s.yield(u, nil)
}

// keep keeps an event of another Turn, if the one that is followed has no events yet.
func (s *streaming) keep(e stream.Event) {
	if _, begun := s.steps[s.turn]; begun || e.Live {
		return
	}
	s.others = append(s.others, e)
	if len(s.others) > maxOthers {
		s.others = s.others[1:]
	}
}

// replay passes on the events that a Turn has had since it was given a message: they came before the state by which
// the followed message is known to be in it. It reports whether there is to be more.
func (s *streaming) replay(turn string) bool {
	kept := slices.DeleteFunc(s.others, func(e stream.Event) bool { return e.Turn.Name != turn })
	s.others = nil
	given := slices.IndexFunc(kept, func(e stream.Event) bool { return e.Type == stream.TypeInputMessage })
	if given < 0 {
		return true
	}
	for _, e := range kept[given:] {
		if u, ok := updateOf(e); ok && !s.yield(u, nil) {
			return false
		}
	}
	return true
}

// updateOf returns what an event of the stream reports; false for nothing that is shown.
func updateOf(e stream.Event) (Update, bool) {
	switch e.Type {
	case stream.TypeOutputMessageDelta:
		data, err := stream.Decode[stream.OutputMessageDelta](e)
		return Update{Delta: &Delta{Message: data.MessageID, Offset: data.Offset, Text: data.Text}}, err == nil
	case stream.TypeOutputMessageReplaced:
		data, err := stream.Decode[stream.OutputMessageReplaced](e)
		return Update{Delta: &Delta{Message: data.MessageID, Replaced: true}}, err == nil
	case stream.TypeToolProgress:
		data, err := stream.Decode[event.ToolProgress](e)
		return Update{Progress: &data}, err == nil
	case stream.TypeToolOutputDelta:
		data, err := stream.Decode[stream.ToolOutputDelta](e)
		return Update{Output: &Output{data, e.Turn.UID}}, err == nil
	}
	if e.Live {
		return Update{}, false
	}
	item := history.Item{
		Turn:   v1alpha1.JournalTurn{Name: e.Turn.Name, UID: e.Turn.UID},
		Event:  event.Event{ID: e.ID, Type: e.Type, Time: e.Time, Context: e.Context, Data: &v1alpha1.JSON{Raw: e.Data}},
		Public: e,
	}
	return Update{Item: &item}, true
}
