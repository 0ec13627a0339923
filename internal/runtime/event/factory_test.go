package event

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var (
	at       = time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("east", 3600))
	identity = Identity{Session: "session-uid", Turn: "6f8a1c9e-0000-4000-8000-00000000abcd", InputMessage: "message-id"}
)

func factory() Factory {
	return NewFactory(identity, func() time.Time { return at })
}

// Rules: LIFE-01.
func TestLifecycleEventsHaveTheTurnContextAlone(t *testing.T) {
	f := factory()
	for _, test := range []struct {
		kind  string
		event Event
		data  string
	}{
		{"session.activated", f.SessionActivated(), `{"turn_id":"TURN","input_message_id":"message-id"}`},
		{"turn.started", f.TurnStarted("hi"), `{"turn_id":"TURN","input_message_id":"message-id","input_content":"hi"}`},
		{"turn.started", f.TurnStarted(""), `{"turn_id":"TURN","input_message_id":"message-id"}`},
		{
			"turn.completed", f.TurnCompleted(
				TurnCompleted{Iterations: 2, Usage: UsageOf(v1alpha1.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3})},
			),
			`{"turn_id":"TURN","iterations":2,"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3},` +
				`"status":"completed"}`,
		},
		{
			"turn.failed", f.TurnFailed(TurnFailed{Error: "why", ErrorCode: "code", ErrorFields: map[string]string{"a": "b"}}),
			`{"turn_id":"TURN","error":"why","error_code":"code","error_fields":{"a":"b"}}`,
		},
		{
			"turn.failed", f.TurnFailed(TurnFailed{Error: "why", ErrorFields: map[string]string{}}),
			`{"turn_id":"TURN","error":"why"}`,
		},
		{"session.idled", f.SessionIdled(SessionIdled{}), `{"turn_id":"TURN"}`},
		{
			"output.message.completed", f.OutputMessage(OutputMessageCompleted{Message: Message{ID: "m", Role: RoleAssistant}}),
			`{"message":{"id":"m","role":"assistant","content":null}}`,
		},
		{
			"input.message", f.InputMessage(Message{ID: "m", Role: RoleUser, Content: []Part{Text("x")}}),
			`{"message":{"id":"m","role":"user","content":[{"type":"text","text":"x"}]}}`,
		},
	} {
		if test.event.Type != test.kind {
			t.Errorf("the type is %s, not %s", test.event.Type, test.kind)
		}
		if want := strings.ReplaceAll(test.data, "TURN", string(identity.Turn)); string(test.event.Data.Raw) != want {
			t.Errorf("%s has the data\n%s\nnot\n%s", test.kind, test.event.Data.Raw, want)
		}
		if len(test.event.Context) != 2 || test.event.Context[ContextTurn] != string(identity.Turn) ||
			test.event.Context[ContextInputMessage] != "message-id" {
			t.Errorf("%s has the context %v", test.kind, test.event.Context)
		}
	}
	if e := NewFactory(
		Identity{Turn: "t"},
		nil,
	).SessionActivated(); len(e.Context) != 1 ||
		time.Since(e.Time.Time) > time.Hour {
		t.Errorf("without message and clock the event is %+v", e)
	}
}

// Rules: EVT-02.
func TestEventsHaveUUIDv8AndTheTimeOfTheClockInMicroseconds(t *testing.T) {
	a, b := factory().SessionActivated(), factory().At(at.Add(time.Hour)).SessionActivated()
	events := []Event{a, b}
	Identify("turn", 1, events)
	for _, e := range events {
		id, err := uuid.Parse(e.ID)
		if err != nil || id.Version() != 8 {
			t.Errorf("the id %s: version %d, %v", e.ID, id.Version(), err)
		}
	}
	if events[0].ID == events[1].ID {
		t.Error("two events share an id")
	}
	raw, err := json.Marshal(a.Time)
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != `"2026-03-04T04:06:07.123456Z"` || a.Time.Nanosecond()%1000 != 0 {
		t.Errorf("the time is %s (%v)", raw, a.Time)
	}
	if !b.Time.Equal(ptr(MicroTime(at.Add(time.Hour)))) {
		t.Errorf("the given time is %v", b.Time)
	}
}

