package inprocess

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// callEnd is the end of one attempt of a call.
type callEnd struct {
	invocation.End
	index int
	err   error
}

// start starts the calls.
func (a *acting) start(ctx context.Context, indexes []int) error {
	for _, index := range indexes {
		shown := &a.calls()[index]
		carryOut, err := a.prepare(ctx, index)
		if err != nil {
			return err
		}
		if carryOut == nil {
			continue
		}
		act.Start(shown)
		a.begun = true
		go func() {
			defer func() {
				if p := recover(); p != nil {
					a.ended <- callEnd{index: index, err: fmt.Errorf("running a call panicked: %v\n%s", p, debug.Stack())}
				}
			}()
			end, err := carryOut(ctx)
			a.ended <- callEnd{End: end, index: index, err: err}
		}()
	}
	return nil
}

// prepare returns how a call is carried out; nil if it must not start and is settled.
func (a *acting) prepare(
	ctx context.Context, index int,
) (func(context.Context) (invocation.End, error), error) {
	shown := &a.calls()[index]
	if !a.adopted {
		if refused := a.loop.Steps.Limit(ctx, a.turnState(), a.config, a.step, *shown); refused != nil {
			a.step.Settle(shown, *refused)
			return nil, nil
		}
	}
	switch shown.Executor {
	case v1alpha1.ToolExecutorAgent:
		return a.spawn(shown)
	case v1alpha1.ToolExecutorJob:
		if refused := a.refused(*shown); refused != nil {
			a.step.Settle(shown, *refused)
			return nil, nil
		}
		return a.job(*shown, a.attempt(index)), nil
	default:
		return a.own(*shown, a.attempt(index)), nil
	}
}

// attempt is the state of the newest request of a call, which stays the same if the attempt is carried out again.
func (a *acting) attempt(index int) *invocation.Attempt {
	call := a.calls()[index]
	number, round := call.Attempt, tool.InputRound(call)
	if last := a.runs[index]; last.number != number || last.round != round {
		a.runs[index] = attempt{number: number, round: round, run: invocation.NewAttempt(a.line)}
	}
	return a.runs[index].run
}

// definition is the Tool that a call was planned with; nil if it no longer exists.
func (a *acting) definition(call v1alpha1.ToolCall) *v1alpha1.Tool {
	return a.config.Tools.Planned(call).Object()
}

// own lets the runner of steps carry out a call, which the manager does itself as well.
func (a *acting) own(call v1alpha1.ToolCall, run *invocation.Attempt) func(context.Context) (invocation.End, error) {
	turn := a.turnState()
	c := invocation.Call{
		Call:         call,
		Arguments:    a.step.Plan(call.ID).Arguments,
		Definition:   a.config.Tools.Planned(call),
		HideSecrets:  a.config.Tools.PermitSecrets(),
		Network:      a.config.Effective.Network,
		InitialFiles: step.InitialFiles(a.config),
		KeepsOutput:  a.loop.Steps.KeepsOutputs(a.config),
		Attempt:      run,
		After:        a.after(turn, call),
	}
	return func(ctx context.Context) (invocation.End, error) { return a.loop.Steps.CarryOut(ctx, turn, c) }
}

// refused is the outcome of a call of a Job tool that must not start; nil when it may.
func (a *acting) refused(call v1alpha1.ToolCall) *tool.Outcome {
	planned := a.config.Tools.Planned(call)
	definition := planned.Object()
	var outcome tool.Outcome
	switch {
	case definition == nil:
		outcome = tool.Changed()
	// The program of a capability connects to the API server only.
	case planned.BuiltinCapability() == "" && !a.config.Effective.Network.Binds(definition.Name, &definition.Spec):
		outcome = jobspec.Unenforceable()
	default:
		return nil
	}
	return &outcome
}

// job runs a function of this process in place of the container of a call.
func (a *acting) job(call v1alpha1.ToolCall, run *invocation.Attempt) func(context.Context) (invocation.End, error) {
	turn, definition := a.turnState(), a.definition(call)
	j := Job{
		Turn:      a.turn.DeepCopy(),
		Session:   a.turn.Spec.SessionRef.Name,
		Call:      call,
		Tool:      definition,
		Arguments: tool.ArgumentsOrEmpty(a.step.Plan(call.ID).Arguments),
		Locale:    a.turn.Status.Plan.Locale,
	}
	c, config := invocation.Call{Call: call, Attempt: run, After: a.after(turn, call)}, a.config
	j.KeepsOutput = a.loop.Steps.KeepsOutputs(config)
	return func(ctx context.Context) (invocation.End, error) {
		return a.loop.Steps.Local(ctx, turn, c, func(ctx context.Context) tool.Outcome {
			return tool.NeededConnection(&j.Tool.Spec, a.loop.exchange(ctx, turn, config, j), turnstate.Waits(turn))
		})
	}
}

// exchange carries out a call with the files that its tool gets, and stores those that it returns.
func (l *Loop) exchange(ctx context.Context, turn turnstate.Turn, config turnstate.Config, j Job) tool.Outcome {
	inputs, refused, err := l.Steps.Inputs(ctx, turn, config, j.Tool.Spec.Job)
	switch {
	case err != nil:
		return tool.NotExecuted(v1alpha1.ToolCallReasonStartError, "its files could not be read")
	case refused != nil:
		return *refused
	}
	j.Inputs, j.Outputs = inputs, step.Outputs(j.Tool.Spec.Job)
	outcome, returned := l.carryOut(ctx, j)
	stored, err := l.Steps.StoreFiles(ctx, turn, config, j.Call, outcome, returned)
	if err != nil {
		outcome.HasFiles = true
		return jobstatus.LostOutput(j.Call, outcome)
	}
	return stored
}

// after runs the hooks after a call.
func (a *acting) after(turn turnstate.Turn, call v1alpha1.ToolCall) invocation.After {
	return a.loop.Steps.After(turn, a.config, call, a.step.Plan(call.ID).Arguments)
}

// carryOut calls the function, for at most the timeout of the call. A function that does not return is abandoned: like
// a killed container, it cannot affect the call any more.
func (l *Loop) carryOut(ctx context.Context, j Job) (tool.Outcome, *result.Files) {
	_, timeout := jobspec.Timeouts(j.Call, &j.Tool.Spec)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type end struct {
		outcome tool.Outcome
		files   *result.Files
	}
	ended := make(chan end, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- end{outcome: jobstatus.LocalPanicked(j.Call, p)}
			}
		}()
		report, known := l.Jobs(ctx, j)
		if !known {
			ended <- end{outcome: jobstatus.LocalMissing(j.Tool.Name)}
			return
		}
		ended <- end{jobstatus.LocalEnded(j.Call, report, timeout), report.Files}
	}()
	over := make(chan struct{})
	deadline := l.Clock.Now().Add(timeout)
	go func() {
		if l.Clock.Reach(ctx, deadline) {
			close(over)
		}
	}()
	select {
	case e := <-ended:
		return e.outcome, e.files
	case <-over:
		return jobstatus.LocalEnded(
			j.Call,
			result.Report{Outcome: result.TimedOut, Exit: result.ExitTimeout, Started: true},
			timeout,
		), nil
	case <-ctx.Done():
		// The step is closed, or the process ends: no receiver is left.
		return tool.CallAbandoned(), nil
	}
}
