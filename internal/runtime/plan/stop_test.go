package plan

import "testing"

func TestStopReasonForMapsFinishReasons(t *testing.T) {
	tests := map[string]StopReason{
		"length":                        StopMaxTokens,
		"max_tokens":                    StopMaxTokens,
		"MAX_OUTPUT_TOKENS":             StopMaxTokens,
		"model_context_window_exceeded": StopMaxTokens,
		"refusal":                       StopRefusal,
		"Content_Filter":                StopRefusal,
		"SAFETY":                        StopRefusal,
		"error":                         StopError,
		"cancelled":                     StopCancelled,
		"canceled":                      StopCancelled,
		" length ":                      StopMaxTokens,
		"stop":                          StopEndTurn,
		"end_turn":                      StopEndTurn,
		"tool_calls":                    StopEndTurn,
		"":                              StopEndTurn,
		"anything":                      StopEndTurn,
	}
	for finish, want := range tests {
		if got := StopReasonFor(finish); got != want {
			t.Errorf("%q: got %s, want %s", finish, got, want)
		}
	}
}

func TestStopReasonFormsAndFailure(t *testing.T) {
	tests := []struct {
		reason StopReason
		wire   string
		failed bool
	}{
		{StopEndTurn, "end_turn", false},
		{StopMaxTokens, "max_tokens", false},
		{StopMaxTurnRequests, "max_turn_requests", false},
		{StopRefusal, "refusal", false},
		{StopError, "error", true},
		{StopCancelled, "cancelled", true},
		{StopReason("Other"), "Other", false},
	}
	for _, test := range tests {
		if got := test.reason.Wire(); got != test.wire {
			t.Errorf("%s: wire %s", test.reason, got)
		}
		if got := test.reason.Failed(); got != test.failed {
			t.Errorf("%s: failed %t", test.reason, got)
		}
	}
}

func TestSuccessfulTurnTakesProvidersStopReasonUnlessItReadsAsFailure(t *testing.T) {
	tests := map[string]StopReason{
		"stop": StopEndTurn, "length": StopMaxTokens, "refusal": StopRefusal, "error": StopEndTurn, "cancelled": StopEndTurn,
	}
	for finish, want := range tests {
		outcome := AfterReason(testState(), ReasonResult{Success: true, FinishReason: finish}, 0, Facts{})
		complete := outcome.Plan.(Complete)
		if complete.StopReason != want || !complete.Succeeded() {
			t.Errorf("%q: got %s, succeeded %t", finish, complete.StopReason, complete.Succeeded())
		}
		if got := outcome.Effects[0].(EffectTurnCompleted).StopReason; got != want.Wire() {
			t.Errorf("%q: the event says %s", finish, got)
		}
	}
}
