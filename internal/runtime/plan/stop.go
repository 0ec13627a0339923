package plan

import "strings"

// StopReason is why a turn ended (SM-09). Its value is the form used in the API; Wire returns the form used in events.
type StopReason string

const (
	// StopEndTurn is the natural end: the model had nothing more to do.
	StopEndTurn StopReason = "EndTurn"
	// StopMaxTokens means that the provider cut the response at its token limit.
	StopMaxTokens StopReason = "MaxTokens"
	// StopMaxTurnRequests means that the turn needed another iteration but had used all of them (TURN-14).
	StopMaxTurnRequests StopReason = "MaxTurnRequests"
	// StopRefusal means that the model, or the provider's filter, declined to respond.
	StopRefusal StopReason = "Refusal"
	// StopError means that the turn failed.
	StopError StopReason = "Error"
	// StopCancelled means that the turn was cancelled.
	StopCancelled StopReason = "Cancelled"
)

// Wire is the form used in events, such as max_turn_requests.
func (r StopReason) Wire() string {
	switch r {
	case StopEndTurn:
		return "end_turn"
	case StopMaxTokens:
		return "max_tokens"
	case StopMaxTurnRequests:
		return "max_turn_requests"
	case StopRefusal:
		return "refusal"
	case StopError:
		return "error"
	case StopCancelled:
		return "cancelled"
	default:
		return string(r)
	}
}

// Failed reports whether a turn with this stop reason has failed. It is so for StopError and StopCancelled only.
func (r StopReason) Failed() bool {
	return r == StopError || r == StopCancelled
}

// StopReasonFor maps a provider's finish reason, whatever its case; a word it does not know is StopEndTurn (SM-09).
func StopReasonFor(finishReason string) StopReason {
	switch strings.ToLower(strings.TrimSpace(finishReason)) {
	case "length", "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		return StopMaxTokens
	case "refusal", "content_filter", "safety":
		return StopRefusal
	case "error":
		return StopError
	case "cancelled", "canceled":
		return StopCancelled
	default:
		return StopEndTurn
	}
}

// naturalStop is the stop reason of a successful last step. Whether a step succeeded is for the reason step to say:
// when it kept what a broken stream had brought (LLM-05), the provider's word for the break must not turn a completed
// turn into one that reads as failed.
func naturalStop(finishReason string) StopReason {
	reason := StopReasonFor(finishReason)
	if reason.Failed() {
		return StopEndTurn
	}
	return reason
}
