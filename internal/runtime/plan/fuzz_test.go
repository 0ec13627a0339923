package plan

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"
)

func FuzzNext(f *testing.F) {
	state, err := json.Marshal(testState())
	if err != nil {
		f.Fatal(err)
	}
	seeds := []struct{ activity, output string }{
		{ActivityProcessInput, `{"turn_id":"` + testTurnID + `"}`},
		{ActivityProcessInput, `[1]`},
		{
			ActivityReason,
			`{"success":true,"text":"x","has_tool_calls":true,"tool_calls":[{"id":"1","name":"n","arguments":{}}]}`,
		},
		{
			ActivityReason,
			`{"success":true,"text":"x","has_tool_calls":false,"usage":{"input_tokens":-1,"output_tokens":2},"finish_reason":"length"}`,
		},
		{ActivityReason, `{"success":false,"text":"(429)","has_tool_calls":true,"error":"boom","terminal_emitted":true}`},
		{ActivityReason, `{"success":false,"text":"","has_tool_calls":false,"failure":{"code":"x","fields":{"a":null}}}`},
		{ActivityAct, `{"blocked":true,"waiting_for_tool_results":true}`},
		{ActivityAct, `{"waiting_for_tool_results":true}`},
		{ActivityAct, `null`},
		{"other", `{}`},
	}
	for i, seed := range seeds {
		f.Add(seed.activity, state, []byte(seed.output), i%3, i%2 == 0, uint32(i), int64(i)*1e15)
	}
	f.Add(
		ActivityAct,
		[]byte(minimal+`,"turn_id":"t","iteration":4294967295}`),
		[]byte(`{}`),
		1,
		true,
		uint32(0),
		int64(0),
	)
	f.Fuzz(
		func(t *testing.T, activity string, stateJSON, output []byte, pending int, follow bool, limit uint32, now int64) {
			var state State
			if err := json.Unmarshal(stateJSON, &state); err != nil {
				return
			}
			in := Input{
				Activity: activity, State: state, Output: output, Pending: pending,
				Facts: Facts{MaxIterations: limit, Hints: map[string]any{"setup_connection": true}, Now: time.Unix(0, now)},
			}
			if follow {
				in.Facts.ClientTools = ClientToolsFollowHints
			}
			before := mustJSON(t, in.State)
			outcome, err := Next(in)
			if mustJSON(t, in.State) != before {
				t.Fatalf("the given state has changed from %s to %s", before, mustJSON(t, in.State))
			}
			if again, _ := Next(in); !reflect.DeepEqual(again, outcome) {
				t.Fatalf("the same input gives %+v and %+v", outcome, again)
			}
			checkOutcome(t, in, outcome, err)
		},
	)
}

func checkOutcome(t *testing.T, in Input, outcome Outcome, err error) {
	t.Helper()
	known := slices.Contains([]string{ActivityProcessInput, ActivityReason, ActivityAct}, in.Activity)
	if IsConfiguration(err) == known {
		t.Fatalf("activity %q: error %v", in.Activity, err)
	}
	if err != nil {
		if outcome.Plan != nil || outcome.Effects != nil || IsConfiguration(err) == IsInternal(err) {
			t.Fatalf("outcome %+v with error %v", outcome, err)
		}
		return
	}
	checkIteration(t, in, outcome.Plan)
	names := effectNames(outcome.Effects)
	complete, done := outcome.Plan.(Complete)
	switch {
	case done && complete.Succeeded():
		if !slices.Equal(names, completedOrder) || complete.Failure != nil {
			t.Fatalf("a success with effects %q, failure %+v", names, complete.Failure)
		}
	case done:
		if len(names) > 0 && !slices.Equal(names, failedOrder) || complete.Failure == nil || complete.Failure.Code == "" {
			t.Fatalf("a failure with effects %q, failure %+v", names, complete.Failure)
		}
	default:
		_, waits := outcome.Plan.(WaitForToolResults)
		if waits != slices.Equal(names, []string{setWaiting}) || !waits && len(names) > 0 {
			t.Fatalf("plan %T with effects %q", outcome.Plan, names)
		}
	}
	checkEventData(t, in.State, outcome.Effects)
}

