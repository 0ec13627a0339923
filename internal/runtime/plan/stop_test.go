package plan

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestStopReasonOf(t *testing.T) {
	for finish, want := range map[string]v1alpha1.StopReason{
		"length":                        v1alpha1.StopReasonMaxTokens,
		"max_tokens":                    v1alpha1.StopReasonMaxTokens,
		"MAX_OUTPUT_TOKENS":             v1alpha1.StopReasonMaxTokens,
		"model_context_window_exceeded": v1alpha1.StopReasonMaxTokens,
		" length ":                      v1alpha1.StopReasonMaxTokens,
		"refusal":                       v1alpha1.StopReasonRefusal,
		"Content_Filter":                v1alpha1.StopReasonRefusal,
		"SAFETY":                        v1alpha1.StopReasonRefusal,
		"error":                         v1alpha1.StopReasonEndTurn,
		"cancelled":                     v1alpha1.StopReasonEndTurn,
		"stop":                          v1alpha1.StopReasonEndTurn,
		"tool_calls":                    v1alpha1.StopReasonEndTurn,
		"":                              v1alpha1.StopReasonEndTurn,
		"anything":                      v1alpha1.StopReasonEndTurn,
	} {
		if got := StopReasonOf(finish); got != want {
			t.Errorf("%q: got %s, want %s", finish, got, want)
		}
	}
}

func TestStopWord(t *testing.T) {
	for reason, want := range map[v1alpha1.StopReason]string{
		v1alpha1.StopReasonEndTurn:         "end_turn",
		v1alpha1.StopReasonMaxTokens:       "max_tokens",
		v1alpha1.StopReasonMaxTurnRequests: "max_turn_requests",
		v1alpha1.StopReasonRefusal:         "refusal",
		v1alpha1.StopReasonSteered:         "steered",
		"Other":                            "Other",
	} {
		if got := StopWord(reason); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
	}
}
