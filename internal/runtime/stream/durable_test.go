package stream

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

var (
	at       = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	session  = journal.Session{Namespace: "ns", Name: "s", UID: "session-uid"}
	turn     = journal.Turn{Name: "t", UID: "turn-uid"}
	identity = event.Identity{Session: session.UID, Turn: turn.UID, InputMessage: string(turn.UID)}
)

func factory() event.Factory { return event.NewFactory(identity, func() time.Time { return at }) }

func step(events ...event.Event) *journal.Closed {
	event.Identify(turn.UID, 2, events)
	return &journal.Closed{Turn: turn, Step: 2, Events: events}
}

// Rules: EVT-01, EVT-02.
func TestTheEventsOfAStepAreNumberedInOrder(t *testing.T) {
	f := factory()
	closed := step(f.SessionActivated(), f.TurnStarted("hi"), f.TurnCompleted(event.TurnCompleted{Iterations: 1}))
	events, err := Durable(session, closed, 41)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Durable(session, closed, 41)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(events)
	two, _ := json.Marshal(again)
	if !bytes.Equal(one, two) {
		t.Errorf("the events differ from read to read:\n%s\n%s", one, two)
	}
	for i, e := range events {
		if e.Sequence != 41+int64(i) || e.ID != closed.Events[i].ID || e.Live || e.Step != 2 || *e.Turn != (stream.Turn{
			Name: "t", UID: "turn-uid",
		}) {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	want := `{"type":"turn.started","id":"` + events[1].ID + `","sequence":42,"time":"2026-03-04T05:06:07.000000Z",` +
		`"session":{"namespace":"ns","name":"s","uid":"session-uid"},"turn":{"name":"t","uid":"turn-uid"},"step":2,` +
		`"context":{"input_message_id":"turn-uid","turn_id":"turn-uid"},` +
		`"data":{"turn_id":"turn-uid","input_message_id":"turn-uid","input_content":"hi"}}`
	if raw, err := json.Marshal(events[1]); err != nil || string(raw) != want {
		t.Errorf("the event is\n%s\nnot\n%s\n%v", raw, want, err)
	}
}

// Rules: EVT-02.
func TestReasoningAndFencesAreNotPublic(t *testing.T) {
	f := factory()
	message := event.NewAssistantParts([]event.Part{
		{Type: event.PartReasoning, Reasoning: &event.Reasoning{Summary: "hidden-thoughts"}}, event.Text("said"),
	}, nil)
	completed := f.Step(2, 1).ToolCompleted(event.ToolCompleted{ToolCallID: "1-0", ToolName: "x", Success: true})
	fence := mustDecode[event.ToolCompleted](t, completed).Fence
	events, err := Durable(session, step(f.OutputMessage(event.OutputMessageCompleted{Message: message}), completed), 1)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	if fence == "" || strings.Contains(string(raw), fence) || strings.Contains(string(raw), "hidden-thoughts") ||
		!strings.Contains(string(raw), "said") {
		t.Errorf("the events are %s", raw)
	}
}

// Rules: EVT-03.
func TestATypeOfALaterBuildHasNoData(t *testing.T) {
	unknown := event.Event{
		ID: "x", Type: "later.type", Time: event.MicroTime(at), Data: &v1alpha1.JSON{Raw: []byte(`{"a":1}`)},
	}
	events, err := Durable(session, &journal.Closed{Turn: turn, Events: []event.Event{unknown}}, 1)
	if err != nil || len(events) != 1 || events[0].Type != "later.type" || events[0].Data != nil {
		t.Errorf("the events are %+v, %v", events, err)
	}
}

func TestDataThatDoesNotFitItsTypeIsAnError(t *testing.T) {
	broken := event.Event{ID: "x", Type: event.TypeTurnStarted, Data: &v1alpha1.JSON{Raw: []byte(`"a"`)}}
	if _, err := Durable(session, &journal.Closed{Events: []event.Event{broken}}, 1); err == nil {
		t.Error("no error")
	}
}

func TestTheStateOfATurnIsThatOfItsStatus(t *testing.T) {
	until := event.MicroTime(at)
	of := &v1alpha1.Turn{Status: v1alpha1.TurnStatus{TurnProgress: v1alpha1.TurnProgress{
		Phase: v1alpha1.TurnPhaseWaiting, Plan: &v1alpha1.TurnPlan{Step: 4},
		WaitsFor: []v1alpha1.TurnWait{{Type: v1alpha1.WaitTypeBackoff, Reason: "r", Message: "m", Until: &until}},
		ToolCalls: []v1alpha1.ToolCall{{
			ID: "1-0", Name: "x", State: v1alpha1.ToolCallStateWaiting, Reason: "Approval", Attempt: 2, Arguments: "secret",
		}},
	}}}
	raw, err := json.Marshal(State(of))
	want := `{"phase":"Waiting","step":4,"waits":[{"type":"Backoff","reason":"r","message":"m",` +
		`"until":"2026-03-04T05:06:07.000000Z"}],` +
		`"tool_calls":[{"id":"1-0","name":"x","state":"Waiting","reason":"Approval","attempt":2}]}`
	if err != nil || string(raw) != want {
		t.Errorf("the state is\n%s\nnot\n%s\n%v", raw, want, err)
	}
}

// Rules: CTX-03.
func TestProgressIsALiveEventWithoutANumber(t *testing.T) {
	e, err := Progress(session, stream.Turn{Name: "t", UID: "turn-uid"}, factory().Step(2, 1).ToolProgress(
		event.ToolProgress{ToolCallID: "1-0", ToolName: "x", Message: "half", Progress: 1, Total: 2}))
	if err != nil || !e.Live || e.Sequence != 0 || e.ID != "" || e.Type != stream.TypeToolProgress {
		t.Fatalf("the event is %+v, %v", e, err)
	}
	if data, err := stream.Decode[stream.ToolProgress](e); err != nil || data.Message != "half" || data.Total != 2 {
		t.Errorf("the data is %+v, %v", data, err)
	}
}

func mustDecode[T any](t *testing.T, e event.Event) T {
	t.Helper()
	data, err := event.Decode[T](e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
