package turn

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/activity"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Secrets reads Secrets past the cache, which has none: only at the moment of a request, and only those that its Tool
// or its Model names. The right to do so is in a role of its own, config/rbac/secrets_role.yaml, that the manager has
// only where somebody gives it.
func Secrets(live client.Reader) host.SecretReader {
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
		return secret, err
	}
}

// requestKey names the attempt of a call that its request is sent for.
func (a *actScope) requestKey(call v1alpha1.ToolCall) activity.Key {
	return activity.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID, Attempt: call.Attempt}
}

// requested reports whether a request of the step has been sent, as far as this process and the status know.
func (a *actScope) requested() bool {
	for _, call := range a.calls() {
		if call.Executor == v1alpha1.ExecutorHTTP && !tool.Unapproved(call) && (call.State != v1alpha1.CallPending || call.Attempt > 1) {
			return true
		}
	}
	return len(a.step.requests) > 0
}

// startRequest begins the attempt of one call. Its intent is in the status.
func (r *Reconciler) startRequest(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	if at := call.NotBefore; at != nil && r.Clock().Before(at.Time) {
		a.deadline(at.Time)
		return nil
	}
	planned, err := r.planned(ctx, a.scope)
	if err != nil {
		return err
	}
	key := a.requestKey(call)
	a.step.requests[key] = host.NewCallRun(a.step.line)
	shown := &a.turn.Status.ToolCalls[index]
	shown.State, shown.Reason, shown.NotBefore = v1alpha1.CallRunning, "", nil
	// Nothing has run under the key, so that there is nothing to take yet.
	_, _ = r.Activities.Ensure(key, a.key(), a.need(), r.request(a, call, planned[call.ID], a.step.requests[key]))
	return nil
}

// request carries out a call, with what is known now.
func (r *Reconciler) request(a *actScope, call v1alpha1.ToolCall, planned v1alpha1.PlannedCall, run *host.CallRun) activity.Func {
	turn := a.hostTurn()
	c := host.HTTPCall{
		Call: call, Arguments: planned.Arguments, Tool: a.toolSpec(call).DeepCopy(), Network: a.config.Effective.Network, Run: run,
	}
	return func(ctx context.Context) (any, error) { return r.Host.HTTP(ctx, turn, c) }
}

// observeRequest takes the end of one call of an HTTP tool. What another process has begun has ended with it, and so
// has what it concluded: the call waits to be started again, and its claim in the journal says whether it may be, and
// how it has ended.
func (r *Reconciler) observeRequest(ctx context.Context, a *actScope, index int) (flow, error) {
	shown := &a.turn.Status.ToolCalls[index]
	key := a.requestKey(*shown)
	run := a.step.requests[key]
	if run == nil {
		if shown.State == v1alpha1.CallRunning || shown.State.Settled() {
			shown.State, shown.Reason, shown.Preview = v1alpha1.CallPending, "", ""
		}
		return proceed, nil
	}
	shown.State, shown.Reason = v1alpha1.CallRunning, ""
	planned, err := r.planned(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	value, done, err := r.do(a.scope, a.step, key, a.need(), r.request(a, *shown, planned[shown.ID], run))
	if err != nil || !done {
		return proceed, err
	}
	end, ok := value.(host.CallEnd)
	if !ok {
		return stop, fmt.Errorf("the request of call %s ended with a %T", shown.ID, value)
	}
	if end.Closed != nil {
		a.step.closed = end.Closed
		return again, nil
	}
	if end.Outcome.Retryable && !tool.AtMostOnce(*shown) && shown.Attempt < tool.MaxAttempts {
		a.planRetry(index, end.Outcome, r.Clock())
		return proceed, nil
	}
	if end.Kept.Ordinal != 0 {
		a.step.kept[shown.ID] = end.Kept
	}
	a.settle(index, end.Outcome)
	return proceed, nil
}

// forgetRequests drops what was concluded of calls that may start only once and whose outcome is not in the log, so
// that the log is asked again.
func (m *stepMemory) forgetRequests(calls []v1alpha1.ToolCall) {
	for _, call := range calls {
		if _, kept := m.kept[call.ID]; call.Executor == v1alpha1.ExecutorHTTP && tool.AtMostOnce(call) && !kept {
			delete(m.outcomes, call.ID)
		}
	}
}
