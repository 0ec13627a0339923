package plan

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	setIdle    = "status idle"
	setWaiting = "status waiting_for_tool_results"
)

var (
	completedOrder = []string{"turn.completed", setIdle, "session.idled"}
	failedOrder    = []string{setIdle, "turn.failed", "session.idled"}
)

// effectNames returns the effects in a form that is easy to compare.
func effectNames(effects []Effect) []string {
	var names []string
	for _, effect := range effects {
		switch effect := effect.(type) {
		case EffectSetStatus:
			names = append(names, "status "+string(effect.Status))
		case Event:
			names = append(names, effect.EventType())
		}
	}
	return names
}

func expectEffects(t *testing.T, outcome Outcome, want []string) {
	t.Helper()
	if got := effectNames(outcome.Effects); !reflect.DeepEqual(got, want) {
		t.Errorf("effects %q, want %q", got, want)
	}
}

func next(t *testing.T, activity, output string, pending int, facts Facts) Outcome {
	t.Helper()
	outcome, err := Next(Input{
		Activity: activity, State: testState(), Output: json.RawMessage(output), Pending: pending, Facts: facts,
	})
	if err != nil {
		t.Fatalf("planning after %s with %s: %v", activity, output, err)
	}
	return outcome
}

func planOf[P Plan](t *testing.T, outcome Outcome) P {
	t.Helper()
	plan, ok := outcome.Plan.(P)
	if !ok {
		t.Fatalf("the plan is %T, want %T", outcome.Plan, plan)
	}
	return plan
}

func TestVector01ProcessInputTakesTurnID(t *testing.T) {
	other := "0199f3a0-9999-7222-8333-AABBCCDDEEFF"
	tests := map[string]struct{ output, turnID string }{
		"empty object":            {`{}`, ""},
		"junk":                    {`{"turn_id":"junk"}`, ""},
		"valid":                   {`{"turn_id":"` + other + `"}`, strings.ToLower(other)},
		"null":                    {`{"turn_id":null}`, ""},
		"number":                  {`{"turn_id":5}`, ""},
		"empty text":              {`{"turn_id":""}`, ""},
		"hyphen in another place": {`{"turn_id":"0199f3a0-9999-7222-83334-abbccddeeff"}`, ""},
		"letter beyond f":         {`{"turn_id":"0199f3a0-9999-7222-8333-aabbccddeefg"}`, ""},
		"too long":                {`{"turn_id":"` + other + `0"}`, ""},
		"array":                   {`[]`, ""},
		"plain null":              {`null`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := testState()
			state.PreviousResponseID = "resp"
			outcome, err := Next(Input{
				Activity: ActivityProcessInput, State: state, Output: json.RawMessage(test.output), Pending: 4,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := testState()
			want.TurnID, want.Iteration = test.turnID, 1
			if got := planOf[ScheduleReason](t, outcome).State; !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			expectEffects(t, outcome, nil)
		})
	}
}

func TestProcessInputSetsStartTimeOnce(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("", 3600))
	state := AfterInput(testState(), testTurnID, Facts{Now: first}).Plan.(ScheduleReason).State
	if want := time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC); !state.StartedAt.Equal(want) {
		t.Errorf("started at %v, want %v", state.StartedAt, want)
	}
	again := AfterInput(state, testTurnID, Facts{Now: first.Add(time.Hour)}).Plan.(ScheduleReason).State
	if !again.StartedAt.Equal(state.StartedAt) {
		t.Errorf("a second input step has moved the start to %v", again.StartedAt)
	}
	if without := AfterInput(testState(), testTurnID, Facts{}).Plan.(ScheduleReason).State; !without.StartedAt.IsZero() {
		t.Errorf("started at %v without a clock", without.StartedAt)
	}
}

func TestVector02ToolCallsComeBeforeSteering(t *testing.T) {
	outcome := next(t, ActivityReason, `{"success":true,"text":"x","has_tool_calls":true,"response_id":"r2",
		"tool_calls":[{"id":"1","name":"wc","arguments":{"a":1}}],"tool_definitions":[{"name":"wc"}],
		"locale":"de","network_access":{"mode":"none"}}`, 3, Facts{})
	state := testState()
	state.PreviousResponseID, state.ToolCallCount, state.LLMCallCount, state.FinalAnswerPreview = "r2", 1, 1, "x"
	want := ScheduleAct{
		State:           state,
		ToolCalls:       []ToolCall{{ID: "1", Name: "wc", Arguments: json.RawMessage(`{"a":1}`)}},
		ToolDefinitions: []json.RawMessage{json.RawMessage(`{"name":"wc"}`)},
		Locale:          "de",
		NetworkAccess:   json.RawMessage(`{"mode":"none"}`),
	}
	if got := planOf[ScheduleAct](t, outcome); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	expectEffects(t, outcome, nil)
}

