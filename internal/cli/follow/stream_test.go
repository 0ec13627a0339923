package follow

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// fake is a stream of given events that then stays open, or ends with an error.
type fake struct {
	events []stream.Event
	err    error
}

// Follow implements stream.Follower.
func (f fake) Follow(ctx context.Context, _ stream.Session, after int64) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for _, e := range f.events {
			if (e.Live || e.Sequence > after) && !yield(e, nil) {
				return
			}
		}
		if f.err != nil {
			yield(stream.Event{}, f.err)
			return
		}
		<-ctx.Done()
	}
}

func durable(sequence int64, turn, kind string, step int32) stream.Event {
	return stream.Event{
		Type:     kind,
		Sequence: sequence,
		Turn:     &stream.Turn{Name: turn, UID: types.UID(turn)},
		Step:     step,
		Data:     json.RawMessage("{}"),
	}
}

func delta(turn, words string) stream.Event {
	data, err := json.Marshal(stream.OutputMessageDelta{MessageID: "m", Text: words})
	if err != nil {
		panic(err)
	}
	return stream.Event{Type: stream.TypeOutputMessageDelta, Live: true, Turn: &stream.Turn{Name: turn}, Data: data}
}

// state is a Turn of the Session demo with an open step, or one that has ended.
func state(name string, phase v1alpha1.TurnPhase, step int32) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	turn.Spec.SessionRef.Name = "demo"
	turn.Status.Phase = phase
	turn.Status.Summary = &v1alpha1.TurnSummary{StartedAt: &metav1.MicroTime{Time: time.Unix(1, 0)}}
	turn.Status.Plan = &v1alpha1.TurnPlan{Step: step}
	return turn
}

// joined returns in short what is passed on of a stream and states, which come in an order that a test chooses: nil
// stands for the next event.
func joined(t *testing.T, s *streaming, events []stream.Event, order ...*v1alpha1.Turn) string {
	t.Helper()
	var shown []string
	s.yield = func(u Update, err error) bool {
		switch {
		case err != nil:
			shown = append(shown, err.Error())
		case u.Item != nil:
			shown = append(shown, u.Item.Event.Type)
		case u.Delta != nil:
			shown = append(shown, "+"+u.Delta.Text)
		case u.Turn != nil:
			shown = append(shown, string(u.Turn.Status.Phase))
		}
		return true
	}
	for _, next := range order {
		if next == nil {
			s.event(events[0])
			events = events[1:]
		} else {
			s.hold(next)
		}
		s.release(time.Now())
	}
	return strings.Join(shown, " ")
}

func following(turn string) *streaming {
	f := &Follower{Note: func(string) {}}
	s := f.streaming(journal.Session{Namespace: "shop", Name: "demo"}, positionAt(0), nil)
	if turn != "" {
		s.turn, s.names = turn, map[string]bool{turn: true}
	}
	return s
}

