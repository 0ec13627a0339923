// Package tasktool carries out the calls that start background tasks: it records them. The host runs them.
package tasktool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// tries bounds how often an attempt of a call tries to record its task, after pauses: what has failed is repeated at no
// cost, and the pauses between attempts are those of tools.
const tries = 5

var pauses = backoff.Exponential{First: 100 * time.Millisecond, Factor: 3, Longest: time.Second}

// Executor carries out the calls that start background tasks.
type Executor struct{}

// Prepare implements executor.Executor. A task that an earlier attempt of the call has recorded or withdrawn counts,
// whatever has become of its Tool since.
func (Executor) Prepare(ctx context.Context, p executor.Process, c executor.Call) (executor.Work, error) {
	object := c.Definition.Object()
	if p.Tasks == nil || p.Records == nil {
		if object == nil {
			return executor.Changed(c.Call, tool.CallAbandoned()), nil
		}
		return executor.Work{}, errors.New("this process runs no background tasks")
	}
	s := &spawn{host: p.Tasks, call: c, task: taskOf(p, c), of: background.Session{
		Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID,
	}}
	s.tasks = background.Of(p.Records, s.of, p.Clock)
	found, err := s.tasks.Get(ctx, s.task.ID)
	if err != nil {
		return executor.Work{}, err
	}
	do := s.start
	switch {
	case found != nil:
	case object == nil:
		do = s.refuse(tool.Changed())
	case !c.Network.Binds(object.Name, &object.Spec):
		do = s.refuse(jobspec.Unenforceable())
	}
	return executor.Work{Abandoned: tool.CallAbandoned(), Do: do}, nil
}

// taskOf returns the task that a call starts.
func taskOf(p executor.Process, c executor.Call) *background.Task {
	own := v1alpha1.ObjectIdentity{Name: c.Turn.Name, UID: c.Turn.UID}
	return &background.Task{
		ID:   background.ID(own.UID, c.Call.ID),
		Tool: background.Tool{Name: c.Call.Background, UID: c.Call.ToolUID, Digest: c.Call.ToolDigest},
		Turn: own, CallID: c.Call.ID, Root: background.RootOf(own, c.Origin), SubmittedBy: c.User,
		Locale: c.Locale, TraceParent: c.TraceParent, Timeout: c.Call.Timeout,
		Fingerprint: tool.Fingerprint(c.Call.Background, string(background.Unwrap(c.Arguments).Arguments)),
		Recorded:    p.Clock(),
	}
}

// spawn is a call that starts a task.
type spawn struct {
	host  background.Host
	of    background.Session
	tasks *background.Tasks
	call  executor.Call
	task  *background.Task
}

// start starts the task of the call. A call that could not be carried out is tried again, and finds the task if it was
// recorded.
func (s *spawn) start(ctx context.Context) (tool.Outcome, error) {
	for failures := 1; ; failures++ {
		t, err := s.record(ctx)
		limit := (*background.LimitError)(nil)
		switch {
		case err == nil:
			s.host.Changed(s.of)
			return outcomeOf(t)
		case errors.As(err, &limit):
			return beyond(limit), nil
		case failures == tries, errors.Is(err, record.ErrRefused), errors.Is(err, record.ErrFull),
			backoff.Wait(ctx, pauses.After(failures)) != nil:
			return unconfirmed(), err
		}
	}
}

// refuse returns the end of a call whose task must not start. A request of another process to record the task, which
// arrives later, changes nothing then.
func (s *spawn) refuse(outcome tool.Outcome) func(context.Context) (tool.Outcome, error) {
	return func(ctx context.Context) (tool.Outcome, error) {
		t, err := s.tasks.Withdraw(ctx, s.task.Shown(), outcome)
		if err != nil {
			return unconfirmed(), err
		}
		s.host.Changed(s.of)
		if t == nil {
			return outcome, nil
		}
		return outcomeOf(t)
	}
}

// record records the task, or finds it, recorded or withdrawn. It is announced first, so that the host finds it
// wherever this process ends.
func (s *spawn) record(ctx context.Context) (*background.Task, error) {
	found, err := s.tasks.Prepare(ctx, s.task)
	if err != nil || found != nil {
		return found, err
	}
	if err := s.host.Announce(ctx, s.of, s.task); err != nil {
		return nil, fmt.Errorf("announcing background task %s: %w", s.task.ID, err)
	}
	arguments := background.Unwrap(s.call.Arguments).Arguments
	recorded, err := s.tasks.Start(ctx, s.call.Cause, *s.task, string(arguments))
	if limit := (*background.LimitError)(nil); errors.As(err, &limit) {
		// Another call was faster. A task that another process has recorded since counts.
		found, err := s.tasks.Withdraw(ctx, s.task.Shown(), beyond(limit))
		if err != nil || found != nil {
			return found, err
		}
		s.host.Changed(s.of)
	}
	if err != nil {
		return nil, fmt.Errorf("recording background task %s: %w", s.task.ID, err)
	}
	return &recorded, nil
}

// beyond is the outcome of a call that starts no task because of a limit.
func beyond(limit *background.LimitError) tool.Outcome {
	return tool.NotExecuted(v1alpha1.ToolCallReasonBackgroundLimit, limit.Error())
}

// unconfirmed is the outcome of a call of which this attempt, or one before it, may have recorded the task.
func unconfirmed() tool.Outcome {
	outcome := tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonInternalError,
		"It is not known whether the background task was started. Call "+background.ListTool+
			" before you start it again."))
	outcome.Retryable = true
	return outcome
}

// outcomeOf is the outcome of a call whose task has a record. No message ever comes of a task that was withdrawn.
func outcomeOf(t *background.Task) (tool.Outcome, error) {
	if t.Withdrawn() {
		return t.Refusal(), nil
	}
	return started(t)
}

// started is the outcome of a call whose task is recorded: the id of the task.
func started(t *background.Task) (tool.Outcome, error) {
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
