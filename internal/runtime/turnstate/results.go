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
}

// ResultLeftOut reports whether LeaveOutResult has dropped the text of the ToolResult. The API server accepts no
// ToolResult without one.
func ResultLeftOut(result *v1alpha1.ToolResult) bool {
	return result.Spec.Result == nil && result.Spec.Error == nil && result.Spec.Decision == ""
}

// SettledCallOf returns a ToolResult in the form of the journal.
func SettledCallOf(result *v1alpha1.ToolResult) format.SettledCall {
	call := format.SettledCall{
		ID:       result.Spec.CallID,
		Source:   result.UID,
		Error:    result.Spec.Error,
		Decision: result.Spec.Decision,
	}
	if call.Decision != "" {
		call.By = result.Spec.SubmittedBy
	}
	if text := result.Spec.Result; text != nil {
		// Truncated here, because the entry must hold it however it is encoded.
		kept := tool.CutResult(*text)
		call.Result = &kept
	}
	return call
}
