package plan

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// StopReasonOf returns the stop reason of a response by the provider's finish reason, in any case of letters; EndTurn
// for an unknown one, and for those of an error: a response that counts has not failed (SM-09, LLM-05).
func StopReasonOf(finishReason string) v1alpha1.StopReason {
	switch strings.ToLower(strings.TrimSpace(finishReason)) {
	case "length", "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		return v1alpha1.StopReasonMaxTokens
	case "refusal", "content_filter", "safety":
		return v1alpha1.StopReasonRefusal
	default:
		return v1alpha1.StopReasonEndTurn
	}
}

// StopWord returns a stop reason as events have it, such as max_turn_requests (SM-09).
func StopWord(reason v1alpha1.StopReason) string {
	switch reason {
	case v1alpha1.StopReasonEndTurn:
		return "end_turn"
	case v1alpha1.StopReasonMaxTokens:
		return "max_tokens"
	case v1alpha1.StopReasonMaxTurnRequests:
		return "max_turn_requests"
	case v1alpha1.StopReasonRefusal:
		return "refusal"
	case v1alpha1.StopReasonSteered:
		return "steered"
	default:
		return string(reason)
	}
}
