package inprocess

import (
	"context"
	"io"
	"slices"

	"github.com/capstan-dev/capstan/capstantest/job"
	"github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Call is a tool call that runs as a Job in a cluster.
type Call = job.Call

// JobRunner returns the result of a tool call: see job.Runner.
type JobRunner = job.Runner

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
		Stderr:         io.Discard,
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
	call := callOf(ctx, j)
	if j.Inputs != nil {
		call.Files = j.Inputs.Contents()
	}
	stdout, stderr, exit := run(call)
	report := result.ReportOf(stdout, stderr, exit)
	var files *result.Files
	if j.Inputs != nil {
		files = j.Inputs.Returned(call.Files, j.Outputs)
	}
	return report.WithFiles(files, stdout, j.KeepsOutput), true
}
