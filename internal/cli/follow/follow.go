package follow

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Update is something that has happened. One field is set.
type Update struct {
	// Item is an event of the journal, or a decision in it.
	Item *history.Item
	// Delta is text of a response that has arrived.
	Delta *Delta
	// Progress is that of a tool call.
	Progress *event.ToolProgress
	// Output is that of a tool that runs.
	Output *Output
	// Turn is the new state of a Turn. The items that it follows from come before it.
	Turn *v1alpha1.Turn
}

// Output is output of a tool that runs.
type Output struct {
	stream.ToolOutputDelta

	// Turn of the call.
	Turn types.UID
}

// Delta is text of a response that has arrived.
type Delta struct {
	// Message is the id that the message will have.
	Message string
	// Offset of the text in the message, in bytes. With 0 the text before, if any, is not the response.
	Offset int64
	Text   string
	// Replaced reports that the text so far is not the response.
	Replaced bool
}

// Journal is the journal of Sessions. A *history.Reader implements it.
type Journal interface {
	// Items returns the items from a position on, up to the end of the journal, and moves the position.
	Items(ctx context.Context, session journal.Session, from *history.Position) iter.Seq2[history.Item, error]
}

// Follower follows Turns and Sessions with the permissions of a user.
type Follower struct {
	Client client.WithWatch
	Reader Journal
	// Stream is the manager's event stream; nil to watch objects alone. It is given up once it cannot be reached.
	Stream stream.Follower
	// Note is called with a sentence for the user about the connection.
	Note func(string)
}

// Turn follows a Turn to its end. If its message is steered into another Turn, it follows that one too.
func (f *Follower) Turn(
	ctx context.Context, session journal.Session, turn types.NamespacedName, from history.Position,
) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		name, skip := turn.Name, int64(0)
		if f.Stream != nil {
			s := f.streaming(session, from, yield)
			s.turn, s.names = name, map[string]bool{name: true}
			lost, why := s.run(ctx)
			if !lost {
				return
			}
			f.abandon(why)
			name, skip = s.turn, s.last
		}
		wanted := map[types.UID]bool{}
		start, given := from, true
		for next := name; next != ""; {
			name := next
			next = ""
			for state, err := range f.states(ctx, turn.Namespace, name) {
				if err != nil {
					yield(Update{}, err)
					return
				}
				wanted[state.UID] = true
				show := func(item history.Item) bool {
					given = given || item.Event.Type == event.TypeInputMessage
					return wanted[item.Turn.UID] && given
				}
				if !f.drain(ctx, session, &from, skip, show, yield) || !yield(Update{Turn: state}, nil) {
					return
				}
				given = true
				if pending.Ended(state) {
					next = into(state)
					break
				}
			}
			// The other Turn has had the message before this one has its state: what follows from it may have been read
			// already, and left out. A Turn that was steered has no items of its own, so that none comes twice.
			from, skip, given = start, 0, false
		}
	}
}

func (f *Follower) streaming(
	session journal.Session, from history.Position, yield func(Update, error) bool,
) *streaming {
	return &streaming{
		Follower: f, session: session, from: from, yield: yield, last: from.Events, steps: map[string]int32{},
		ended: map[string]bool{},
	}
}

// abandon gives up the event stream, and tells the user once.
func (f *Follower) abandon(why error) {
	f.Stream = nil
	reason := ""
	if why != nil {
		reason = " (" + why.Error() + ")"
	}
	f.Note("The event stream of the manager cannot be used: messages appear when they are complete." + reason)
}

// into is the name of the Turn that has the message of another one; empty for none.
func into(turn *v1alpha1.Turn) string {
	if turn.Status.SteeredInto == nil {
		return ""
	}
	return turn.Status.SteeredInto.Name
}

// Session follows all Turns of a Session until the context ends.
func (f *Follower) Session(
	ctx context.Context, session journal.Session, from history.Position,
) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		skip := int64(0)
		if f.Stream != nil {
			s := f.streaming(session, from, yield)
			lost, why := s.run(ctx)
			if !lost {
				return
			}
			f.abandon(why)
			skip = s.last
		}
		for state, err := range f.states(ctx, session.Namespace, "") {
			if err != nil {
				yield(Update{}, err)
				return
			}
			if state != nil && state.Spec.SessionRef.Name != session.Name {
				continue
			}
			if !f.drain(ctx, session, &from, skip, nil, yield) || state != nil && !yield(Update{Turn: state}, nil) {
				return
			}
		}
	}
}

// drain passes on the items that the journal has by now and that are to be shown, or all without such a function,
// without the events up to a sequence number. It reports whether there is to be more.
func (f *Follower) drain(
	ctx context.Context,
	session journal.Session,
	from *history.Position,
	skip int64,
	show func(history.Item) bool,
	yield func(Update, error) bool,
) bool {
	for item, err := range f.Reader.Items(ctx, session, from) {
		if err != nil {
			yield(Update{}, fmt.Errorf("following: %w", err))
			return false
		}
		if item.Public.Sequence <= skip && skip > 0 || show != nil && !show(item) {
			continue
		}
		if !yield(Update{Item: &item}, nil) {
			return false
		}
	}
	return true
}
