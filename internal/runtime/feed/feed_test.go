package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// Rules: EVT-02.
func TestASubscriberGetsEachDurableEventOnceFromWhereItContinues(t *testing.T) {
	b := newBench(t, many())
	b.step("one")
	b.step("two")
	all, late, last := b.subscribe(0), b.subscribe(3), b.subscribe(4)
	all.expect("turn.started 1", "output.message.completed 2", "turn.started 3", "output.message.completed 4")
	all.expect("stream.synced")
	late.expect("output.message.completed 4", "stream.synced")
	last.expect("stream.synced")
	b.step("three")
	for _, s := range []*subscriber{all, late, last} {
		s.expect("turn.started 5", "output.message.completed 6")
		s.nothing()
	}
}

func TestAnEntryIsReadFromTheStoreByNobodyOnceItIsKnown(t *testing.T) {
	b := newBench(t, many())
	b.step("one")
	first := b.subscribe(0)
	first.expect("turn.started 1", "output.message.completed 2", "stream.synced")
	b.store.Reset()
	b.step("two")
	written := b.store.Reads()
	for range 10 {
		b.subscribe(2).expect("turn.started 3", "output.message.completed 4", "stream.synced")
	}
	first.expect("turn.started 3", "output.message.completed 4")
	first.nothing()
	if reads := b.store.Reads() - written; reads != 0 {
		t.Errorf("%d reads", reads)
	}
}

// Rules: LLM-04.
func TestOneThatJoinsInTheMiddleGetsTheTextOnceAndThenIncrements(t *testing.T) {
	b := newBench(t, many())
	r := b.respond()
	r.Write("One")
	early := b.subscribe(0)
	early.expect("stream.synced")
	early.delta(0, "One")
	r.Write("One two")
	early.delta(3, " two")
	late := b.subscribe(0)
	late.expect("stream.synced")
	late.delta(0, "One two")
	r.Write("One two three")
	r.Write("One two three four")
	r.End()
	b.step("One two three four")
	for _, s := range []*subscriber{early, late} {
		s.delta(7, " three four")
		s.expect("turn.started 1", "output.message.completed 2")
		s.nothing()
	}
}

// Rules: LLM-04.
func TestTheTextOfAFailedAttemptIsReplaced(t *testing.T) {
	b := newBench(t, many())
	s := b.subscribe(0)
	s.expect("stream.synced")
	r := b.respond()
	r.Write("Wrong")
	s.delta(0, "Wrong")
	r.Replace()
	r.End()
	s.expect("output.message.replaced")
	s.nothing()
	b.subscribe(0).expect("stream.synced")
	r = b.respond()
	r.Write("Right")
	s.delta(0, "Right")
}

func TestADeltaIsCutBetweenCharacters(t *testing.T) {
	b := newBench(t, many())
	r := b.respond()
	text := "a" + strings.Repeat("ü", maxDelta)
	r.Write(text)
	s := b.subscribe(0)
	s.expect("stream.synced")
	got := ""
	for got != text {
		e := s.next()
		data, err := stream.Decode[stream.OutputMessageDelta](e)
		if err != nil || data.Offset != int64(len(got)) || len(data.Text) > maxDelta ||
			!strings.HasPrefix(text[len(got):], data.Text) {
			t.Fatalf("after %d bytes: %d bytes at %d, %v", len(got), len(data.Text), data.Offset, err)
		}
		got += data.Text
	}
}

// TestOneThatReadsNothingLosesNoDurableEvent: what is live is merged meanwhile, and nothing is queued for it.
func TestOneThatReadsNothingLosesNoDurableEvent(t *testing.T) {
	b := newBench(t, many())
	slow := b.subscribe(0)
	slow.expect("stream.synced")
	for i := range 200 {
		r := b.respond()
		for n := range 20 {
			r.Write(strings.Repeat("x", n+1))
		}
		r.End()
		b.step(strings.Repeat("x", 20))
		b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseReason, int32(i)))
	}
	for i := range int64(200) {
		slow.expect(fmt.Sprintf("turn.started %d", 2*i+1), fmt.Sprintf("output.message.completed %d", 2*i+2))
	}
	slow.expect("turn.state")
	slow.nothing()
}

func turnIn(phase v1alpha1.TurnPhase, step int32) *v1alpha1.Turn {
	t := &v1alpha1.Turn{}
	t.Name, t.UID, t.Status.Phase, t.Status.Plan = "t", "turn-uid", phase, &v1alpha1.TurnPlan{Step: step}
	return t
}

