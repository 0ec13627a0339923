package inprocess

import (
	"context"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Call is a tool call that runs as a Job in a cluster.
type Call struct {
	// Namespace of the Turn.
	Namespace string
	// Turn, Session and Tool are names.
	Turn, Session, Tool string
	// ID of the call, and which Attempt of it this is, from 1.
	ID      string
	Attempt int
	// Image and Command of the Tool, the command with its arguments.
	Image   string
	Command []string
	// Arguments as the tool gets them, byte for byte, at most 96 KiB.
	Arguments string
	// IdempotencyKey is the same for every attempt of a call, and differs between calls: CAPSTAN_IDEMPOTENCY_KEY of a
	// container.
	IdempotencyKey string
	// Locale that the user is to be answered in: CAPSTAN_LOCALE of a container. Empty for none.
	Locale string
	// Context ends when the tool is stopped: its pod is deleted, the Turn has ended, or its timeout has passed. A
	// capstantest.Match gets none.
	Context context.Context
}

// JobRunner returns the result of a tool call: the tool's stdout and stderr, and its exit code. With exit code 0 the
// result is stdout, of which the model is shown at most 64 KiB; with any other it is an error that carries the end of
// stderr. It may block. In process, a call whose function panics fails, or, for an AtMostOnce Tool, has an unknown
// outcome; a function that exceeds its timeout is abandoned.
type JobRunner func(call Call) (stdout, stderr string, exit int)

// callOf is a call for the function that replaces its container.
func callOf(ctx context.Context, j inprocess.Job) Call {
	return Call{
		Namespace:      j.Turn.Namespace,
		Turn:           j.Turn.Name,
		Session:        j.Session,
		Tool:           j.Tool.Name,
		ID:             j.Call.ID,
		Attempt:        int(j.Call.Attempt),
		Image:          j.Tool.Spec.Job.Image,
		Command:        slices.Concat(j.Tool.Spec.Job.Command, j.Tool.Spec.Job.Args),
		Arguments:      j.Arguments,
		IdempotencyKey: tool.IdempotencyKey(j.Turn.UID, j.Call.ID),
		Locale:         j.Locale,
		Context:        ctx,
	}
}

// jobs finds the function of a Tool, and reports its result as a launcher would.
func (b *builder) jobs(ctx context.Context, j inprocess.Job) (result.Report, bool) {
	run := b.tools[j.Tool.Name]
	if run == nil {
		run = b.otherTools
	}
	if run == nil {
		return result.Report{}, false
	}
	return result.ReportOf(run(callOf(ctx, j))), true
}
