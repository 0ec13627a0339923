package builtintool

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
	"github.com/capstan-dev/capstan/internal/runtime/title"
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
			return builtin.Run(ctx, c.Definition, c.Call, builtin.Call{
				Namespace: c.Session.Namespace, Arguments: tool.ArgumentsOrEmpty(c.Arguments),
				Now: p.Clock(), Cause: c.Cause, Services: servicesOf(p, c),
			})
		},
	}, nil
}

// servicesOf returns the services of the Session of a call, as far as the process provides them (CTX-01).
func servicesOf(p executor.Process, c executor.Call) builtin.Services {
	var s builtin.Services
	if p.Egress != nil {
		s.Web = builtin.FetchFunc(func(ctx context.Context, request egress.Request) (*egress.Response, error) {
			request.Permits = c.Network.Permits // CTX-05
			return p.Egress.Do(ctx, request)
		})
	}
	if c.Files != nil {
		s.Files = c.Files
	}
	if p.Schedules != nil {
		s.Schedules = schedule.Own{
			Host: p.Schedules, Key: c.Cause.Key, SubmittedBy: c.User,
			Owner: schedule.Owner{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID},
		}
	}
	if p.Leases != nil {
		s.Leases = lease.Own{
			Host:  p.Leases,
			Owner: lease.Owner{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID},
		}
	}
	if p.Titles != nil {
		s.Title = title.Own{
			Host: p.Titles, Of: title.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID},
		}
	}
	if p.Records == nil {
		return s
	}
	of := record.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID}
	s.Storage = storage.Of(p.Records, of)
	s.Resources = resource.Of(p.Records, of)
	if p.Secrets != nil {
		s.Secrets = sessionsecret.Of(p.Secrets, p.Records, of)
	}
	s.Memories = memory.Of(p.Records, of)
	s.SharedMemories = func(ctx context.Context, config memory.Config) (builtin.Memories, error) {
		return memory.Shared(ctx, p.Sessions, p.Records, memory.Reader{Session: of, Agent: c.Agent}, config)
	}
	s.Images = sessionimage.Of(p.Records, of)
	if p.Databases != nil {
		s.Databases = p.Databases.Of(of)
	}
	if p.Tasks != nil {
		s.Tasks = tasks{Tasks: background.Of(p.Records, of, p.Clock), changed: func() { p.Tasks.Changed(of) }}
	}
	return s
}

// tasks are the background tasks of a Session, whose host learns of each cancellation.
type tasks struct {
	*background.Tasks
	changed func()
}

// Cancel implements builtin.Tasks.
func (t tasks) Cancel(ctx context.Context, id string) (*background.Task, error) {
	task, err := t.Tasks.Cancel(ctx, id)
	if err == nil && task != nil {
		t.changed()
	}
	return task, err
}
