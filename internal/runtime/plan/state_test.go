package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	testTurnID = "0199f3a0-1111-7222-8333-444455556666"
	minimal    = `{"org_id":7,"session_id":"s","harness_id":"h","agent_id":null,"input_message_id":"m"`
)

func testState() State {
	return State{
		OrgID: 7, SessionID: "s", HarnessID: "h", InputMessageID: "m",
		TurnID: testTurnID, Iteration: 3, RequestID: "trace",
	}
}

func decodeState(t *testing.T, text string) State {
	t.Helper()
	var state State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return state
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encoding %#v: %v", value, err)
	}
	return string(data)
}

func ptr[T any](value T) *T { return &value }

func TestStateWritesNullAgentAndOmitsOtherEmptyFields(t *testing.T) {
	state := State{OrgID: 7, SessionID: "s", HarnessID: "h", InputMessageID: "m", Iteration: 2}
	want := minimal + `,"iteration":2}`
	if got := mustJSON(t, state); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStateWritesEveryFieldThatIsSet(t *testing.T) {
	state := State{
		OrgID: -7, SessionID: "s", HarnessID: "h", AgentID: "a", InputMessageID: "m", TurnID: "t",
		PreviousResponseID: "p", Iteration: 2, RequestID: "r",
		Usage:         &Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4},
		ToolCallCount: 5, LLMCallCount: 6, TimeToFirstTokenMS: ptr(int64(0)), LastOutputMessageID: "o",
		FinalAnswerPreview: "f", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
	}
	want := `{"org_id":-7,"session_id":"s","harness_id":"h","agent_id":"a","input_message_id":"m","turn_id":"t",` +
		`"previous_response_id":"p","iteration":2,"request_id":"r",` +
		`"usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},` +
		`"tool_call_count":5,"llm_call_count":6,"time_to_first_token_ms":0,"last_output_message_id":"o",` +
		`"final_answer_preview":"f","started_at":"2026-01-02T03:04:05.006Z"}`
	got := mustJSON(t, state)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := decodeState(t, got); !reflect.DeepEqual(again, state) {
		t.Errorf("decoded %+v, want %+v", again, state)
	}
}

func TestStateDecodeRules(t *testing.T) {
	full := func(field string) string { return minimal + `,` + field + `}` }
	tests := map[string]struct {
		json  string
		check func(State) bool
	}{
		"Vector08 missing iteration is 1": {minimal + `}`, func(s State) bool { return s.Iteration == 1 }},
		"null iteration is 1":             {full(`"iteration":null`), func(s State) bool { return s.Iteration == 1 }},
		"iteration 0 is kept":             {full(`"iteration":0`), func(s State) bool { return s.Iteration == 0 }},
		"largest iteration is kept": {
			full(`"iteration":4294967295`),
			func(s State) bool { return s.Iteration == math.MaxUint32 },
		},
		"null turn id is absent":     {full(`"turn_id":null`), func(s State) bool { return s.TurnID == "" }},
		"absent agent":               {minimal + `}`, func(s State) bool { return s.AgentID == "" }},
		"unknown fields are ignored": {full(`"colour":"red"`), func(s State) bool { return s.SessionID == "s" }},
		"org 0 is a value": {
			strings.Replace(minimal, `7`, `0`, 1) + `}`,
			func(s State) bool { return s.OrgID == 0 },
		},
		"a preview that is too long is cut": {
			full(`"final_answer_preview":"` + strings.Repeat("x", 2001) + `"`),
			func(s State) bool { return len(s.FinalAnswerPreview) == 2000 },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if state := decodeState(t, test.json); !test.check(state) {
				t.Errorf("unexpected state %+v", state)
			}
		})
	}
}

func TestStateDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ json, text string }{
		"no org":                {`{"session_id":"s","harness_id":"h","input_message_id":"m"}`, "org_id"},
		"no session":            {`{"org_id":1,"harness_id":"h","input_message_id":"m"}`, "session_id"},
		"null harness":          {`{"org_id":1,"session_id":"s","harness_id":null,"input_message_id":"m"}`, "harness_id"},
		"empty message":         {`{"org_id":1,"session_id":"s","harness_id":"h","input_message_id":""}`, "input_message_id"},
		"null":                  {`null`, "org_id"},
		"iteration below zero":  {minimal + `,"iteration":-1}`, "iteration"},
		"iteration above range": {minimal + `,"iteration":4294967296}`, "iteration"},
		"iteration as text":     {minimal + `,"iteration":"1"}`, "iteration"},
		"org as text":           {`{"org_id":"1"}`, "org_id"},
		"no object":             {`[]`, "array"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := testState()
			err := json.Unmarshal([]byte(test.json), &state)
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v does not name %q", err, test.text)
			}
			if !reflect.DeepEqual(state, testState()) {
				t.Errorf("the state has changed to %+v", state)
			}
		})
	}
}

func TestVector08IterationSaturates(t *testing.T) {
	state := testState()
	state.Iteration = math.MaxUint32
	facts := Facts{MaxIterations: math.MaxUint32}
	next := AfterAct(state, ActResult{}, facts).Plan.(ScheduleReason).State
	if next.Iteration != math.MaxUint32 {
		t.Errorf("iteration %d after an act step", next.Iteration)
	}
	state.Iteration--
	next = AfterReason(state, ReasonResult{Success: true}, 1, facts).Plan.(ScheduleReason).State
	if next.Iteration != math.MaxUint32 {
		t.Errorf("iteration %d after steering", next.Iteration)
	}
}

