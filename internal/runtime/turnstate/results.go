package turnstate

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// maxResultBytes is the length up to which the cache keeps the text of a ToolResult that was not accepted yet.
const maxResultBytes = 2 << 10

// LeaveOutResult drops a long text of a ToolResult. Caches that keep many ToolResults use it, and read the text later.
func LeaveOutResult(result *v1alpha1.ToolResult) {
	for _, text := range []**string{&result.Spec.Result, &result.Spec.Error} {
		if *text != nil && len(**text) > maxResultBytes {
			*text = nil
		}
	}
	if input := result.Spec.Input; input != nil && input.Content != nil && len(input.Content.Raw) > maxResultBytes {
		result.Spec.Input = &v1alpha1.InputAnswer{ID: input.ID, Action: input.Action, Content: &v1alpha1.JSON{}}
	}
}

// ResultLeftOut reports whether LeaveOutResult has dropped the text of the ToolResult. The API server accepts no
// ToolResult without one.
func ResultLeftOut(result *v1alpha1.ToolResult) bool {
	if input := result.Spec.Input; input != nil {
		return input.Content != nil && len(input.Content.Raw) == 0
	}
	return result.Spec.Result == nil && result.Spec.Error == nil && result.Spec.Decision == ""
}

// SettledCallOf returns a ToolResult for a call in the form of the journal.
func SettledCallOf(result *v1alpha1.ToolResult, of v1alpha1.ToolCall) format.SettledCall {
	if input := result.Spec.Input; input != nil {
		return format.SettledCall{
			ID: of.ID, Source: result.UID, By: result.Spec.SubmittedBy,
			Answered: &format.AnsweredInput{Round: tool.InputRound(of), Answer: *input.DeepCopy()},
		}
	}
	call := format.SettledCall{
		ID:       result.Spec.CallID,
		Source:   result.UID,
		Error:    result.Spec.Error,
		Decision: result.Spec.Decision,
	}
	if call.Decision != "" {
		call.By = result.Spec.SubmittedBy
		if reason := result.Spec.Reason; reason != "" {
			call.Error = &reason
		}
	}
	if text := result.Spec.Result; text != nil {
		// Truncated here, because the entry must hold it however it is encoded.
		kept := tool.CutResult(*text)
		call.Result = &kept
	}
	return call
}
