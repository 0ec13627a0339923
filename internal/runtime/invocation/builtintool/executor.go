package builtintool

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// Executor carries out the calls of built-in tools.
type Executor struct{}

// Prepare implements executor.Executor.
func (Executor) Prepare(_ context.Context, p executor.Process, c executor.Call) (executor.Work, error) {
	if c.Definition == nil {
		return executor.Changed(c.Call, tool.CallAbandoned()), nil
	}
	return executor.Work{
		Abandoned: tool.CallAbandoned(),
		Do: func(ctx context.Context) (tool.Outcome, error) {
			call := builtin.Call{
				Namespace: c.Session.Namespace, Arguments: tool.ArgumentsOrEmpty(c.Arguments), Now: p.Clock(),
				Cause: c.Cause, Files: c.Files, Fetch: fetch(p, c),
			}
			if p.Tasks != nil && p.Records != nil {
				of := background.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID}
				call.Tasks = background.Of(p.Records, of, p.Clock)
				call.TasksChanged = func() { p.Tasks.Changed(of) }
			}
			return builtin.Run(ctx, c.Definition, c.Call, call)
		},
	}, nil
}

// fetch returns a function that sends requests to where the network access lists of a call permit it; nil where none
// are sent.
func fetch(p executor.Process, c executor.Call) func(context.Context, egress.Request) (*egress.Response, error) {
	if p.Egress == nil {
		return nil
	}
	return func(ctx context.Context, request egress.Request) (*egress.Response, error) {
		request.Permits = c.Network.Permits
		return p.Egress.Do(ctx, request)
	}
}
