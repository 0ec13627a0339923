package bash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

// Confined runs scripts in the processes of a Pool.
type Confined struct {
	// Pool has the processes.
	Pool *runner.Pool
}

// Run implements Processes.
func (p Confined) Run(
	ctx context.Context, namespace string, timeout time.Duration, r shell.Request, session shell.Source,
) (*shell.Result, error) {
	var result *shell.Result
	err := p.Pool.Run(ctx, namespace, timeout, shell.Program.Name, func(ctx context.Context, c runner.Conn) error {
		var err error
		result, err = run(ctx, c, r, session)
		return err
	})
	var start *runner.StartError
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, runner.ErrNoPlace):
		return nil, errors.New("no process for the script became free in time")
	case errors.Is(err, runner.ErrTimeout):
		return nil, timedOut(timeout)
	case errors.As(err, &start) && start.Err == nil:
		return nil, fmt.Errorf("a process for scripts did not start: %s", start.Why)
	case errors.As(err, &start):
		return nil, hook.Internal("a process for scripts could not be started", start.Err)
	case errors.Is(err, runner.ErrEnded):
		return nil, errors.New("the process of the script has ended: it exceeded its limits of memory or time")
	default:
		return nil, err
	}
}

// timedOut is the error of a script that takes too long.
func timedOut(timeout time.Duration) error {
	return fmt.Errorf("the hook did not end within %d ms", timeout.Milliseconds())
}

// run sends the script and serves the process until it ends.
func run(ctx context.Context, c runner.Conn, r shell.Request, session shell.Source) (*shell.Result, error) {
	r.NoSession = session == nil
	if err := c.Send(shell.MaxRequestBytes, r); err != nil {
		return nil, sending("the script could not be sent to its process", err)
	}
	for {
		var m shell.Message
		if err := c.Receive(shell.MaxReplyBytes, &m); err != nil {
			return nil, err
		}
		switch {
		case m.Error != "":
			return nil, errors.New(m.Error)
		case m.Done != nil:
			return m.Done, nil
		case session != nil && (m.List || m.Read != ""):
			if err := c.Send(shell.MaxRequestBytes, reply(ctx, m, session)); err != nil {
				return nil, sending("a file could not be sent to the process of the script", err)
			}
		default:
			return nil, errors.New("the process of the script sent an unknown message")
		}
	}
}

// sending is the error of something that could not be sent. It hides the cause, and with it runner.ErrEnded.
func sending(problem string, err error) error {
	return hook.Internal(problem, errors.New(err.Error()))
}

// reply is the response to a process that needs the files of the Session.
func reply(ctx context.Context, m shell.Message, session shell.Source) any {
	if m.List {
		files, err := session.List(ctx)
		if err != nil {
			return shell.Listing{Error: err.Error()}
		}
		return shell.Listing{Files: files}
	}
	content, err := session.Read(ctx, m.Read)
	if err != nil {
		return shell.Content{Error: err.Error()}
	}
	return shell.Content{Content: content}
}