func TestTheStateOfATurnIsSentWhenItChanges(t *testing.T) {
	b := newBench(t, many())
	s, err := b.Subscribe(Request{
		Session: b.session, User: "u", Turns: []*v1alpha1.Turn{turnIn(v1alpha1.TurnPhaseReason, 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	one := &subscriber{s, t}
	one.expect("stream.synced", "turn.state")
	b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseReason, 1))
	one.nothing()
	b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseAct, 2))
	done := turnIn(v1alpha1.TurnPhaseSucceeded, 2)
	done.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
	b.Turn(b.session.UID, done)
	one.expect("turn.state")
	one.nothing()
	// The end is in the journal.
	late := b.subscribe(0)
	late.expect("stream.synced")
	late.nothing()
}

// Rules: CTX-03.
func TestTheProgressOfACallIsSentUntilItsResult(t *testing.T) {
	b := newBench(t, many())
	s := b.subscribe(0)
	s.expect("stream.synced")
	if !b.bus.Wanted(b.session.UID) || b.bus.Wanted("other") {
		t.Error("the wrong events are wanted")
	}
	f := event.NewFactory(event.Identity{Session: b.session.UID, Turn: "t"}, b.Clock).Step(2, 1)
	report := func(done float64) {
		b.bus.Publish(live.Event{
			UID: b.session.UID, Turn: v1alpha1.JournalTurn{Name: "t", UID: "t"},
			Event: f.ToolProgress(event.ToolProgress{ToolCallID: "1-0", ToolName: "x", Progress: done}),
		})
	}
	report(1)
	s.expect("tool.progress")
	report(2)
	report(3)
	if data, err := stream.Decode[stream.ToolProgress](s.next()); err != nil || data.Progress != 3 {
		t.Errorf("the progress is %+v, %v", data, err)
	}
	b.step("x")
	s.expect("turn.started 1", "output.message.completed 2")
	s.nothing()
	late := b.subscribe(2)
	late.expect("stream.synced")
	late.nothing()
	s.Close()
	late.Close()
	if b.bus.Wanted(b.session.UID) || b.Wanted(b.session.UID) || b.Subscribers() != 0 {
		t.Error("events without a subscriber are wanted")
	}
}

func TestAStreamEndsWithItsSessionAndWithTheHub(t *testing.T) {
	b := newBench(t, many())
	s := b.subscribe(0)
	s.expect("stream.synced")
	b.End(b.session.UID, stream.EndedSessionDeleted)
	var ended *EndedError
	if _, err := s.Next(t.Context()); !errors.As(err, &ended) || ended.Reason != stream.EndedSessionDeleted {
		t.Errorf("the error is %v", err)
	}
	s.Close()
	s = b.subscribe(0)
	s.expect("stream.synced")
	b.Close()
	if _, err := s.Next(t.Context()); !errors.As(err, &ended) || ended.Reason != stream.EndedShutdown {
		t.Errorf("the error is %v", err)
	}
	s.Close()
	if _, err := b.Subscribe(Request{Session: b.session}); !errors.As(err, &ended) || b.Subscribers() != 0 {
		t.Errorf("the error is %v, with %d subscribers", err, b.Subscribers())
	}
}

func TestASequenceNumberThatTheJournalDoesNotHaveIsAnError(t *testing.T) {
	b := newBench(t, many())
	b.step("x")
	if _, err := b.subscribe(3).Next(t.Context()); !errors.Is(err, ErrBeyond) {
		t.Errorf("the error is %v", err)
	}
	b.subscribe(2).expect("stream.synced")
}

func TestAFailedReadIsTriedAgain(t *testing.T) {
	b := newBench(t, many())
	b.step("x")
	b.log = nil
	failing := true
	broken := errors.New("broken")
	b.Hub.Log = journal.New(b.store, journal.Options{BeforeFollow: func(context.Context, string) error {
		if failing {
			return broken
		}
		return nil
	}})
	s := b.subscribe(0)
	if _, err := s.Next(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	failing = false
	s.expect("turn.started 1", "output.message.completed 2", "stream.synced")
}

func TestSubscribersAreBounded(t *testing.T) {
	session := func(namespace, name string) journal.Session {
		return journal.Session{Namespace: namespace, Name: name, UID: journal.Session{Name: namespace + name}.UID + "u"}
	}
	for name, test := range map[string]struct {
		limits Limits
		other  Request
		want   string
	}{
		"session":   {Limits{4, 4, 4, 1}, Request{Session: session("a", "s"), User: "v"}, "Session"},
		"user":      {Limits{4, 4, 1, 4}, Request{Session: session("b", "t"), User: "u"}, "user"},
		"namespace": {Limits{4, 1, 4, 4}, Request{Session: session("a", "t"), User: "v"}, "namespace"},
		"all":       {Limits{1, 4, 4, 4}, Request{Session: session("b", "t"), User: "v"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, test.limits)
			first, err := b.Subscribe(Request{Session: session("a", "s"), User: "u"})
			if err != nil {
				t.Fatal(err)
			}
			var limit *LimitError
			if _, err := b.Subscribe(test.other); !errors.As(err, &limit) || limit.Of != test.want || limit.Limit != 1 {
				t.Errorf("the error is %v", err)
			}
			first.Close()
			first.Close()
			second, err := b.Subscribe(test.other)
			if err != nil {
				t.Fatal(err)
			}
			second.Close()
			if len(b.counts.namespaces)+len(b.counts.users)+len(b.counts.sessions)+b.Subscribers() != 0 {
				t.Errorf("the counts are %+v", b.counts)
			}
		})
	}
}

