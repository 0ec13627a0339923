package builtin

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// returned is the outcome of a call of a built-in tool that returned a result.
func returned(text string) tool.Outcome {
	text = tool.CutResult(text)
	return tool.AfterStart(
		tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text},
	)
}

// failed is the outcome of a call of a built-in tool that returned an error for the model.
func failed(text string) tool.Outcome {
	return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonToolError, result.Head(text, tool.MaxErrorBodyBytes)))
}

// internalError is the outcome of a call of a built-in tool that failed because of a defect. The model learns nothing
// else of it.
func internalError(call v1alpha1.ToolCall) tool.Outcome {
	if tool.AtMostOnce(call) {
		return tool.AfterStart(
			tool.Unknown(v1alpha1.ToolCallReasonInternalError, "an internal error occurred while it was executed"),
		)
	}
	return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonInternalError,
		"An internal error occurred while executing the tool. It is safe to call it again."))
}
