package invocation

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/builtintool"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/httptool"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/mcptool"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/tasktool"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// inProcess are the executors of this process (TOOL-01): those of executors.CarrierProcess.
var inProcess = map[v1alpha1.ToolExecutor]executor.Executor{
	v1alpha1.ToolExecutorHTTP:    httptool.Executor{},
	v1alpha1.ToolExecutorMCP:     mcptool.Executor{},
	v1alpha1.ToolExecutorBuiltin: builtintool.Executor{},
	v1alpha1.ToolExecutorTask:    tasktool.Executor{},
}

// process returns the resources of the Runner that executors may use.
func (run *Runner) process() executor.Process {
	return executor.Process{
		Clock: run.Clock, Egress: run.Egress, Clients: run.Clients, Secrets: run.Secrets, Account: run.Account,
		Records: run.Records, Tasks: run.Tasks, Identity: run.Identity, ConfigMaps: run.ConfigMaps,
		Schedules:   run.Schedules,
		Connections: run.connections(),
		Payments:    run.Payments,
		Titles:      run.Titles,
		Sessions:    run.Sessions,
		Leases:      run.Leases,
		Databases:   run.Databases,
	}
}

// connections returns the source of the tokens of users' connections.
func (run *Runner) connections() *token.Source {
	if run.Connections != nil {
		return run.Connections
	}
	return token.NewSource(run.Secrets, run.Egress, run.Clock)
}

// prepare returns how a call is carried out.
func (run *Runner) prepare(
	ctx context.Context, e executor.Executor, t turnstate.Turn, c Call,
) (executor.Work, error) {
	answers, err := run.answers(ctx, t, c.Call)
	if err != nil {
		return executor.Work{}, err
	}
	var keepTask func(context.Context, executor.Task) error
	if act.Claimable(c.Call, t.Local) {
		keepTask = func(ctx context.Context, task executor.Task) error { return run.keepTask(ctx, t, c, task) }
	}
	return e.Prepare(ctx, run.process(), executor.Call{
		KeepTask:    keepTask,
		Progress:    run.progress(t, c),
		Session:     t.Session,
		Turn:        t.Ref,
		Harness:     t.Harness,
		Agent:       t.Agent,
		User:        t.User(),
		Users:       t.Progress.Users,
		Origin:      t.Origin,
		Locale:      t.Locale,
		Cause:       CauseOf(t, c.Call.ID),
		Call:        c.Call,
		Arguments:   c.Arguments,
		Definition:  c.Definition,
		HideSecrets: c.HideSecrets,
		Network:     c.Network,
		Files:       run.Files(t, c.InitialFiles),
		Asks:        turnstate.Waits(t),
		Answers:     answers,
		KeepsOutput: c.KeepsOutput,
		TraceParent: t.TraceParent(c.Call.ID),
		Claimed:     func(ctx context.Context) (bool, error) { return run.claimed(ctx, t, c) },
	})
}

// progress returns what publishes the progress of a call; nil if nothing wants it.
func (run *Runner) progress(t turnstate.Turn, c Call) func(mcp.Progress) {
	if run.Live == nil || !run.Live.Wanted(t.Session.UID) {
		return nil
	}
	of := event.NewFactory(t.Identity(), run.Clock).Step(t.Step(), 1)
	display := ""
	if c.Definition != nil {
		display = c.Definition.DisplayName
	}
	return func(p mcp.Progress) {
		run.Live.Publish(live.Event{
			Session: types.NamespacedName{Namespace: t.Session.Namespace, Name: t.Session.Name}, UID: t.Session.UID,
			Turn: t.Ref,
			Event: of.ToolProgress(event.ToolProgress{
				ToolCallID: c.Call.ID, ToolName: c.Call.Name, DisplayName: display, Message: p.Message, Progress: p.Done,
				Total: p.Total,
			}),
		})
	}
}

// Files returns those of the Session of a Turn; nil where no process stores any. initial reads the files that the
// Session begins with; nil if it begins without files.
func (run *Runner) Files(
	t turnstate.Turn, initial func(context.Context) ([]sessionfs.Initial, error),
) *sessionfs.FS {
	if run.Records == nil {
		return nil
	}
	of := sessionfs.Session{Namespace: t.Session.Namespace, Name: t.Session.Name, UID: t.Session.UID}
	return sessionfs.New(run.Records, of, initial)
}

// CauseOf identifies a call to the stores of its Session. The ordinal at which its step was opened grows from step to
// step, so that a process that was overtaken changes nothing any more.
func CauseOf(t turnstate.Turn, call string) record.Cause {
	return record.Cause{Step: t.Progress.Plan.OpenedAtOrdinal, Key: string(t.Ref.UID) + "/" + call}
}

// MissingSecret returns the first missing Secret that a call of a definition needs; nil if none is missing. A nil
// definition needs none.
func (run *Runner) MissingSecret(
	ctx context.Context, of executor.Asker, d *definition.Definition,
) (*act.MissingSecret, error) {
	if d == nil {
		return nil, nil
	}
	user, uses := inProcess[d.Executor].(executor.SecretUser)
	if !uses {
		return nil, nil
	}
	return user.MissingSecret(ctx, run.process(), of, d)
}

// claimed reports whether the next request of a call that must not start twice was claimed. What has become of a
// claimed request follows from the journal, and does not depend on its Secrets.
func (run *Runner) claimed(ctx context.Context, t turnstate.Turn, c Call) (bool, error) {
	if !act.Claimable(c.Call, t.Local) {
		return false, nil
	}
	claims, err := run.Log.Claims(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	for _, claim := range claims {
		if claim.Call.ID == c.Call.ID && claim.Call.Round == tool.InputRound(c.Call) {
			return true, nil
		}
	}
	return false, err
}
