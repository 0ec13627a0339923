package mcptool

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/mcpcall"
)

const (
	// maxTask is how long a task may take.
	maxTask = time.Hour
	// minPause and maxPause bound the time between two requests for a task, and usualPause is that of a server that does
	// not say.
	minPause, usualPause, maxPause = time.Second, 5 * time.Second, time.Minute
	// cancelTimeout is how long the request to cancel a task may take.
	cancelTimeout = 5 * time.Second
)

// follower follows the task that a call has become until it ends.
type follower struct {
	process executor.Process
	call    executor.Call
	server  mcp.Server
	// hidden is what no outcome may show.
	hidden http.Header
	// timeout is that of each request.
	timeout time.Duration
}

// begin follows a task that was just made.
func (f follower) begin(ctx context.Context, made *mcp.Task) (tool.Outcome, error) {
	task := executor.Task{ID: made.ID, Until: f.process.Clock().Add(maxTask)}
	if task.ID == "" {
		return f.lost("its server has made a task of it that cannot be followed"), nil
	}
	if credential.RedactText(task.ID, f.hidden) != task.ID {
		// The journal would show it.
		f.cancel(ctx, task)
		return f.lost("the id of its task has the value of a Secret"), nil
	}
	return f.follow(ctx, task, made.Pause, f.call.KeepTask == nil)
}

// lost is the outcome of a call whose task continues unseen, if it does.
func (f follower) lost(why string) tool.Outcome {
	return tool.AfterStart(tool.Interrupted(f.call.Call, v1alpha1.ToolCallReasonTaskLost, why))
}

// resume follows a task that the journal has.
func (f follower) resume(ctx context.Context, task executor.Task) (tool.Outcome, error) {
	return f.follow(ctx, task, minPause, true)
}

// follow asks the server for the task from time to time. The task is recorded before the first time if possible, and
// otherwise as soon as it is: the server continues it in any case.
func (f follower) follow(
	ctx context.Context, task executor.Task, pause time.Duration, kept bool,
) (tool.Outcome, error) {
	for {
		if !kept {
			kept = f.call.KeepTask(ctx, task) == nil
		}
		if err := rest(ctx, bounded(pause)); err != nil {
			return f.interrupted(ctx, task)
		}
		if !f.process.Clock().Before(task.Until) {
			f.cancel(ctx, task)
			return tool.AfterStart(tool.Interrupted(f.call.Call, v1alpha1.ToolCallReasonTimeout,
				"the task of the call did not end within "+maxTask.String())), nil
		}
		state, err := f.ask(ctx, task)
		switch {
		case ctx.Err() != nil:
			return f.interrupted(ctx, task)
		case errors.Is(err, mcp.ErrTaskUnknown):
			return f.lost("the server does not know the task of the call any more"), nil
		case err != nil:
			pause = 2 * bounded(pause)
		case state.Status == mcp.TaskWorking:
			pause = state.Pause
		default:
			return f.ended(ctx, task, state), nil
		}
	}
}

// ask asks the server for the task.
func (f follower) ask(ctx context.Context, task executor.Task) (*mcp.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return mcp.GetTask(ctx, f.process.Egress, f.server, task.ID, f.call.Network.Permits)
}

// ended is the outcome of a call whose task does not continue.
func (f follower) ended(ctx context.Context, task executor.Task, state *mcp.Task) tool.Outcome {
	switch state.Status {
	case mcp.TaskCompleted:
		return mcpcall.Ended(f.call.Call, f.timeout, f.hidden, false, state.Result, nil)
	case mcp.TaskFailed:
		return mcpcall.Ended(f.call.Call, f.timeout, f.hidden, false, nil, &mcp.Error{
			Called: true, Answered: true, Rejected: state.Failure,
		})
	case mcp.TaskInputRequired:
		f.cancel(ctx, task)
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonToolError,
			"The tool asked for input while its task was in progress, which cannot be given. The task was cancelled."))
	default:
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonToolError,
			"The server has cancelled the task of the call."))
	}
}

// interrupted ends the task if no step waits for it any more. Otherwise a later process continues it.
func (f follower) interrupted(ctx context.Context, task executor.Task) (tool.Outcome, error) {
	if errors.Is(context.Cause(ctx), executor.ErrCallEnded) {
		f.cancel(ctx, task)
	}
	return tool.Outcome{}, executor.ErrContinues
}

// cancel asks the server to end the task. It may finish it nevertheless, so that an error does not matter.
func (f follower) cancel(ctx context.Context, task executor.Task) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	_ = mcp.CancelTask(ctx, f.process.Egress, f.server, task.ID, f.call.Network.Permits)
}

// bounded is the time until a task is asked for again.
func bounded(pause time.Duration) time.Duration {
	if pause <= 0 {
		pause = usualPause
	}
	return min(max(pause, minPause), maxPause)
}

// rest waits without a place.
func rest(ctx context.Context, pause time.Duration) error {
	share := fairshare.FromContext(ctx)
	held := share.Amount()
	share.Shrink(fairshare.Amount{})
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return share.Regain(ctx, held)
	case <-ctx.Done():
		return ctx.Err()
	}
}
