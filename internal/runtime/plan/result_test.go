package plan

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestUsageAddSaturates(t *testing.T) {
	tests := map[string]struct{ a, b, want int64 }{
		"plain":              {1, 2, 3},
		"at the top":         {math.MaxInt64, 1, math.MaxInt64},
		"just below the top": {math.MaxInt64 - 1, 1, math.MaxInt64},
		"both at the top":    {math.MaxInt64, math.MaxInt64, math.MaxInt64},
		"negative counts 0":  {5, -3, 5},
		"smallest counts 0":  {math.MinInt64, math.MinInt64, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := Usage{test.a, test.a, test.a, test.a}
			b := Usage{test.b, test.b, test.b, test.b}
			want := Usage{test.want, test.want, test.want, test.want}
			if got := a.Add(b); got != want {
				t.Errorf("got %+v", got)
			}
			if got := b.Add(a); got != want {
				t.Errorf("the other way round got %+v", got)
			}
		})
	}
}

func TestFirstUsageOfTurnIsChecked(t *testing.T) {
	result := ReasonResult{Success: true, Usage: &Usage{InputTokens: -5, OutputTokens: 2}}
	got := AfterReason(testState(), result, 0, Facts{}).Plan.(Complete).State.Usage
	if want := (Usage{OutputTokens: 2}); *got != want {
		t.Errorf("got %+v", *got)
	}
}

func TestReasonResultRoundTrips(t *testing.T) {
	want := ReasonResult{
		Success: true, Text: "t", HasToolCalls: true,
		ToolCalls:       []ToolCall{{ID: "1", Name: "n", Arguments: json.RawMessage(`{"a":1}`)}, {ID: "2", Name: "n"}},
		ToolDefinitions: []json.RawMessage{json.RawMessage(`{"name":"n"}`)},
		MaxIterations:   9, Error: "e", Usage: &Usage{InputTokens: 1}, OutputMessageID: "o",
		TimeToFirstTokenMS: ptr(int64(0)), ResponseID: "r", Locale: "de", NetworkAccess: json.RawMessage(`{"mode":"none"}`),
		FinishReason: "length", Failure: &Failure{Code: CodeBudgetPaused, Fields: map[string]any{"spent": 1.5}},
		TerminalEmitted: true,
	}
	var got ReasonResult
	if err := json.Unmarshal([]byte(mustJSON(t, want)), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReasonResultDecodeFillsWhatIsMissing(t *testing.T) {
	var got ReasonResult
	text := `{"success":true,"text":"","has_tool_calls":false,"tool_calls":null,"network_access":null,"error":null,"failure":null,"other":1}`
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if want := (ReasonResult{Success: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestReasonResultDecodeTakesNullArgumentsAsNone(t *testing.T) {
	var got ReasonResult
	text := `{"success":true,"text":"","has_tool_calls":true,"tool_calls":[{"id":"1","name":"n","arguments":null}]}`
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.ToolCalls[0].Arguments != nil {
		t.Errorf("got %s", got.ToolCalls[0].Arguments)
	}
}

func TestReasonResultDecodeRefuses(t *testing.T) {
	tests := map[string]string{
		"no success":           `{"text":"","has_tool_calls":false}`,
		"no text":              `{"success":true,"has_tool_calls":false}`,
		"no flag":              `{"success":true,"text":""}`,
		"null success":         `{"success":null,"text":"","has_tool_calls":false}`,
		"success as text":      `{"success":"true","text":"","has_tool_calls":false}`,
		"calls as object":      `{"success":true,"text":"","has_tool_calls":true,"tool_calls":{}}`,
		"negative limit":       `{"success":true,"text":"","has_tool_calls":true,"max_iterations":-1}`,
		"null":                 `null`,
		"array":                `[]`,
		"usage with fractions": `{"success":true,"text":"","has_tool_calls":false,"usage":{"input_tokens":1.5}}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			got := ReasonResult{Text: "before"}
			if err := json.Unmarshal([]byte(text), &got); err == nil {
				t.Fatal("no error")
			}
			if got.Text != "before" {
				t.Errorf("the result has changed to %+v", got)
			}
		})
	}
}

func TestReadActResult(t *testing.T) {
	failure := &Failure{Code: CodeBlockedByHook}
	tests := map[string]struct {
		raw  string
		want ActResult
	}{
		"empty object":        {`{}`, ActResult{}},
		"blocked":             {`{"blocked":true}`, ActResult{Blocked: true}},
		"waiting":             {`{"waiting_for_tool_results": true }`, ActResult{WaitingForToolResults: true}},
		"false":               {`{"blocked":false,"waiting_for_tool_results":false}`, ActResult{}},
		"text is not true":    {`{"blocked":"true","waiting_for_tool_results":"true"}`, ActResult{}},
		"number is not true":  {`{"blocked":1,"waiting_for_tool_results":1}`, ActResult{}},
		"null":                {`{"blocked":null}`, ActResult{}},
		"other case":          {`{"Blocked":true}`, ActResult{}},
		"array":               {`[true]`, ActResult{}},
		"plain null":          {`null`, ActResult{}},
		"failure":             {`{"failure":{"code":"blocked_by_hook"}}`, ActResult{Failure: failure}},
		"failure of bad form": {`{"blocked":true,"failure":"x"}`, ActResult{Blocked: true}},
		"failure, no code":    {`{"blocked":true,"failure":{"fields":{}}}`, ActResult{Blocked: true}},
		"the rest is ignored": {`{"results":[1],"completed":true,"blocked":true}`, ActResult{Blocked: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ReadActResult(json.RawMessage(test.raw))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestReadActResultRefusesWhatIsNoJSON(t *testing.T) {
	for _, raw := range []string{``, `{`, `{"blocked":true}x`} {
		if _, err := ReadActResult(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), "act result") {
			t.Errorf("%q: error %v", raw, err)
		}
	}
}