func TestToolCallFlagIsTrusted(t *testing.T) {
	act := planOf[ScheduleAct](t, next(t, ActivityReason, `{"success":true,"text":"","has_tool_calls":true}`, 0, Facts{}))
	if len(act.ToolCalls) != 0 || act.State.ToolCallCount != 0 || act.State.Iteration != 3 {
		t.Errorf("unexpected plan %+v", act)
	}
	outcome := next(t, ActivityReason,
		`{"success":true,"text":"","has_tool_calls":false,"tool_calls":[{"id":"1","name":"wc"}]}`, 0, Facts{})
	if complete := planOf[Complete](t, outcome); complete.State.ToolCallCount != 0 {
		t.Errorf("unannounced calls were counted: %+v", complete)
	}
}

func TestActPlanWithoutResponseIDClearsThePreviousOne(t *testing.T) {
	state := testState()
	state.PreviousResponseID = "old"
	act := AfterReason(state, ReasonResult{Success: true, HasToolCalls: true}, 0, Facts{}).Plan.(ScheduleAct)
	if act.State.PreviousResponseID != "" {
		t.Errorf("previous response %q", act.State.PreviousResponseID)
	}
}

func TestVector03FailedReasonWithToolsFailsTheTurn(t *testing.T) {
	outcome := next(t, ActivityReason, `{"success":false,"text":"Please wait.","error":"error (429)","has_tool_calls":true,
		"tool_calls":[{"id":"1","name":"wc"}],"response_id":"r2"}`, 2, Facts{MaxIterations: 1})
	failure := Failure{Code: CodeProviderRateLimited}
	want := Complete{State: testState(), Error: "error (429)", StopReason: StopError, Failure: &failure}
	if got := planOf[Complete](t, outcome); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	expectEffects(t, outcome, failedOrder)
	event := EffectTurnFailed{
		TurnID:         testTurnID,
		InputMessageID: "m",
		Error:          "Please wait.",
		Code:           CodeProviderRateLimited,
	}
	if !reflect.DeepEqual(outcome.Effects[1], event) {
		t.Errorf("got %+v", outcome.Effects[1])
	}
	idled := EffectSessionIdled{TurnID: testTurnID, InputMessageID: "m"}
	if !reflect.DeepEqual(outcome.Effects[2], idled) {
		t.Errorf("got %+v", outcome.Effects[2])
	}
}

func TestFailedReasonTexts(t *testing.T) {
	limited := Failure{Code: CodeProviderRateLimited}
	tests := map[string]struct {
		result          ReasonResult
		errorText, said string
		code            ErrorCode
	}{
		"without error string, a generic one": {ReasonResult{Text: "Sorry."}, GenericError, "Sorry.", CodeProcessingError},
		"without text, the sentence of the code": {
			ReasonResult{Error: "error (429)"}, "error (429)", limited.Sentence(), CodeProviderRateLimited,
		},
		"without either": {ReasonResult{}, GenericError, Failure{}.Sentence(), CodeProcessingError},
		"classified by the step": {
			ReasonResult{Text: "Blocked.", Error: "error (429)", Failure: &Failure{Code: CodeBlockedByHook}},
			"error (429)", "Blocked.", CodeBlockedByHook,
		},
		"classified by the step without a code": {
			ReasonResult{Text: "(401)", Failure: &Failure{}}, GenericError, "(401)", CodeProviderMisconfigured,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			outcome := AfterReason(testState(), test.result, 0, Facts{})
			complete := planOf[Complete](t, outcome)
			if complete.Error != test.errorText || complete.Failure.Code != test.code || complete.Succeeded() {
				t.Errorf("unexpected plan %+v, failure %+v", complete, complete.Failure)
			}
			expectEffects(t, outcome, failedOrder)
			event := outcome.Effects[1].(EffectTurnFailed)
			if event.Error != test.said || event.Code != test.code {
				t.Errorf("unexpected event %+v", event)
			}
		})
	}
}