// Rules: PHASE-09.
func TestSpansNestAndArePairedOverProcesses(t *testing.T) {
	first, second := factory().Step(2, 1), factory().At(at.Add(time.Minute)).Step(2, 1)
	started := first.ToolStarted(ToolStarted{ToolCall: ToolCall{ID: "1-0", Name: "tool"}})
	completed := second.ToolCompleted(ToolCompleted{ToolCallID: "1-0", ToolName: "tool"})
	act, other := first.ActStarted(ActStarted{}), second.ActCompleted(ActCompleted{})
	if started.Context[ContextSpan] != completed.Context[ContextSpan] ||
		act.Context[ContextSpan] != other.Context[ContextSpan] {
		t.Error("started and completed do not share a span")
	}
	if started.Context[ContextParentSpan] != act.Context[ContextSpan] {
		t.Error("the tool's span is not a child of the act's")
	}
	if act.Context[ContextParentSpan] != TurnSpan(identity.Turn) || act.Context[ContextTrace] != string(identity.Turn) {
		t.Error("the act's span is not a child of the turn's, in the turn's trace")
	}
	if act.Context[ContextExec] != "2-1" || started.Context[ContextExec] != "2-1" || ExecID(2, 1) != "2-1" {
		t.Errorf("the run is %s", act.Context[ContextExec])
	}
	spans := map[string]bool{}
	for _, span := range []string{
		TurnSpan(identity.Turn), act.Context[ContextSpan], started.Context[ContextSpan],
		factory().Step(2, 2).ActStarted(
			ActStarted{},
		).Context[ContextSpan], factory().Step(3, 1).ActStarted(ActStarted{}).Context[ContextSpan],
		first.ToolStarted(ToolStarted{ToolCall: ToolCall{ID: "1-1"}}).Context[ContextSpan],
	} {
		if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(span) || spans[span] {
			t.Errorf("the span %q is invalid, or is used twice", span)
		}
		spans[span] = true
	}
	if want := "00-6f8a1c9e00004000800000000000abcd-" + started.Context[ContextSpan] + "-01"; first.TraceParent(
		"1-0",
	) != want {
		t.Errorf("the traceparent is %s, not %s", first.TraceParent("1-0"), want)
	}
}

func TestTraceParentIsValidWhateverTheUID(t *testing.T) {
	for _, uid := range []string{"", "x", "00000000-0000-0000-0000-000000000000", strings.Repeat("a", 40)} {
		parent := Factory{identity: Identity{Turn: "x"}}.Step(1, 1).TraceParent(uid)
		if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(parent) ||
			strings.Contains(parent, strings.Repeat("0", 32)) {
			t.Errorf("the traceparent is %s", parent)
		}
	}
}

func TestStepEventsHaveTheirTurnAndData(t *testing.T) {
	s := factory().Step(1, 1)
	for _, test := range []struct {
		kind  string
		event Event
		data  string
	}{
		{"reason.started", s.ReasonStarted(ReasonStarted{Iteration: 1, Model: "m"}), `{"iteration":1,"model":"m"}`},
		{
			"transcript.repaired", s.TranscriptRepaired(TranscriptRepaired{"1-0", "tool", ActionReplay}),
			`{"tool_call_id":"1-0","tool_name":"tool","action":"replay"}`,
		},
		{
			"output.message.started", s.OutputMessageStarted(OutputMessageStarted{MessageID: "m"}),
			`{"turn_id":"6f8a1c9e-0000-4000-8000-00000000abcd","message_id":"m"}`,
		},
		{
			"llm.generation", s.LLMGeneration(LLMGeneration{Success: true}),
			`{"message_count":0,"tool_count":0,"tool_call_count":0,"success":true}`,
		},
		{
			"output.message.completed", s.OutputMessageCompleted(OutputMessageCompleted{ResponseID: "r"}),
			`{"message":{"id":"","role":"","content":null},"response_id":"r"}`,
		},
		{"reason.recovered", s.ReasonRecovered(ReasonRecovered{Mode: RecoveredRestart}), `{"mode":"restart","length":0}`},
		{
			"reason.completed", s.ReasonCompleted(ReasonCompleted{Error: "e"}),
			`{"success":false,"has_tool_calls":false,"tool_call_count":0,"error":"e"}`,
		},
		{
			"act.started", s.ActStarted(ActStarted{ToolCalls: []CallSummary{{"1-0", "tool"}}}),
			`{"tool_calls":[{"id":"1-0","name":"tool"}]}`,
		},
		{
			"act.completed", s.ActCompleted(ActCompleted{Completed: true}),
			`{"completed":true,"success_count":0,"error_count":0}`,
		},
		{
			"tool.call_requested", s.ToolCallRequested(
				ToolCallRequested{ToolCalls: []RequestedCall{{ID: "1-0", Name: "tool", Arguments: "{"}}},
			),
			`{"tool_calls":[{"id":"1-0","name":"tool","arguments":"{"}]}`,
		},
		{
			"tool.started", s.ToolStarted(ToolStarted{ToolCall: ToolCall{ID: "1-0", Name: "tool", Arguments: "{"}}),
			`{"tool_call":{"id":"1-0","name":"tool","arguments":"{"}}`,
		},
		{
			"tool.completed", s.ToolCompleted(
				ToolCompleted{ToolCallID: "1-0", ToolName: "tool", Status: StatusSuccess, Success: true, Result: []Part{Text("")}},
			),
			`{"tool_call_id":"1-0","tool_name":"tool","success":true,"status":"success","result":[{"type":"text"}],` +
				`"fence":"NONCE"}`,
		},
	} {
		got := regexp.MustCompile(`"fence":"[0-9a-f]{16}"`).ReplaceAllString(string(test.event.Data.Raw), `"fence":"NONCE"`)
		if test.event.Type != test.kind || got != test.data {
			t.Errorf("got %s with\n%s\nwant %s with\n%s", test.event.Type, got, test.kind, test.data)
		}
		if len(test.event.Context) != 6 {
			t.Errorf("%s has the context %v", test.kind, test.event.Context)
		}
	}
	if e := s.At(at.Add(time.Hour)).ActStarted(ActStarted{}); !e.Time.Equal(ptr(MicroTime(at.Add(time.Hour)))) {
		t.Errorf("the given time is %v", e.Time)
	}
}

