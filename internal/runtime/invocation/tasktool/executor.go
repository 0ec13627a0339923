// Package tasktool carries out the calls that start background tasks: it records them. The host runs them.
package tasktool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// Executor carries out the calls that start background tasks.
type Executor struct{}

// Prepare implements executor.Executor.
func (Executor) Prepare(_ context.Context, p executor.Process, c executor.Call) (executor.Work, error) {
	object := c.Definition.Object()
	if object == nil {
		return executor.Changed(c.Call, tool.CallAbandoned()), nil
	}
	if !c.Network.Binds(object.Name, &object.Spec) {
		refused := jobspec.Unenforceable()
		return executor.Work{Refused: &refused, Abandoned: tool.CallAbandoned()}, nil
	}
	if p.Tasks == nil || p.Records == nil {
		return executor.Work{}, errors.New("this process runs no background tasks")
	}
	return executor.Work{
		Abandoned: tool.CallAbandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			started, err := start(ctx, p, c)
			return outcome(started, err)
		},
	}, nil
}

// start records the task of a call, and makes the host look at it.
func start(ctx context.Context, p executor.Process, c executor.Call) (background.Task, error) {
	of := background.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID}
	if err := p.Tasks.Admit(ctx, of); err != nil {
		return background.Task{}, err
	}
	own := v1alpha1.ObjectIdentity{Name: c.Turn.Name, UID: c.Turn.UID}
	spawned := background.Unwrap(c.Arguments)
	t, err := background.Of(p.Records, of, p.Clock).Start(ctx, c.Cause, background.Task{
		Tool: background.Tool{Name: c.Call.Background, UID: c.Call.ToolUID, Digest: c.Call.ToolDigest},
		Turn: own, CallID: c.Call.ID, Root: background.RootOf(own, c.Origin), SubmittedBy: c.SubmittedBy,
		Locale: c.Locale, TraceParent: c.TraceParent, Timeout: c.Call.Timeout,
		Fingerprint: tool.Fingerprint(c.Call.Background, string(spawned.Arguments)),
	}, string(spawned.Arguments))
	if err != nil {
		return background.Task{}, fmt.Errorf("recording a background task: %w", err)
	}
	if err := p.Tasks.Changed(ctx, of); err != nil {
		return background.Task{}, fmt.Errorf("starting background task %s: %w", t.ID, err)
	}
	return t, nil
}

// outcome is that of a call: the id of the task. A call that could not be carried out is tried again, and finds the
// task if it was recorded.
func outcome(t background.Task, err error) (tool.Outcome, error) {
	var limit *background.LimitError
	switch {
	case errors.As(err, &limit):
		return tool.NotExecuted(v1alpha1.ToolCallReasonBackgroundLimit, limit.Error()), nil
	case err != nil:
		failed := tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonInternalError,
			"The background task could not be recorded. It is safe to call the tool again."))
		failed.Retryable = true
		return failed, err
	}
	result, err := json.Marshal(map[string]string{
		"task_id": t.ID, "tool": t.Tool.Name, "state": string(t.State()),
		"note": "It runs in the background. A message with its result comes when it has ended; do not wait for it.",
	})
	if err != nil {
		return tool.Outcome{}, fmt.Errorf("encoding the id of a task: %w", err)
	}
	text := string(result)
	return tool.AfterStart(tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text,
	}), nil
}
