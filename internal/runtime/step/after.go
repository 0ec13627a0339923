package step

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// An outcome with the largest result fits into an entry with these bounds.
const (
	// maxOriginalBytes is the length of what is recorded of a result or an error that hooks have changed.
	maxOriginalBytes = 8 << 10
	// maxRuns is the number of hooks that are recorded of a call, and maxRunReason the length of their reasons.
	maxRuns, maxRunReason = 16, 256
)

// After returns the function that runs the hooks after a call (HOOK-21), and then keeps an output that is longer than
// its result (TOOL-13, TOOL-19); nil if there is neither. It runs once the call has ended, and not between its
// attempts. A call that was not executed has no result for it. The arguments are those that the tool was called with.
func (run *Runner) After(
	t turnstate.Turn, c turnstate.Config, call v1alpha1.ToolCall, arguments string,
) invocation.After {
	hooked, keeps := len(hook.Of(c.Hooks, hook.PostToolUse)) > 0, run.KeepsOutputs(c)
	if !hooked && !keeps || call.Executor == v1alpha1.ToolExecutorTask {
		return nil
	}
	return func(ctx context.Context, outcome tool.Outcome) (tool.Outcome, error) {
		if outcome.State == v1alpha1.ToolCallStateNotExecuted || act.WillRetry(call, outcome) {
			return outcome, nil
		}
		var err error
		if hooked {
			if outcome, err = run.hooksAfter(ctx, t, c, call, arguments, outcome); err != nil {
				return tool.Outcome{}, err
			}
		}
		if keeps {
			outcome, err = run.keepOutput(ctx, t, c, call, outcome)
		}
		return outcome, err
	}
}

// hooksAfter is the outcome of a call as the hooks after it leave it.
func (run *Runner) hooksAfter(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, call v1alpha1.ToolCall, arguments string,
	outcome tool.Outcome,
) (tool.Outcome, error) {
	ctx, cancel := hook.WithStepBudget(ctx)
	defer cancel()
	looked, err := run.openHooks(t, c).After(ctx, c.Hooks, hook.ToolCall{
		ID: call.ID, Tool: call.Name, Arguments: json.RawMessage(tool.ArgumentsOrEmpty(arguments)),
	}, returned(outcome))
	if err != nil {
		return tool.Outcome{}, err
	}
	logHooks(ctx, looked.Records)
	if looked.Changed {
		outcome = changed(outcome, looked.Returned)
	}
	outcome.Hooks = fewRuns(looked.Records)
	return outcome, nil
}

// fewRuns are the first records that the journal keeps of the hooks after a call.
func fewRuns(records []hook.Record) []journal.HookRun {
	runs := hookRuns(records)
	runs = runs[:min(len(runs), maxRuns)]
	for i := range runs {
		runs[i].Reason = excerpt.Of(runs[i].Reason, maxRunReason)
	}
	return runs
}

// returned is an outcome as hooks see it: a result that is a JSON object or an array as it is, any other one as a text.
func returned(outcome tool.Outcome) hook.Returned {
	if outcome.State != v1alpha1.ToolCallStateSucceeded {
		return hook.Returned{Error: &outcome.Error}
	}
	text := ""
	if outcome.Result != nil {
		text = *outcome.Result
	}
	if isComposite(text) {
		return hook.Returned{Result: json.RawMessage(text)}
	}
	encoded, err := json.Marshal(text)
	if err != nil {
		return hook.Returned{}
	}
	return hook.Returned{Result: encoded}
}

// isComposite reports whether a text is a JSON object or an array. Nothing is decoded: the values of a short text can
// take much memory.
func isComposite(text string) bool {
	start := strings.TrimLeft(text, " \t\r\n")
	return start != "" && (start[0] == '{' || start[0] == '[') && json.Valid([]byte(text))
}

// changed is an outcome as hooks have left it. A call that has failed stays one that has failed: a result that hooks
// have made of it is added to its error. The model still learns that an outcome is unknown.
func changed(outcome tool.Outcome, by hook.Returned) tool.Outcome {
	before, text := outcome.Error, textOf(by.Result)
	if outcome.Result != nil {
		before = *outcome.Result
	}
	outcome.Original = excerpt.Of(before, maxOriginalBytes)
	if by.Error == nil {
		// The output that the tool returned is not for the model any more.
		text, outcome.Output = tool.Cut([]byte(text), 0)
		outcome.Result = &text
		return outcome
	}
	failure := *by.Error
	if outcome.State == v1alpha1.ToolCallStateUnknown && failure != outcome.Error {
		failure = outcome.Error + "\n" + failure
	}
	if outcome.State == v1alpha1.ToolCallStateSucceeded {
		outcome.State, outcome.Reason, text = v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonFailedByHook, ""
	}
	if text != "" {
		failure += "\n" + text
	}
	outcome.Result, outcome.Output = nil, nil
	outcome.Error, _ = result.Cut([]byte(failure), 0)
	return outcome
}

// textOf is a result of a hook as the model reads it: a text as it is, null as nothing, and any other value as JSON.
func textOf(value json.RawMessage) string {
	var text *string
	switch {
	case len(value) == 0:
		return ""
	case json.Unmarshal(value, &text) != nil:
		return string(value)
	case text == nil:
		return ""
	default:
		return *text
	}
}
