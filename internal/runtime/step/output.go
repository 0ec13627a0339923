package step

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// outputTimeout bounds how long a call waits until its output is kept: the bytes that a namespace writes per second are
// limited.
const outputTimeout = 30 * time.Second

// KeepsOutputs reports whether outputs that are longer than a result are kept as files (TOOL-19): where the model has a
// tool to read them.
func (run *Runner) KeepsOutputs(c turnstate.Config) bool {
	return run.Records != nil && builtin.ReadsFiles(c.Tools)
}

// keepOutput keeps what a result is only the start of as a file, and adds its path to the result. A call does not fail
// because its output cannot be kept. The error is that of the context.
func (run *Runner) keepOutput(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, call v1alpha1.ToolCall, outcome tool.Outcome,
) (tool.Outcome, error) {
	output := outcome.Output
	if outcome.Output = nil; output == nil || outcome.Result == nil {
		return outcome, nil
	}
	limited, cancel := context.WithTimeout(ctx, outputTimeout)
	defer cancel()
	kept, err := run.Files(t, InitialFiles(c)).KeepOutput(limited, outputCause(t, call.ID), t.Ref.Name, call.ID,
		sessionfs.Output{Content: output.Content, Total: output.Total})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to keep the output of a call", "call", call.ID)
		return outcome, ctx.Err()
	}
	text := tool.Output{Content: kept.Content, Total: kept.Total}.Kept(kept.Path, kept.IsText)
	if outcome.FilesNote != "" {
		text = content.Add(text, outcome.FilesNote)
	}
	outcome.Result = &text
	return outcome, nil
}

// outputCause identifies the output of a call to the stores of its Session, apart from what the call itself changes.
func outputCause(t turnstate.Turn, call string) record.Cause {
	cause := invocation.CauseOf(t, call)
	cause.Key += "/output"
	return cause
}
