package jobstatus

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// LocalEnded is the outcome of a call of a Job tool that a function of this process carried out, from the report that a
// launcher would have written. The report uses the same format, so that results are truncated and errors are worded as
// those of a Job. timeout is how long the call was allowed to take.
func LocalEnded(call v1alpha1.ToolCall, report result.Report, timeout time.Duration) tool.Outcome {
	message, _ := report.Encode(result.NewNonce())
	decoded, err := result.Decode(string(message))
	if err != nil {
		return LostOutput(call, tool.Outcome{Started: true})
	}
	v := &view{call: call, run: timeout}
	outcome := v.reported(decoded, "")
	if outcome.NeedsLog {
		outcome.Result, outcome.NeedsLog, outcome.HasFiles = &report.Result, false, false
	}
	if files := report.Files; files != nil && len(files.Output) > 0 && outcome.Result != nil {
		outcome.Output = &tool.Output{Content: files.Output, Total: report.StdoutBytes}
	}
	return tool.AfterStart(outcome)
}

// LocalPanicked is the outcome of a call whose function panicked. It is not retried: the function would panic again.
func LocalPanicked(call v1alpha1.ToolCall, value any) tool.Outcome {
	why := "its function panicked" + tool.Quoted(fmt.Sprint(value))
	if tool.AtMostOnce(call) {
		return tool.AfterStart(tool.Unknown(v1alpha1.ToolCallReasonPanicked, why))
	}
	return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonPanicked, tool.InterruptedText(why)))
}

// LocalMissing is the outcome of a call of a Job tool that no function replaces.
func LocalMissing(name string) tool.Outcome {
	return tool.NotExecuted(
		v1alpha1.ToolCallReasonNoFunction,
		fmt.Sprintf("no function replaces the Job of Tool %q in this process; "+
			"add one with WithTool or WithTools", name),
	)
}
