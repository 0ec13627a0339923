package feed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// bench is a Hub with one Session.
type bench struct {
	*Hub
	t       *testing.T
	bus     *live.Bus
	log     *journal.Log
	store   *journaltest.Store
	session journal.Session
	turns   int
	opened  int64
}

func newBench(t *testing.T, limits Limits) *bench {
	t.Helper()
	b := &bench{t: t, bus: &live.Bus{}, store: journaltest.Wrap(memory.New()), opened: 1}
	b.session = journal.Session{Namespace: "ns", Name: "s", UID: "session-uid"}
	b.log = journal.New(b.store, journal.Options{OnEntry: func(uid types.UID, ordinal int64) { b.Noticed(uid, ordinal) }})
	b.Hub = NewHub(Options{Log: b.log, Bus: b.bus, Limits: limits, Clock: time.Now})
	return b
}

func many() Limits { return Limits{Total: 100, PerNamespace: 100, PerUser: 100, PerSession: 100} }

// step closes a step of a new Turn with a response, and returns the id of its message.
func (b *bench) step(text string) string {
	b.t.Helper()
	b.turns++
	turn := journal.Turn{Name: "t", UID: types.UID("turn-" + strconv.Itoa(b.turns))}
	f := event.NewFactory(event.Identity{Session: b.session.UID, Turn: turn.UID}, time.Now)
	message := event.NewAssistantMessage(text, nil)
	message.ID = event.MessageID(turn.UID, 1)
	closed, err := b.log.Append(b.t.Context(), b.session, journal.Record{
		Turn: turn, Step: 1, OpenedAt: b.opened, Digest: "d",
		Events:     []event.Event{f.TurnStarted("x"), f.OutputMessage(event.OutputMessageCompleted{Message: message})},
		Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseComplete}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.opened = closed.Ordinal + 1
	return message.ID
}

// respond begins the response of the next Turn.
func (b *bench) respond() live.Text {
	turn := types.UID("turn-" + strconv.Itoa(b.turns+1))
	return b.bus.Respond(live.Response{
		UID: b.session.UID, Turn: v1alpha1.JournalTurn{Name: "t", UID: turn}, Message: event.MessageID(turn, 1),
	})
}

// subscriber is a Subscription that a test looks at.
type subscriber struct {
	*Subscription
	t *testing.T
}

func (b *bench) subscribe(after int64) *subscriber {
	b.t.Helper()
	s, err := b.Subscribe(Request{Session: b.session, User: "u", After: after})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return &subscriber{s, b.t}
}

// next waits for an event.
func (s *subscriber) next() stream.Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	frame, err := s.Next(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return decode(s.t, frame)
}

// decode reads a frame as a client does.
func decode(t *testing.T, f Frame) (e stream.Event) {
	t.Helper()
	fields := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(f.Bytes))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok {
			fields[name] = value
		}
	}
	if err := json.Unmarshal([]byte(fields["data"]), &e); err != nil {
		t.Fatalf("%v: %s", err, f.Bytes)
	}
	id := ""
	if e.Sequence > 0 {
		id = strconv.FormatInt(e.Sequence, 10)
	}
	if fields["event"] != e.Type || fields["id"] != id || !strings.HasSuffix(string(f.Bytes), "\n\n") ||
		f.Type != e.Type || f.Sequence != e.Sequence {
		t.Fatalf("the frame is %s", f.Bytes)
	}
	return e
}

// expect waits for events, each given as its type, and the sequence number of a durable one.
func (s *subscriber) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		e := s.next()
		got := e.Type
		if e.Sequence > 0 {
			got += " " + strconv.FormatInt(e.Sequence, 10)
		}
		if got != w {
			s.t.Fatalf("the event is %s (%s), not %s", got, e.Data, w)
		}
	}
}

// delta waits for a delta.
func (s *subscriber) delta(offset int64, text string) {
	s.t.Helper()
	e := s.next()
	data, err := stream.Decode[stream.OutputMessageDelta](e)
	if err != nil || e.Type != stream.TypeOutputMessageDelta || data.Offset != offset || data.Text != text || !e.Live {
		s.t.Fatalf("the event is %+v (%s), %v, not %q at %d", e, e.Data, err, text, offset)
	}
}

// nothing checks that no event is there.
func (s *subscriber) nothing() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Millisecond)
	defer cancel()
	if frame, err := s.Next(ctx); err == nil {
		s.t.Fatalf("there is the event %s", frame.Bytes)
	}
}
