package plan

import (
	"reflect"
	"testing"
)

func TestStartedSetsStatusBeforeEvents(t *testing.T) {
	effects := Started(testState(), "Hello")
	if got, want := effectNames(
		effects,
	), []string{
		"status active",
		"session.activated",
		"turn.started",
	}; !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("effects %q, want %q", got, want)
	}
}

func TestEventData(t *testing.T) {
	const turn = `"turn_id":"` + testTurnID + `"`
	started := Started(testState(), "Hello")
	unread := Started(testState(), "")
	succeeded := AfterReason(testState(), ReasonResult{Success: true}, 0, Facts{}).Effects
	withUsage := AfterReason(testState(), ReasonResult{Success: true, Usage: &Usage{InputTokens: 1}}, 0, Facts{}).Effects
	failed := FailAs(testState(), Failure{Code: "x", Fields: map[string]any{"a": "b"}}, "No.").Effects
	plain := FailAs(testState(), Failure{Code: "x"}, "No.").Effects
	tests := map[string]struct {
		effect Effect
		want   string
	}{
		"session.activated":    {started[1], `{` + turn + `,"input_message_id":"m"}`},
		"turn.started":         {started[2], `{` + turn + `,"input_message_id":"m","input_content":"Hello"}`},
		"turn.started, unread": {unread[2], `{` + turn + `,"input_message_id":"m"}`},
		"turn.completed, minimal": {
			succeeded[0],
			`{` + turn + `,"iterations":3,"tool_call_count":0,"llm_call_count":1,"status":"completed","stop_reason":"end_turn"}`,
		},
		"turn.completed, usage": {
			withUsage[0],
			`{` + turn + `,"iterations":3,"usage":{"input_tokens":1,"output_tokens":0},"tool_call_count":0,"llm_call_count":1,"status":"completed","stop_reason":"end_turn"}`,
		},
		"session.idled": {succeeded[2], `{` + turn + `,"iterations":3}`},
		"session.idled, usage": {
			withUsage[2],
			`{` + turn + `,"iterations":3,"usage":{"input_tokens":1,"output_tokens":0}}`,
		},
		"turn.failed":            {failed[1], `{` + turn + `,"error":"No.","error_code":"x","error_fields":{"a":"b"}}`},
		"turn.failed, no fields": {plain[1], `{` + turn + `,"error":"No.","error_code":"x"}`},
		"session.idled, failed":  {failed[2], `{` + turn + `}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mustJSON(t, test.effect); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