func TestFailedReasonThatHasEmittedItsEndEmitsNoSecondOne(t *testing.T) {
	outcome := next(t, ActivityReason, `{"success":false,"text":"The harness was archived.","has_tool_calls":false,
		"error":"dependency_unavailable","terminal_emitted":true,
		"failure":{"code":"dependency_unavailable","fields":{"dependency":"harness"}}}`, 0, Facts{})
	complete := planOf[Complete](t, outcome)
	want := Failure{Code: CodeDependencyUnavailable, Fields: map[string]any{"dependency": "harness"}}
	if complete.StopReason != StopError || !reflect.DeepEqual(*complete.Failure, want) {
		t.Errorf("unexpected plan %+v, failure %+v", complete, complete.Failure)
	}
	expectEffects(t, outcome, nil)
}

func TestSuccessfulReasonCanNotHaveEmittedTheEnd(t *testing.T) {
	outcome := AfterReason(testState(), ReasonResult{Success: true, TerminalEmitted: true}, 0, Facts{})
	expectEffects(t, outcome, completedOrder)
}

func TestVector04SteeringContinuesWithoutEvents(t *testing.T) {
	for _, pending := range []int{1, 5} {
		outcome := next(
			t,
			ActivityReason,
			`{"success":true,"text":"","has_tool_calls":false,"response_id":"r2"}`,
			pending,
			Facts{},
		)
		want := testState()
		want.Iteration, want.PreviousResponseID, want.LLMCallCount = 4, "r2", 1
		if got := planOf[ScheduleReason](t, outcome).State; !reflect.DeepEqual(got, want) {
			t.Errorf("pending %d: got  %+v\nwant %+v", pending, got, want)
		}
		expectEffects(t, outcome, nil)
	}
}

func TestNegativePendingCountsAsNone(t *testing.T) {
	outcome := next(t, ActivityReason, `{"success":true,"text":"","has_tool_calls":false}`, -1, Facts{})
	planOf[Complete](t, outcome)
}