func TestMetadataThatJSONCannotEncodeIsReplaced(t *testing.T) {
	m := NewAssistantMessage("x", nil)
	m.Metadata = map[string]any{"good": "yes", "channel": make(chan int), "infinite": math.Inf(1)}
	for _, e := range []Event{
		factory().InputMessage(m), factory().OutputMessage(OutputMessageCompleted{Message: m}),
		factory().Step(1, 1).OutputMessageCompleted(OutputMessageCompleted{Message: m}),
	} {
		got, ok, err := MessageOf(e)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if got.Metadata["good"] != "yes" || got.Metadata["channel"] != "a value of type chan int, which JSON cannot say" ||
			len(got.Metadata) != 3 {
			t.Errorf("the metadata is %v", got.Metadata)
		}
	}
	if _, isChannel := m.Metadata["channel"].(chan int); !isChannel {
		t.Error("the caller's metadata was changed")
	}
}

// Rules: EVT-01, EVT-02, EVT-03.
func TestEnvelopeIsTheWireForm(t *testing.T) {
	e := factory().SessionActivated()
	raw, err := json.Marshal(factory().Envelope(e, 42))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"` + e.ID + `","type":"session.activated","ts":"2026-03-04T04:06:07.123Z","session_id":"session-uid",` +
		`"sequence":42,` +
		`"context":{"input_message_id":"message-id","turn_id":"6f8a1c9e-0000-4000-8000-00000000abcd"},` +
		`"data":{"turn_id":"6f8a1c9e-0000-4000-8000-00000000abcd","input_message_id":"message-id"}}`
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
	e.Context, e.Data = nil, nil
	if raw, err = json.Marshal(factory().Envelope(e, 1)); err != nil || !strings.Contains(string(raw), `"context":{}}`) {
		t.Errorf("without context and data: %s, %v", raw, err)
	}
}

func ptr[T any](v T) *T { return &v }

// Rules: TOOL-11.
func TestATurnContinuesAGivenTrace(t *testing.T) {
	const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	step := NewFactory(Identity{Turn: "6f8a1c9e-0000-4000-8000-00000000abcd", TraceParent: given}, nil).Step(1, 1)
	for _, parent := range []string{step.TraceParent("1-0"), step.ModelTraceParent(0), step.ModelTraceParent(1)} {
		if !strings.HasPrefix(parent, given[:36]) || !strings.HasSuffix(parent, "-00") || parent == given {
			t.Errorf("the traceparent is %s", parent)
		}
	}
	if step.ModelTraceParent(0) == step.ModelTraceParent(1) {
		t.Error("two model calls have one span")
	}
	for _, invalid := range []string{
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		given + "-x", "01" + given[2:], "x",
	} {
		if got := TraceOf("6f8a1c9e-0000-4000-8000-00000000abcd", invalid); got.Parent != "" ||
			got.ID != "6f8a1c9e00004000800000000000abcd" {
			t.Errorf("with %q the trace is %+v", invalid, got)
		}
	}
}