// TestAResponseGoesOnWhileASubscriberIsServed: the model calls of all Sessions wait for the lock of the Bus.
func TestAResponseGoesOnWhileASubscriberIsServed(t *testing.T) {
	b := newBench(t, many())
	r := b.respond()
	r.Write("One")
	encoding := func() {}
	b.Clock = func() time.Time {
		encoding()
		return time.Now()
	}
	s := b.subscribe(0)
	s.expect("stream.synced")
	encoding = func() {
		encoding = func() {}
		written := make(chan struct{})
		go func() {
			defer close(written)
			r.Write("One two")
		}()
		select {
		case <-written:
		case <-time.After(5 * time.Second):
			t.Error("the response waits for the encoding of an event")
		}
	}
	s.delta(0, "One")
	s.delta(3, " two")
}

func TestSubscribersThatAreEquallyFarShareAnEncodedDelta(t *testing.T) {
	b := newBench(t, many())
	encoded := 0
	b.Clock = func() time.Time {
		encoded++
		return time.Now()
	}
	r := b.respond()
	r.Write("a" + strings.Repeat("ü", maxDelta))
	subscribers := []*subscriber{b.subscribe(0), b.subscribe(0)}
	for _, s := range subscribers {
		s.expect("stream.synced")
	}
	encoded = 0
	for range 3 {
		for _, s := range subscribers {
			s.expect("output.message.delta")
		}
	}
	if encoded != 3 {
		t.Errorf("three deltas for two subscribers were encoded %d times", encoded)
	}
}

// TestASessionIsServedWhileTheTurnsOfAnotherAreEncoded: all Sessions share the lock of the Hub.
func TestASessionIsServedWhileTheTurnsOfAnotherAreEncoded(t *testing.T) {
	b := newBench(t, many())
	turn := &v1alpha1.Turn{}
	turn.Name, turn.UID, turn.Status.Phase = "t", "turn-uid", v1alpha1.TurnPhaseQueued
	encoded := 0
	b.Clock = func() time.Time {
		encoded++
		served := make(chan struct{})
		go func() {
			defer close(served)
			b.Noticed("another", 1)
		}()
		select {
		case <-served:
		case <-time.After(5 * time.Second):
			t.Error("another Session waits for the encoding of a Turn")
		}
		return time.Now()
	}
	s, err := b.Subscribe(Request{Session: b.session, User: "u", Turns: []*v1alpha1.Turn{turn}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if encoded == 0 {
		t.Error("the Turn was not encoded")
	}
}

// A Turn that was deleted while it ran does not seem to run to those who join later. The end of another one is shown to
// those who have not seen it yet.
func TestNoLiveStateIsLeftOfADeletedTurn(t *testing.T) {
	b := newBench(t, many())
	s := b.subscribe(0)
	s.expect("stream.synced")
	b.Turn(b.session.UID, turnIn(v1alpha1.TurnPhaseAct, 1))
	s.expect("turn.state")
	f := event.NewFactory(event.Identity{Session: b.session.UID, Turn: "turn-uid"}, time.Now).Step(1, 1)
	b.bus.Publish(live.Event{
		UID: b.session.UID, Turn: v1alpha1.JournalTurn{Name: "t", UID: "turn-uid"},
		Event: f.ToolProgress(event.ToolProgress{ToolCallID: "1-0", ToolName: "x", Progress: 1}),
	})
	s.expect("tool.progress")
	ended := turnIn(v1alpha1.TurnPhaseAct, 2)
	ended.UID = "ended"
	ended.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
	b.Turn(b.session.UID, ended)
	b.TurnDeleted(b.session.UID, "ended")
	b.TurnDeleted(b.session.UID, "turn-uid")
	s.expect("turn.state")
	late := b.subscribe(0)
	late.expect("stream.synced")
	late.nothing()
}
