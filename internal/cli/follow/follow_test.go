package follow

import (
	"context"
	"iter"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// TestItemsBeforeTheStateOfASteeredTurnAreShown, if they follow from its message: they may be read with an earlier
// state.
func TestItemsBeforeTheStateOfASteeredTurnAreShown(t *testing.T) {
	waiting, steered := state("a", v1alpha1.TurnPhaseQueued, 0), state("a", v1alpha1.TurnPhaseSucceeded, 0)
	steered.Status.SteeredInto = &v1alpha1.TurnReference{Name: "b"}
	into := state("b", v1alpha1.TurnPhaseSucceeded, 2)
	waiting.UID, steered.UID, into.UID = "a", "a", "b"
	items := recordedItems{
		recorded("b", event.TypeReasonCompleted),
		recorded("c", event.TypeInputMessage),
		recorded("b", event.TypeInputMessage),
		recorded("b", event.TypeOutputMessageCompleted),
	}
	cluster := &changing{states: map[string][]*v1alpha1.Turn{"a": {waiting, steered}, "b": {into}}}
	f := &Follower{Reader: items, Client: cluster}
	var shown []string
	session := journal.Session{Namespace: "shop", Name: "demo"}
	turn := types.NamespacedName{Namespace: "shop", Name: "a"}
	for u, err := range f.Turn(t.Context(), session, turn, history.Start(0)) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Item != nil {
			shown = append(shown, u.Item.Turn.Name+" "+u.Item.Event.Type)
		}
	}
	want := []string{"b " + event.TypeInputMessage, "b " + event.TypeOutputMessageCompleted}
	if !slices.Equal(shown, want) {
		t.Errorf("got %q, want %q", shown, want)
	}
}

func recorded(turn, kind string) history.Item {
	return history.Item{
		Turn:  v1alpha1.JournalTurn{Name: turn, UID: types.UID(turn)},
		Event: event.Event{Type: kind},
	}
}

// recordedItems is a journal with an entry for each item.
type recordedItems []history.Item

// Items implements Journal.
func (r recordedItems) Items(
	_ context.Context, _ journal.Session, from *history.Position,
) iter.Seq2[history.Item, error] {
	return func(yield func(history.Item, error) bool) {
		for from.Next <= int64(len(r)) {
			from.Next++
			if !yield(r[from.Next-2], nil) {
				return
			}
		}
	}
}

// changing is a cluster whose Turns have one state after another.
type changing struct {
	client.WithWatch
	states map[string][]*v1alpha1.Turn
}

// List implements client.Reader.
func (c *changing) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	list.(*v1alpha1.TurnList).Items = []v1alpha1.Turn{*c.states[nameIn(options)][0]}
	return nil
}

// Watch implements client.WithWatch.
func (c *changing) Watch(
	_ context.Context, _ client.ObjectList, options ...client.ListOption,
) (watch.Interface, error) {
	changes := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 8})
	for _, later := range c.states[nameIn(options)][1:] {
		changes.Modify(later)
	}
	return changes, nil
}
