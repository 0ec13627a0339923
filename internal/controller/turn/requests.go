package turn

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Secrets reads Secrets live; the cache has none. It reads them only at the time of a request, and only those that its
// Tool or Model names. The permission is in a separate role, config/rbac/secrets_role.yaml, which the manager has only
// in namespaces where it is bound.
func Secrets(live client.Reader) credential.Reader {
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
		return secret, err
	}
}

// ConfigMaps reads ConfigMaps past the cache.
func ConfigMaps(live client.Reader) trust.ConfigMapReader {
	return func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
		found := &corev1.ConfigMap{}
		err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, found)
		return found, err
	}
}

// requestKey names the attempt of a call that its request is sent for.
func (a *actScope) requestKey(call v1alpha1.ToolCall) executor.Key {
	return callKey(a.turn.UID, a.plan().Step, call)
}

// callKey names the newest attempt of a call, and the request of it: a call has a further one when its tool has asked.
func callKey(turn types.UID, step int32, call v1alpha1.ToolCall) executor.Key {
	return executor.Key{Turn: turn, Step: step, Call: call.ID, Attempt: call.Attempt, Round: tool.InputRound(call)}
}

// requested reports whether a request of the step was sent, according to this process and the status.
func (a *actScope) requested() bool {
	return len(a.step.requests) > 0 || act.Requested(a.calls())
}

// ask records what the tool of a call has asked by the end of its Job, and lets the call wait for it. A process that
// finds the Job again asks the same, and the journal has it once.
func (r *Reconciler) ask(ctx context.Context, a *actScope, index int, asks tool.Input) (flow, error) {
	end, err := r.Steps.Ask(ctx, a.turnState(), a.calls()[index], a.step.line, asks)
	switch {
	case err != nil:
		return stop, err
	case end.Closed != nil:
		a.step.closed = end.Closed
		return again, nil
	case end.Asked.Ordinal != 0:
		turnstate.Ask(a.step.known, a.calls(), index, end.Asked)
	default:
		r.conclude(a, index, end.Outcome)
	}
	return proceed, nil
}

// startRequest begins the attempt of one call. Its intent is in the status.
func (r *Reconciler) startRequest(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	if err := r.planned(ctx, a.scope); err != nil {
		return err
	}
	key := a.requestKey(call)
	a.step.requests[key] = invocation.NewAttempt(a.step.line)
	act.Start(&a.turn.Status.ToolCalls[index])
	// Nothing has run under the key, so that there is no result yet.
	_, _ = r.Activities.Ensure(key, a.key(), r.needToRequest(a), r.request(a, call, a.step.requests[key]))
	return nil
}

// request runs a call with the current state.
func (r *Reconciler) request(
	a *actScope, call v1alpha1.ToolCall, run *invocation.Attempt,
) executor.Func {
	turn, config, arguments := a.turnState(), a.config, a.step.known.Plan(call.ID).Arguments
	after := r.Steps.After(turn, config, call, arguments)
	return func(ctx context.Context) (any, error) {
		planned, err := step.Planned(ctx, config, call)
		if err != nil {
			return nil, err
		}
		return r.Steps.CarryOut(ctx, turn, invocation.Call{
			Call: call, Arguments: arguments, Definition: planned, Network: config.Effective.Network,
			HideSecrets: config.Tools.PermitSecrets(), InitialFiles: step.InitialFiles(config),
			KeepsOutput: r.Steps.KeepsOutputs(config), Attempt: run, After: after,
		})
	}
}

// observeRequest observes the end of one call that this process carries out itself: a request of an HTTP tool, or a
// built-in tool. Calls of an earlier process have ended with it, and its conclusions are lost: the call is started
// again, and its claim in the journal decides whether it may run, or how it has ended.
func (r *Reconciler) observeRequest(ctx context.Context, a *actScope, index int) (flow, error) {
	shown := &a.turn.Status.ToolCalls[index]
	key := a.requestKey(*shown)
	run := a.step.requests[key]
	if run == nil {
		act.RestartRequest(shown)
		return proceed, nil
	}
	shown.State, shown.Reason = v1alpha1.ToolCallStateRunning, ""
	if err := r.planned(ctx, a.scope); err != nil {
		return stop, err
	}
	value, done, err := r.do(a.scope, a.step, key, r.needToRequest(a), r.request(a, *shown, run))
	if err != nil && a.holdForSecret(index, err, r.Clock()) {
		return proceed, nil
	}
	if err != nil || !done {
		return proceed, err
	}
	end, ok := value.(invocation.End)
	if !ok {
		return stop, fmt.Errorf("unexpected result of the request of call %s: %T", shown.ID, value)
	}
	if end.Closed != nil {
		a.step.closed = end.Closed
		return again, nil
	}
	if end.Asked.Ordinal != 0 {
		delete(a.step.requests, key)
		turnstate.Ask(a.step.known, a.calls(), index, end.Asked)
		return proceed, nil
	}
	if end.Defect != nil {
		ctrl.LoggerFrom(ctx).Error(end.Defect, "Failed to run a built-in tool", "call", shown.ID, "tool", shown.Name)
	}
	if end.Kept.Ordinal != 0 {
		a.step.known.Row(shown.ID).RecordedOutcome = end.Kept
		if a.step.held.dropped {
			a.step.held.release() // The journal accepts outcomes again.
		}
	}
	r.conclude(a, index, end.Outcome)
	return proceed, nil
}
