package follow

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// Turn is the new state of a Turn. The items that it follows from come before it.
	Turn *v1alpha1.Turn
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

// Follower follows Turns and Sessions with the permissions of a user.
type Follower struct {
	Client client.WithWatch
	Reader *history.Reader
	// Note is called with a sentence for the user about the connection.
	Note func(string)
}

// Turn follows a Turn to its end. If its message is steered into another Turn, it follows that one too.
func (f *Follower) Turn(
	ctx context.Context, session journal.Session, turn types.NamespacedName, from history.Position,
) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		wanted := map[types.UID]bool{}
		for next := turn.Name; next != ""; {
			name := next
			next = ""
			for state, err := range f.states(ctx, turn.Namespace, name) {
				if err != nil {
					yield(Update{}, err)
					return
				}
				wanted[state.UID] = true
				if !f.drain(ctx, session, &from, wanted, yield) || !yield(Update{Turn: state}, nil) {
					return
				}
				if pending.Ended(state) {
					next = into(state)
					break
				}
			}
		}
	}
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
		for state, err := range f.states(ctx, session.Namespace, "") {
			if err != nil {
				yield(Update{}, err)
				return
			}
			if state != nil && state.Spec.SessionRef.Name != session.Name {
				continue
			}
			if !f.drain(ctx, session, &from, nil, yield) || state != nil && !yield(Update{Turn: state}, nil) {
				return
			}
		}
	}
}

// drain passes on the items that the journal has by now, of the wanted Turns or, without any, of all. It reports
// whether there is to be more.
func (f *Follower) drain(
	ctx context.Context,
	session journal.Session,
	from *history.Position,
	wanted map[types.UID]bool,
	yield func(Update, error) bool,
) bool {
	for item, err := range f.Reader.Items(ctx, session, from) {
		if err != nil {
			yield(Update{}, fmt.Errorf("following: %w", err))
			return false
		}
		if wanted != nil && !wanted[item.Turn.UID] {
			continue
		}
		if !yield(Update{Item: &item}, nil) {
			return false
		}
	}
	return true
}