func checkIteration(t *testing.T, in Input, plan Plan) {
	t.Helper()
	before, after := in.State.Iteration, stateOf(plan).Iteration
	if in.Activity == ActivityProcessInput {
		if after != 1 {
			t.Fatalf("iteration %d after process_input", after)
		}
		return
	}
	grown := after - before
	if after < before || grown > 1 {
		t.Fatalf("iteration went from %d to %d", before, after)
	}
	_, reason := plan.(ScheduleReason)
	_, wait := plan.(WaitForToolResults)
	if moves := reason || wait; moves != (grown == 1) && before != math.MaxUint32 {
		t.Fatalf("iteration went from %d to %d with plan %T", before, after, plan)
	}
}

func checkEventData(t *testing.T, state State, effects []Effect) {
	t.Helper()
	for _, effect := range effects {
		if _, isEvent := effect.(Event); !isEvent {
			continue
		}
		var data struct {
			TurnID string `json:"turn_id"`
		}
		if err := json.Unmarshal(
			[]byte(mustJSON(t, effect)),
			&data,
		); err != nil || data.TurnID != state.TurnID ||
			data.TurnID == "" {
			t.Fatalf("event %s of turn %q: %v", mustJSON(t, effect), state.TurnID, err)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("Budget exhausted. 12.50 usd spent exceeded the 10.00 usd limit.", "")
	f.Add("Budget paused with 1 usd spent.", "Budget paused.")
	f.Add("ActAtom execution failed: ReasonAtom execution failed: Model not available: m", "(429)")
	f.Add("Soft limit reached.", "context length")
	f.Add("\xff(401)", "insufficient_quota")
	f.Fuzz(func(t *testing.T, text, errorText string) {
		fromText, fromError := Classify(text), Classify(errorText)
		for _, failure := range []Failure{fromText, fromError} {
			if failure.Code == "" || failure.Sentence() == "" {
				t.Fatalf("%q and %q: %+v", text, errorText, failure)
			}
			// Every field must be storable, and an absent map is the only empty one.
			if _, err := json.Marshal(failure); err != nil || failure.Fields != nil && len(failure.Fields) == 0 {
				t.Fatalf("%q and %q: %+v, %v", text, errorText, failure, err)
			}
		}
		if prefixed := Classify(" ReasonAtom execution failed: " + text); !reflect.DeepEqual(prefixed, fromText) {
			t.Fatalf("a prefix turns %+v into %+v", fromText, prefixed)
		}
		both := ClassifyFailure(text, errorText)
		if !reflect.DeepEqual(both, fromText) && !reflect.DeepEqual(both, fromError) {
			t.Fatalf("%+v is neither %+v nor %+v", both, fromText, fromError)
		}
		if both.Code == CodeProcessingError && fromText.Code != CodeProcessingError {
			t.Fatalf("the class of %q was lost: %+v", text, both)
		}
	})
}

func FuzzStateJSON(f *testing.F) {
	f.Add([]byte(minimal + `}`))
	f.Add([]byte(minimal + `,"turn_id":"","iteration":0,"usage":{},"time_to_first_token_ms":0}`))
	f.Add([]byte(minimal + `,"started_at":"2026-01-02T03:04:05.123456789+05:30","tool_call_count":1}`))
	f.Add([]byte(minimal + `,"started_at":"9999-12-31T23:59:59-23:59","final_answer_preview":"\ud800é"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first State
		if err := json.Unmarshal(data, &first); err != nil {
			return
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("%q can be read but not written: %v", data, err)
		}
		second := decodeState(t, string(written))
		if !first.StartedAt.Equal(second.StartedAt) {
			t.Fatalf("start went from %v to %v", first.StartedAt, second.StartedAt)
		}
		again, err := json.Marshal(second)
		if err != nil || !bytes.Equal(again, written) {
			t.Fatalf("%s became %s, %v", written, again, err)
		}
		first.StartedAt, second.StartedAt = time.Time{}, time.Time{}
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v became %+v", first, second)
		}
	})
}