// TestAStateComesAfterItsEvents, whichever connection is the faster one.
func TestAStateComesAfterItsEvents(t *testing.T) {
	events := []stream.Event{
		delta(
			"a",
			"Hel",
		),
		durable(1, "a", stream.TypeOutputMessageCompleted, 1),
		durable(2, "a", stream.TypeTurnCompleted, 2),
	}
	want := "+Hel output.message.completed Act turn.completed Succeeded"
	act, done := state("a", v1alpha1.TurnPhaseAct, 2), state("a", v1alpha1.TurnPhaseSucceeded, 3)
	for name, order := range map[string][]*v1alpha1.Turn{
		"events first":   {nil, nil, act, nil, done},
		"states first":   {nil, act, nil, done, nil},
		"all the states": {nil, act, done, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := joined(t, following("a"), events, order...); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// Rules: CTX-04.
func TestTheOutputOfToolsIsPassedOn(t *testing.T) {
	data, err := json.Marshal(stream.ToolOutputDelta{ToolCallID: "1-0", Offset: 3, Delta: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]bool{string(data): true, "[]": false} {
		u, ok := updateOf(stream.Event{
			Type: stream.TypeToolOutputDelta, Live: true, Turn: &stream.Turn{UID: "u"}, Data: json.RawMessage(raw),
		})
		if ok != want || ok && (u.Output.Turn != "u" || u.Output.ToolCallID != "1-0" || u.Output.Offset != 3 ||
			u.Output.Delta != "x") {
			t.Errorf("%s: %+v, %t", raw, u.Output, ok)
		}
	}
}

func TestOnlyTheTurnIsShown(t *testing.T) {
	events := []stream.Event{durable(1, "b", stream.TypeTurnStarted, 1), durable(2, "a", stream.TypeTurnStarted, 1)}
	if got := joined(t, following("a"), events, nil, nil); got != "turn.started" {
		t.Errorf("got %s", got)
	}
	if got := joined(t, following(""), events, nil, nil); got != "turn.started turn.started" {
		t.Errorf("got %s for the Session", got)
	}
}

func TestAStateDoesNotWaitForEver(t *testing.T) {
	s := following("a")
	var shown int
	s.yield = func(Update, error) bool { shown++; return true }
	s.hold(state("a", v1alpha1.TurnPhaseAct, 5))
	if _, more := s.release(time.Now()); shown > 0 || !more {
		t.Error("the state does not wait for its events")
	}
	if _, more := s.release(time.Now().Add(heldFor)); shown != 1 || !more {
		t.Error("the state waits for ever")
	}
}

func TestASteeredMessageIsFollowed(t *testing.T) {
	s := following("a")
	s.yield = func(Update, error) bool { return true }
	steered := state("a", v1alpha1.TurnPhaseSucceeded, 1)
	steered.Status.SteeredInto = &v1alpha1.TurnReference{Name: "b"}
	s.hold(steered)
	if next, more := s.release(time.Now()); next != "b" || !more {
		t.Errorf("follows %q, %t", next, more)
	}
}

// TestASteerEndsTheWatchOfTheTurnBefore: it would wait until the end of the command for a reader.
func TestASteerEndsTheWatchOfTheTurnBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	steered := state("a", v1alpha1.TurnPhaseSucceeded, 1)
	steered.Status.SteeredInto = &v1alpha1.TurnReference{Name: "b"}
	cluster := &watched{turns: map[string]*v1alpha1.Turn{"a": steered, "b": state("b", v1alpha1.TurnPhaseAct, 1)}}
	cluster.stopped = make(chan string, len(cluster.turns))
	s := following("a")
	s.Stream, s.Client = fake{}, cluster
	s.yield = func(u Update, err error) bool {
		if err != nil || u.Turn.Name != "b" {
			return err == nil
		}
		select {
		case name := <-cluster.stopped:
			if name != "a" {
				t.Errorf("the watch of Turn %s has ended", name)
			}
		case <-ctx.Done():
			t.Error("the watch of the Turn that was steered goes on")
		}
		return false
	}
	if lost, why := s.run(ctx); lost || why != nil {
		t.Errorf("got %t, %v", lost, why)
	}
}

// watched is a cluster whose Turns do not change, and that notes whose watch has ended.
type watched struct {
	client.WithWatch
	turns   map[string]*v1alpha1.Turn
	stopped chan string
}

// List implements client.Reader.
func (w *watched) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	turns, ok := list.(*v1alpha1.TurnList)
	if !ok {
		return errors.New("not a list of Turns")
	}
	turns.Items = []v1alpha1.Turn{*w.turns[nameIn(options)]}
	return nil
}

// Watch implements client.WithWatch.
func (w *watched) Watch(
	ctx context.Context, _ client.ObjectList, options ...client.ListOption,
) (watch.Interface, error) {
	changes := watch.NewRaceFreeFake()
	context.AfterFunc(ctx, func() {
		w.stopped <- nameIn(options)
		changes.Stop()
	})
	return changes, nil
}

// nameIn is the name of the Turn that options select.
func nameIn(options []client.ListOption) string {
	var all client.ListOptions
	all.ApplyOptions(options)
	name, _ := all.FieldSelector.RequiresExactMatch("metadata.name")
	return name
}

// TestALostStreamIsReported: the events so far are known, so that they are not shown again.
func TestALostStreamIsReported(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s := following("")
	s.Stream = fake{events: []stream.Event{durable(1, "a", stream.TypeTurnStarted, 1)}, err: errors.New("unreachable")}
	s.Client = silent{}
	s.yield = func(Update, error) bool { return true }
	lost, why := s.run(ctx)
	if !lost || why == nil || s.last != 1 {
		t.Errorf("got %t, %v, last %d", lost, why, s.last)
	}
	var noted string
	s.Note = func(n string) { noted = n }
	s.abandon(why)
	if s.Stream != nil || !strings.Contains(noted, "messages appear when they are complete. (unreachable)") {
		t.Errorf("noted %q", noted)
	}
}

// silent is a cluster whose Turns do not change.
type silent struct{ client.WithWatch }

// List implements client.Reader.
func (silent) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func positionAt(events int64) history.Position { return history.Position{Next: 1, Events: events} }

// TestEventsBeforeTheStateOfASteeredTurnAreShown, if they follow from its message: the stream may be the faster one.
func TestEventsBeforeTheStateOfASteeredTurnAreShown(t *testing.T) {
	s := following("a")
	var shown []int64
	s.yield = func(u Update, _ error) bool {
		if u.Item != nil {
			shown = append(shown, u.Item.Public.Sequence)
		}
		return true
	}
	for _, e := range []stream.Event{
		durable(1, "b", stream.TypeOutputMessageCompleted, 1),
		durable(2, "b", stream.TypeInputMessage, 1),
		delta("b", "live"),
		durable(3, "c", stream.TypeInputMessage, 1),
		durable(4, "b", stream.TypeOutputMessageCompleted, 2),
		durable(5, "b", stream.TypeTurnCompleted, 2),
	} {
		s.event(e)
	}
	s.turn, s.names["b"] = "b", true
	if !s.replay("b") || !slices.Equal(shown, []int64{2, 4, 5}) {
		t.Errorf("shown %v", shown)
	}
}
