package tool

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// LocalEnded is the outcome of a call of a Job tool that a function of this process carried out, from the report that a
// launcher would have written. The report uses the same format, so that results are truncated and errors are worded as
// those of a Job. timeout is how long the call was allowed to take.
func LocalEnded(call v1alpha1.ToolCall, report result.Report, timeout time.Duration) Outcome {
	message, _ := report.Encode(result.NewNonce())
	decoded, err := result.Decode(string(message))
	if err != nil {
		return LostOutput(call, Outcome{Started: true})
	}
	v := &view{call: call, run: timeout}
	outcome := v.reported(decoded, "")
	if outcome.NeedsLog {
		outcome.Result, outcome.NeedsLog = &report.Result, false
	}
	return afterStart(outcome)
}

// LocalPanicked is the outcome of a call whose function panicked. It is not retried: the function would panic again.
func LocalPanicked(call v1alpha1.ToolCall, value any) Outcome {
	why := "its function panicked" + quoted(fmt.Sprint(value))
	if AtMostOnce(call) {
		return afterStart(unknown(v1alpha1.ToolCallReasonPanicked, why))
	}
	return afterStart(failed(v1alpha1.ToolCallReasonPanicked, Interrupted(why)))
}

// LocalMissing is the outcome of a call of a Job tool that no function replaces.
func LocalMissing(name string) Outcome {
	return notExecuted(
		v1alpha1.ToolCallReasonNoFunction,
		fmt.Sprintf("no function replaces the Job of Tool %q in this process; "+
			"add one with WithTool or WithTools", name),
	)
}
