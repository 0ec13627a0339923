package turn

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// toolChanged is the outcome of a call whose Tool is not the one that it was planned with.
func toolChanged() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.CallNotExecuted,
		Reason: tool.ReasonToolChanged,
		Error:  tool.NotExecuted("it was changed or removed after it was called"),
	}
}
