package turn

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Reasons of calls that ended before a pod could tell anything.
const (
	// reasonToolChanged: the Tool was changed or deleted after the call was planned.
	reasonToolChanged = "ToolChanged"
	// reasonRefused: the API server, or a policy in it, did not accept the Job.
	reasonRefused = "Refused"
)

// toolChanged is the outcome of a call whose Tool is not the one that it was planned with.
func toolChanged() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.CallNotExecuted,
		Reason: reasonToolChanged,
		Error:  "The tool was changed or removed after it was called. It was not executed.",
	}
}

// jobRefused is the outcome of a call whose Job the API server did not accept.
func jobRefused(err error) tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.CallNotExecuted,
		Reason: reasonRefused,
		Error:  fmt.Sprintf("The cluster refused to start the tool. It was not executed: %v", err),
	}
}

// lost is the outcome of an AtMostOnce call whose Job is gone although its pod may have run.
func lost() tool.Outcome {
	return tool.Outcome{
		State:   v1alpha1.CallUnknown,
		Reason:  tool.ReasonJobGone,
		Error:   "The tool was started and then lost. Nobody can know what became of it. It was not run again.",
		Started: true,
	}
}