func TestSummaryAccumulates(t *testing.T) {
	state := testState()
	steps := []ReasonResult{
		{
			Success: true, Text: "first", HasToolCalls: true, ToolCalls: make([]ToolCall, 2), OutputMessageID: "o1",
			Usage: &Usage{InputTokens: 10, OutputTokens: 1, CacheWriteTokens: 5},
		},
		{Success: true, HasToolCalls: true, ToolCalls: make([]ToolCall, 3), TimeToFirstTokenMS: ptr(int64(40))},
		{
			Success: true, Text: "last", OutputMessageID: "o3", TimeToFirstTokenMS: ptr(int64(9)),
			Usage: &Usage{InputTokens: 20, OutputTokens: 2, CacheReadTokens: 6},
		},
	}
	for _, step := range steps[:2] {
		act := AfterReason(state, step, 0, Facts{}).Plan.(ScheduleAct)
		state = AfterAct(act.State, ActResult{}, Facts{}).Plan.(ScheduleReason).State
	}
	if state.FinalAnswerPreview != "first" || state.LastOutputMessageID != "o1" {
		t.Errorf("an empty text or id has replaced the previous one: %+v", state)
	}
	got := AfterReason(state, steps[2], 0, Facts{}).Plan.(Complete).State
	want := testState()
	want.Iteration = 5
	want.Usage = &Usage{InputTokens: 30, OutputTokens: 3, CacheReadTokens: 6, CacheWriteTokens: 5}
	want.ToolCallCount, want.LLMCallCount = 5, 3
	want.TimeToFirstTokenMS = ptr(int64(40))
	want.LastOutputMessageID, want.FinalAnswerPreview = "o3", "last"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", mustJSON(t, got), mustJSON(t, want))
	}
}

func TestSummaryOfFailedReason(t *testing.T) {
	tests := map[string]struct {
		usage *Usage
		calls uint32
	}{
		"without usage no call is counted": {nil, 0},
		"with usage the call is counted":   {&Usage{InputTokens: 3}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result := ReasonResult{Text: "sorry", OutputMessageID: "o", Usage: test.usage}
			got := AfterReason(testState(), result, 0, Facts{}).Plan.(Complete).State
			if got.LLMCallCount != test.calls || !reflect.DeepEqual(got.Usage, test.usage) {
				t.Errorf("calls %d, usage %v", got.LLMCallCount, got.Usage)
			}
			if got.FinalAnswerPreview != "" || got.LastOutputMessageID != "" {
				t.Errorf("a failure's text became the answer: %+v", got)
			}
		})
	}
}

func TestSummaryDoesNotWriteThroughSharedPointers(t *testing.T) {
	before := testState()
	before.Usage = &Usage{InputTokens: 1}
	result := ReasonResult{Success: true, Usage: &Usage{InputTokens: 2}, TimeToFirstTokenMS: ptr(int64(3))}
	after := AfterReason(before, result, 0, Facts{}).Plan.(Complete).State
	*result.TimeToFirstTokenMS = 99
	if before.Usage.InputTokens != 1 || result.Usage.InputTokens != 2 || before.TimeToFirstTokenMS != nil {
		t.Errorf("the given values have changed: %+v %+v", before, result)
	}
	if after.Usage.InputTokens != 3 || *after.TimeToFirstTokenMS != 3 {
		t.Errorf("unexpected summary %s", mustJSON(t, after))
	}
}

func TestPreviewCutsOnCharacterBoundary(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"empty":             {"", ""},
		"short":             {"héllo", "héllo"},
		"exactly the limit": {strings.Repeat("é", 2000), strings.Repeat("é", 2000)},
		"one above":         {strings.Repeat("é", 2001), strings.Repeat("é", 2000)},
		"four bytes each":   {strings.Repeat("𝄞", 3000), strings.Repeat("𝄞", 2000)},
		"one byte each":     {strings.Repeat("a", 2001), strings.Repeat("a", 2000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := preview(test.text); got != test.want {
				t.Errorf("got %d bytes, want %d", len(got), len(test.want))
			}
		})
	}
}

func TestSaturatingAdd(t *testing.T) {
	tests := []struct {
		value uint32
		add   uint64
		want  uint32
	}{
		{0, 1, 1},
		{math.MaxUint32 - 1, 1, math.MaxUint32},
		{math.MaxUint32, 1, math.MaxUint32},
		{math.MaxUint32, math.MaxUint64, math.MaxUint32},
		{1, math.MaxUint64, math.MaxUint32},
	}
	for _, test := range tests {
		if got := saturatingAdd(test.value, test.add); got != test.want {
			t.Errorf("%d + %d = %d, want %d", test.value, test.add, got, test.want)
		}
	}
}

func TestDurationNeedsBothTimesAndIsNeverNegative(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		started, now time.Time
		want         *int64
	}{
		"both known":       {start, start.Add(1500 * time.Millisecond), ptr(int64(1500))},
		"clock went back":  {start, start.Add(-time.Hour), ptr(int64(0))},
		"start unknown":    {time.Time{}, start, nil},
		"present unknown":  {start, time.Time{}, nil},
		"less than one ms": {start, start.Add(time.Microsecond), ptr(int64(0))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := testState()
			state.StartedAt = test.started
			outcome := AfterReason(state, ReasonResult{Success: true}, 0, Facts{Now: test.now})
			got := outcome.Effects[0].(EffectTurnCompleted).DurationMS
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
