package feed

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// followed is an Outputs that a test writes to.
type followed struct {
	receive func(Output)
	turns   []string
	ended   int
}

func (f *followed) Follow(_ journal.Session, receive func(Output)) (end func()) {
	f.receive = receive
	return func() { f.ended++ }
}

func (f *followed) Turn(session types.UID, turn *v1alpha1.Turn) {
	f.turns = append(f.turns, string(session)+"/"+turn.Name)
}

// write passes on a piece of output of a call of the next Turn of a bench.
func (f *followed) write(step int32, call, text string) {
	f.receive(Output{
		Turn: stream.Turn{Name: "t", UID: "turn-1"}, Step: step, Context: map[string]string{"span_id": "x"},
		Data: stream.ToolOutputDelta{ToolCallID: call, ToolName: "w", Attempt: 1, Stream: stream.StreamStderr, Delta: text},
	})
}

// output waits for a piece of output.
func (s *subscriber) output(call, text string) {
	s.t.Helper()
	e := s.next()
	data, err := stream.Decode[stream.ToolOutputDelta](e)
	if err != nil || e.Type != stream.TypeToolOutputDelta || data.ToolCallID != call || data.Delta != text || !e.Live ||
		e.Turn.UID != "turn-1" || e.Context["span_id"] != "x" || data.Stream != "stderr" {
		s.t.Fatalf("the event is %+v (%s), %v, not %q of %s", e, e.Data, err, text, call)
	}
}

func newFollowed(t *testing.T) (*bench, *followed) {
	b, f := newBench(t, many()), &followed{}
	b.Outputs = f
	return b, f
}

// Rules: CTX-04.
func TestTheOutputOfACallIsFollowedForSubscribersOnly(t *testing.T) {
	b, f := newFollowed(t)
	b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseAct, 1))
	if f.receive != nil || len(f.turns) > 0 {
		t.Fatal("the output is followed without a subscriber")
	}
	one, err := b.Subscribe(Request{
		Session: b.session, User: "u", Turns: []*v1alpha1.Turn{turnIn(v1alpha1.TurnPhaseAct, 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	other := b.subscribe(0)
	b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseAct, 2))
	if got := strings.Join(f.turns, " "); got != "session-uid/t session-uid/t" {
		t.Errorf("it learns of the Turns %q", got)
	}
	one.Close()
	if f.ended != 0 {
		t.Error("following ends before the last subscriber")
	}
	other.Close()
	if f.ended != 1 {
		t.Errorf("following ends %d times", f.ended)
	}
	f.write(1, "1-0", "late")
}

// Rules: CTX-04, TOOL-11.
func TestTheOutputOfACallComesBeforeItsResult(t *testing.T) {
	b, f := newFollowed(t)
	s := b.subscribe(0)
	s.expect("stream.synced")
	f.write(1, "1-0", "one\n")
	f.write(1, "1-1", "other\n")
	f.write(1, "1-0", "two\n")
	s.output("1-0", "one\n")
	late := b.subscribe(0)
	late.expect("stream.synced")
	for _, text := range []string{"one\n", "other\n", "two\n"} {
		late.output(map[bool]string{true: "1-1", false: "1-0"}[text == "other\n"], text)
	}
	b.step("x")
	s.expect("turn.started 1", "output.message.completed 2")
	s.nothing()
	f.write(1, "1-0", "late")
	s.nothing()
	f.write(2, "2-0", "next")
	s.output("2-0", "next")
	late.expect("turn.started 1", "output.message.completed 2")
}

// Rules: CTX-04.
func TestOneWhoReadsSlowlyGetsTheEndOfTheOutput(t *testing.T) {
	b, f := newFollowed(t)
	s := b.subscribe(0)
	s.expect("stream.synced")
	f.write(1, "quiet", "q")
	for range 1000 {
		f.write(1, "1-0", strings.Repeat("x", 1000))
		f.write(1, "1-1", strings.Repeat("y", 1000))
	}
	feed := b.feed(b.session.UID)
	sum, each := 0, map[string]int{}
	for _, p := range feed.outputs.all {
		sum += p.bytes()
		each[p.call] += p.bytes()
	}
	if sum > outputBytes || each["1-0"] > callOutputBytes || each["1-1"] > callOutputBytes ||
		each["1-0"] < callOutputBytes/2 || each["1-1"] < callOutputBytes/2 {
		t.Errorf("%d bytes are kept, of the calls %v", sum, each)
	}
	for range len(feed.outputs.all) {
		s.expect("tool.output.delta")
	}
	s.nothing()
}

func TestALoudCallDoesNotHideAQuietOne(t *testing.T) {
	b, f := newFollowed(t)
	s := b.subscribe(0)
	s.expect("stream.synced")
	f.write(1, "quiet", "q")
	for range 1000 {
		f.write(1, "loud", strings.Repeat("x", 1000))
	}
	s.output("quiet", "q")
	s.output("loud", strings.Repeat("x", 1000))
}

// The status of a Turn is later than its journal: what still comes then is not shown to one who joins with the result.
// Rules: CTX-04, TOOL-11.
func TestOneWhoJoinsWithTheResultGetsNoOutputOfTheStep(t *testing.T) {
	b, f := newFollowed(t)
	b.step("x")
	s := b.subscribe(0)
	f.write(1, "1-0", "before")
	s.expect("turn.started 1", "output.message.completed 2", "stream.synced")
	f.write(1, "1-0", "late")
	s.nothing()
	f.write(2, "2-0", "next")
	s.output("2-0", "next")
	again := b.subscribe(0)
	again.expect("turn.started 1", "output.message.completed 2", "stream.synced")
	again.output("2-0", "next")
}

// One who reads an old step does not open the newer ones again.
// Rules: CTX-04, TOOL-11.
func TestASlowReaderBringsNoOutputBack(t *testing.T) {
	b, f := newFollowed(t)
	fast, slow := b.subscribe(0), b.subscribe(0)
	fast.expect("stream.synced")
	slow.expect("stream.synced")
	b.step("x")
	b.step("y")
	fast.expect("turn.started 1", "output.message.completed 2", "turn.started 3", "output.message.completed 4")
	fast.nothing()
	slow.expect("turn.started 1", "output.message.completed 2", "turn.started 3")
	f.receive(Output{Turn: stream.Turn{Name: "t", UID: "turn-2"}, Step: 1})
	fast.nothing()
}

// The output of a Turn that was deleted while its tools ran is not shown to those who join later.
func TestTheOutputOfADeletedTurnIsDropped(t *testing.T) {
	b, f := newFollowed(t)
	s := b.subscribe(0)
	s.expect("stream.synced")
	f.write(1, "1-0", "one")
	s.output("1-0", "one")
	f.receive(Output{Turn: stream.Turn{Name: "u", UID: "turn-2"}, Step: 1})
	s.expect("tool.output.delta")
	b.TurnDeleted(b.session.UID, "turn-2")
	b.TurnDeleted("another", "turn-1")
	late := b.subscribe(0)
	late.expect("stream.synced")
	late.output("1-0", "one")
	late.nothing()
	if len(f.turns) != 1 {
		t.Errorf("it learns of the Turns %q", f.turns)
	}
}
