package tool

import (
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Outcome is the outcome of a call.
type Outcome struct {
	// State is Succeeded, Failed, NotExecuted or Unknown once the call is done; Pending or Running before.
	State v1alpha1.ToolCallState
	// Reason of the state: one of the Reason constants of this package. Before the end, why the call does not start.
	Reason string
	// Result of the tool, with State Succeeded and NeedsLog false. It may be empty.
	Result *string
	// Output is what Result is only the start of; nil where it is all, and once a process has kept it or has not.
	Output *Output
	// Error is the text for the model, with every other final State.
	Error string
	// Started reports whether the tool's container is known to have started.
	Started bool
	// StartedAt and FinishedAt are when the container started and ended, by the node's clock; zero when not known.
	StartedAt, FinishedAt time.Time
	// Image that the tool's container ran, as its runtime names it, with its digest; empty when it did not start.
	Image string
	// SubAgent has the totals of the sub-agent that the call ran as; nil for none.
	SubAgent *v1alpha1.SubAgentTotals
	// NeedsLog reports whether the call succeeded and its result or its files are in the container's log: read them with
	// jobstatus.ReadResult, and turn a failure to do so into jobstatus.LostOutput. HasFiles reports whether files are.
	NeedsLog, HasFiles bool
	// FilesNote is the note in Result about files that are not stored.
	FilesNote string
	// Hooks after the call that have changed the outcome, or did not allow it. Original is the beginning of what the tool
	// returned, if they have changed that.
	Hooks    []event.HookRun
	Original string
	// Asked is what the tool asks before it continues; nil for nothing. The call has not ended then, and nothing else is
	// set but Started.
	Asked *Input
	// Payment that was made for the call; nil for none.
	Payment *event.Payment
	// Status is that of the HTTP response which has ended the call; 0 for none.
	Status int
	// ExitCode is that of a command which has ended by itself with another one than 0.
	ExitCode int32
	// Retryable reports whether the call may be started again under a new attempt. It is never set for AtMostOnce.
	Retryable bool
}

// NotExecuted is the outcome of a call that never started. why is a sentence without its end.
func NotExecuted(reason, why string) Outcome {
	return Outcome{State: v1alpha1.ToolCallStateNotExecuted, Reason: reason, Error: NotExecutedText(why)}
}

// Failed is the outcome of a call that ended with an error. text is for the model.
func Failed(reason, text string) Outcome {
	return Outcome{State: v1alpha1.ToolCallStateFailed, Reason: reason, Error: text}
}

// Unknown is the outcome of a call that started and whose end cannot be determined. why is a sentence without its end.
func Unknown(reason, why string) Outcome {
	return Outcome{State: v1alpha1.ToolCallStateUnknown, Reason: reason, Error: UnknownText(why)}
}

// Interrupted is the outcome of a call that may have started and did not end normally.
func Interrupted(call v1alpha1.ToolCall, reason, why string) Outcome {
	if AtMostOnce(call) {
		return Unknown(reason, why)
	}
	outcome := Failed(reason, InterruptedText(why))
	outcome.Retryable = true
	return outcome
}

// OutputLost is the outcome of a call that ended normally and whose output is lost. It was not a disruption, so that
// only the model decides whether to call again.
func OutputLost(call v1alpha1.ToolCall, why string) Outcome {
	text := outputLostText(why)
	if !AtMostOnce(call) {
		text = outputLostSafelyText(why)
	}
	return AfterStart(Failed(v1alpha1.ToolCallReasonOutputLost, text))
}

// AfterStart is an outcome of a call that has started.
func AfterStart(outcome Outcome) Outcome {
	outcome.Started = true
	return outcome
}