func TestVector05TerminalSuccess(t *testing.T) {
	state := testState()
	state.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state.Usage = &Usage{InputTokens: 10, OutputTokens: 1}
	state.ToolCallCount, state.LLMCallCount = 2, 2
	outcome, err := Next(Input{
		Activity: ActivityReason, State: state, Facts: Facts{Now: state.StartedAt.Add(2 * time.Second)},
		Output: json.RawMessage(`{"success":true,"text":"Done.","has_tool_calls":false,"output_message_id":"o",
			"time_to_first_token_ms":12,"usage":{"input_tokens":5,"output_tokens":6},"finish_reason":"length"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	complete := planOf[Complete](t, outcome)
	if complete.Error != "" || complete.Failure != nil || complete.StopReason != StopMaxTokens ||
		complete.State.Iteration != 3 {
		t.Errorf("unexpected plan %+v", complete)
	}
	expectEffects(t, outcome, completedOrder)
	usage := &Usage{InputTokens: 15, OutputTokens: 7}
	completed := EffectTurnCompleted{
		TurnID: testTurnID, InputMessageID: "m", Iterations: 3, DurationMS: ptr(int64(2000)), Usage: usage,
		FinalMessageID: "o", FinalAnswerPreview: "Done.", TimeToFirstTokenMS: ptr(int64(12)),
		ToolCallCount: 2, LLMCallCount: 3, Status: "completed", StopReason: "max_tokens",
	}
	if !reflect.DeepEqual(outcome.Effects[0], completed) {
		t.Errorf("got  %s\nwant %s", mustJSON(t, outcome.Effects[0]), mustJSON(t, completed))
	}
	idled := EffectSessionIdled{TurnID: testTurnID, InputMessageID: "m", Iterations: ptr(uint32(3)), Usage: usage}
	if !reflect.DeepEqual(outcome.Effects[2], idled) {
		t.Errorf("got %s", mustJSON(t, outcome.Effects[2]))
	}
}

func TestTerminalSuccessCarriesErrorOfResult(t *testing.T) {
	outcome := AfterReason(testState(), ReasonResult{Success: true, Error: "a note"}, 0, Facts{})
	complete := planOf[Complete](t, outcome)
	if complete.Error != "a note" || !complete.Succeeded() {
		t.Errorf("unexpected plan %+v", complete)
	}
	expectEffects(t, outcome, completedOrder)
}

func TestVector06Act(t *testing.T) {
	hint := func(value any) Facts {
		return Facts{ClientTools: ClientToolsFollowHints, Hints: map[string]any{"setup_connection": value}}
	}
	const waiting = `{"waiting_for_tool_results":true}`
	tests := map[string]struct {
		output string
		facts  Facts
		want   string
	}{
		"nothing special": {`{}`, Facts{}, "reason"},
		"blocked":         {`{"blocked":true}`, Facts{}, "complete"},
		"blocked and waiting": {
			`{"blocked":true,"waiting_for_tool_results":true}`,
			hint(true),
			"complete",
		},
		"not waiting, hint true": {`{}`, hint(true), "reason"},
		"waiting, hint true":     {waiting, hint(true), "wait"},
		"waiting, hint false":    {waiting, hint(false), "reason"},
		"waiting, hint as text":  {waiting, hint("true"), "reason"},
		"waiting, hint null":     {waiting, hint(nil), "reason"},
		"waiting, hint absent": {
			waiting,
			Facts{ClientTools: ClientToolsFollowHints, Hints: map[string]any{"x": true}},
			"reason",
		},
		"waiting, session missing or unreadable": {waiting, Facts{ClientTools: ClientToolsFollowHints}, "reason"},
		"waiting, policy Wait, no hints":         {waiting, Facts{ClientTools: ClientToolsWait}, "wait"},
		"waiting, no policy":                     {waiting, Facts{}, "wait"},
		"waiting, policy Wait, hint false": {
			waiting,
			Facts{Hints: map[string]any{"setup_connection": false}},
			"wait",
		},
		"waiting, unknown policy":                  {waiting, Facts{ClientTools: "Perhaps"}, "wait"},
		"waiting as text is not waiting":           {`{"waiting_for_tool_results":"true"}`, Facts{}, "reason"},
		"the iteration limit is not compared here": {`{}`, Facts{MaxIterations: 1}, "reason"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			outcome := next(t, ActivityAct, test.output, 2, test.facts)
			further := testState()
			further.Iteration = 4
			switch test.want {
			case "reason":
				if got := planOf[ScheduleReason](t, outcome).State; !reflect.DeepEqual(got, further) {
					t.Errorf("got %+v", got)
				}
				expectEffects(t, outcome, nil)
			case "wait":
				if got := planOf[WaitForToolResults](t, outcome).Resume; !reflect.DeepEqual(got, further) {
					t.Errorf("got %+v", got)
				}
				expectEffects(t, outcome, []string{setWaiting})
			case "complete":
				complete := planOf[Complete](t, outcome)
				if complete.Error != "" || complete.StopReason != StopError || complete.State.Iteration != 3 {
					t.Errorf("unexpected plan %+v", complete)
				}
				expectEffects(t, outcome, nil)
			}
		})
	}
}

func TestActKeepsTheResponseIDOfTheState(t *testing.T) {
	state := testState()
	state.PreviousResponseID = "r2"
	got := AfterAct(state, ActResult{}, Facts{}).Plan.(ScheduleReason).State
	if got.PreviousResponseID != "r2" {
		t.Errorf("previous response %q", got.PreviousResponseID)
	}
}

func TestBlockedActSaysWhy(t *testing.T) {
	archived := Failure{Code: CodeDependencyUnavailable, Fields: map[string]any{"state": "archived"}}
	tests := map[string]struct {
		output string
		want   Failure
	}{
		"told": {
			`{"blocked":true,"failure":{"code":"dependency_unavailable","fields":{"state":"archived"}}}`,
			archived,
		},
		"not told":        {`{"blocked":true}`, Failure{Code: CodeDependencyUnavailable}},
		"told in no form": {`{"blocked":true,"failure":7}`, Failure{Code: CodeDependencyUnavailable}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			complete := planOf[Complete](t, next(t, ActivityAct, test.output, 0, Facts{}))
			if !reflect.DeepEqual(*complete.Failure, test.want) {
				t.Errorf("got %+v", complete.Failure)
			}
		})
	}
	complete := planOf[Complete](t, AfterAct(testState(), ActResult{Blocked: true, Failure: &Failure{}}, Facts{}))
	if complete.Failure.Code != CodeDependencyUnavailable {
		t.Errorf("a failure without code gives %+v", complete.Failure)
	}
}

func TestVector07UnknownActivityIsConfigurationError(t *testing.T) {
	for _, activity := range []string{"", "Reason", "reason ", "process-input", "input"} {
		outcome, err := Next(Input{Activity: activity, State: testState(), Output: json.RawMessage(`{}`)})
		if !IsConfiguration(err) || IsInternal(err) || !strings.Contains(err.Error(), `"`+activity+`"`) {
			t.Errorf("%q: error %v", activity, err)
		}
		if outcome.Plan != nil || outcome.Effects != nil {
			t.Errorf("%q: outcome %+v", activity, outcome)
		}
	}
}

func TestUndecodableOutputIsInternalError(t *testing.T) {
	tests := []struct{ activity, output string }{
		{ActivityProcessInput, `{`},
		{ActivityProcessInput, ``},
		{ActivityReason, `{`},
		{ActivityReason, ``},
		{ActivityReason, `{}`},
		{ActivityReason, `null`},
		{ActivityReason, `[]`},
		{ActivityAct, `{`},
		{ActivityAct, ``},
	}
	for _, test := range tests {
		outcome, err := Next(Input{Activity: test.activity, State: testState(), Output: json.RawMessage(test.output)})
		if !IsInternal(err) || IsConfiguration(err) || !strings.Contains(err.Error(), test.activity) {
			t.Errorf("%s with %q: error %v", test.activity, test.output, err)
		}
		if errors.Unwrap(err) == nil {
			t.Errorf("%s with %q: the cause is lost", test.activity, test.output)
		}
		if outcome.Plan != nil || outcome.Effects != nil {
			t.Errorf("%s with %q: outcome %+v", test.activity, test.output, outcome)
		}
	}
}

func TestTurnWithoutIDIsNotPlannedPastInput(t *testing.T) {
	state := testState()
	state.TurnID = ""
	outputs := map[string]string{ActivityReason: `{"success":true,"text":"","has_tool_calls":false}`, ActivityAct: `{}`}
	for activity, output := range outputs {
		outcome, err := Next(Input{Activity: activity, State: state, Output: json.RawMessage(output)})
		if !IsInternal(err) || outcome.Plan != nil {
			t.Errorf("%s: outcome %+v, error %v", activity, outcome, err)
		}
	}
}

func TestMaxIterationsStopsOnlyATurnThatWantsToGoOn(t *testing.T) {
	tests := map[string]struct {
		hasTools bool
		pending  int
		limit    uint32
		want     string
	}{
		"tool calls below the limit":  {true, 0, 4, "act"},
		"tool calls at the limit":     {true, 0, 3, "limit"},
		"tool calls above the limit":  {true, 0, 2, "limit"},
		"steering below the limit":    {false, 1, 4, "reason"},
		"steering at the limit":       {false, 1, 3, "limit"},
		"both at the limit":           {true, 1, 3, "limit"},
		"natural end at the limit":    {false, 0, 3, "end"},
		"natural end above the limit": {false, 0, 1, "end"},
	}
	for name, test := range tests {
		for _, inResult := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				result := ReasonResult{
					Success:      true,
					HasToolCalls: test.hasTools,
					ToolCalls:    make([]ToolCall, 2),
					FinishReason: "length",
				}
				facts := Facts{MaxIterations: test.limit}
				if inResult {
					result.MaxIterations, facts.MaxIterations = test.limit, 100
				}
				outcome := AfterReason(testState(), result, test.pending, facts)
				switch test.want {
				case "act":
					planOf[ScheduleAct](t, outcome)
				case "reason":
					planOf[ScheduleReason](t, outcome)
				default:
					want := map[string]StopReason{"limit": StopMaxTurnRequests, "end": StopMaxTokens}[test.want]
					complete := planOf[Complete](t, outcome)
					if complete.StopReason != want || !complete.Succeeded() || complete.State.ToolCallCount != 0 {
						t.Errorf("unexpected plan %+v", complete)
					}
					expectEffects(t, outcome, completedOrder)
				}
			})
		}
	}
}
