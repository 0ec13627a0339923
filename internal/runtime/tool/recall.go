package tool

import (
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// previewCut ends a preview that is not the whole text.
const previewCut = "…"

// Recalled is the outcome of a call that is settled in status and has no other traces. The preview of a result is not
// the result; the preview of an error is still useful for the model.
func Recalled(call v1alpha1.ToolCall) Outcome {
	if call.State == v1alpha1.ToolCallStateSucceeded {
		return OutputLost(call, "of its result only the start is known, "+strconv.Quote(call.Preview))
	}
	outcome := Outcome{State: call.State, Reason: call.Reason, Error: call.Preview}
	if outcome.Error != "" && !strings.HasSuffix(outcome.Error, previewCut) {
		return outcome
	}
	var rest string
	switch {
	case call.State == v1alpha1.ToolCallStateNotExecuted:
		rest = NotExecutedText("")
	case call.State == v1alpha1.ToolCallStateUnknown:
		rest = UnknownText("")
	case AtMostOnce(call):
		rest = "The tool failed. The rest of its error was lost."
	default:
		rest = "The tool failed. The rest of its error was lost. It is safe to call it again."
	}
	outcome.Error = strings.TrimSpace(outcome.Error + " " + rest)
	return outcome
}
