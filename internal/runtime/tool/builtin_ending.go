package tool

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// BuiltinReturned is the outcome of a call of a built-in tool that returned a result.
func BuiltinReturned(text string) Outcome {
	text = CutResult(text)
	return afterStart(
		Outcome{State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text},
	)
}

// BuiltinFailed is the outcome of a call of a built-in tool that returned an error for the model.
func BuiltinFailed(text string) Outcome {
	return afterStart(failed(v1alpha1.ToolCallReasonToolError, result.Head(text, MaxErrorBodyBytes)))
}

// BuiltinBroken is the outcome of a call of a built-in tool that failed because of a defect. The model learns nothing
// else of it.
func BuiltinBroken(call v1alpha1.ToolCall) Outcome {
	if AtMostOnce(call) {
		return afterStart(
			unknown(v1alpha1.ToolCallReasonInternalError, "an internal error occurred while it was executed"),
		)
	}
	return afterStart(failed(v1alpha1.ToolCallReasonInternalError,
		"An internal error occurred while executing the tool. It is safe to call it again."))
}
