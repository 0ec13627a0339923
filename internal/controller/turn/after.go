package turn

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// afterKey is the key of the hooks after a call.
func (a *actScope) afterKey(call v1alpha1.ToolCall) executor.Key {
	return executor.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID + "/after", Attempt: call.Attempt}
}

// hookedOutcome is an outcome as the hooks after the call have left it. Its memory counts until a pass takes it.
type hookedOutcome tool.Outcome

// Bytes implements executor.Sized.
func (o hookedOutcome) Bytes() int64 { return act.TextBytes(tool.Outcome(o)) }

// concludeObserved treats the end of an attempt that ran as a Job, or as a sub-agent, as conclude does, once the hooks
// after the call have run (HOOK-21) and a long output is kept (TOOL-19). Until then the call is not settled: an end of
// the Turn treats it as one whose outcome is unknown.
func (r *Reconciler) concludeObserved(ctx context.Context, a *actScope, index int, outcome tool.Outcome) error {
	call := a.calls()[index]
	keeps := outcome.Output != nil && r.Steps.KeepsOutputs(a.config)
	if !keeps && len(hook.Of(a.config.Hooks, hook.PostToolUse)) == 0 && !r.Activities.Known(a.afterKey(call)) {
		outcome.Output = nil
		r.conclude(a, index, outcome)
		return nil
	}
	if err := r.planned(ctx, a.scope); err != nil {
		return err
	}
	after := r.Steps.After(a.turnState(), a.config, call, a.step.known.Plan(call.ID).Arguments)
	value, done, err := r.do(a.scope, a.step, a.afterKey(call), a.need(), func(ctx context.Context) (any, error) {
		looked, err := outcome, error(nil)
		if after != nil {
			looked, err = after(ctx, outcome)
		}
		looked.Output = nil // It was kept, or is not of use.
		return hookedOutcome(looked), err
	})
	if err != nil || !done {
		shown := &a.turn.Status.ToolCalls[index]
		shown.State, shown.Reason = v1alpha1.ToolCallStateRunning, ""
		return err
	}
	looked, ok := value.(hookedOutcome)
	if !ok {
		return fmt.Errorf("unexpected result of the hooks after call %s: %T", call.ID, value)
	}
	r.conclude(a, index, tool.Outcome(looked))
	return nil
}
