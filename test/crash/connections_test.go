package crash_test

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// connecting are calls that ask for something before they continue. Questions and connections are the same to the
// manager: an entry for what is asked, one for each answer, and a claim for each request. An answer is for the digest
// that the Turn shows, and a disturbed leader may show it late.
var connecting = []scenario{
	{
		name:       "a Pure request that needs a connection",
		simulation: builder.Script("{{tool:look}}", builder.Calls("look")),
		tools:      given(builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj()),
		needs:      untilConnected,
		drive:      connect(v1alpha1.InputActionAccept),
	},
	{
		name:       "an AtMostOnce request that needs a connection, beside an AtMostOnce Job",
		simulation: builder.Script("{{tool:buy}}, {{tool:pay}}", builder.Calls("buy", "pay")),
		tools: given(
			builder.HTTPTool("buy", v1alpha1.SideEffectAtMostOnce, "").Obj(),
			builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
		),
		needs: untilConnected,
		drive: connect(v1alpha1.InputActionAccept),
	},
	{
		name:       "an AtMostOnce request that needs a connection, which is declined",
		simulation: builder.Script("{{tool:buy}}", builder.Calls("buy")),
		tools:      given(builder.HTTPTool("buy", v1alpha1.SideEffectAtMostOnce, "").Obj()),
		needs:      untilConnected,
		drive:      connect(v1alpha1.InputActionDecline),
	},
	{
		name:       "an AtMostOnce request that needs a connection, with two answers at once",
		simulation: builder.Script("{{tool:buy}}", builder.Calls("buy")),
		tools:      given(builder.HTTPTool("buy", v1alpha1.SideEffectAtMostOnce, "").Obj()),
		needs:      untilConnected,
		drive:      connect(v1alpha1.InputActionAccept, v1alpha1.InputActionAccept),
	},
	{
		name:       "a Pure Job that needs a connection",
		simulation: builder.Script("{{tool:work}}", builder.Calls("work")),
		tools:      given(reporting(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())),
		exit:       exitUntilConnected,
		drive:      connect(v1alpha1.InputActionAccept),
	},
	{
		name:       "an AtMostOnce Job that needs a connection, beside another one",
		simulation: builder.Script("{{tool:rent}}, {{tool:pay}}", builder.Calls("rent", "pay")),
		tools: given(
			reporting(builder.JobTool("rent", v1alpha1.SideEffectAtMostOnce).Obj()),
			builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
		),
		exit:  exitUntilConnected,
		drive: connect(v1alpha1.InputActionAccept),
	},
	{
		name:       "an AtMostOnce Job that needs a connection, which is declined",
		simulation: builder.Script("{{tool:rent}}", builder.Calls("rent")),
		tools:      given(reporting(builder.JobTool("rent", v1alpha1.SideEffectAtMostOnce).Obj())),
		exit:       exitUntilConnected,
		drive:      connect(v1alpha1.InputActionDecline),
	},
}

// shopExit is the exit code by which a Job reports that it needs a connection to shop.
const shopExit = 75

// reporting makes a Job tool report by its exit code that it needs a connection.
func reporting(tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Connections = []v1alpha1.JobConnection{{ExitCode: shopExit, Provider: "shop"}}
	return tool
}

// exitUntilConnected is the exit code of a Job that needs a connection until the user has set it up.
func exitUntilConnected(r *run, call capstantest.Call) int {
	if call.Tool == "pay" || r.connected.Load() {
		return 0
	}
	return shopExit
}

// untilConnected needs a connection until the user has set it up.
func untilConnected(r *run) string {
	if r.connected.Load() {
		return ""
	}
	return "shop"
}

// asking waits until a call of the first Turn asks for something. It returns nil if the call, or the Turn, has ended
// instead: its outcome may be unknown.
func (r *run) asking(ctx context.Context, id string) (*v1alpha1.ToolCall, error) {
	var call *v1alpha1.ToolCall
	err := r.await(ctx, func() error {
		turn := r.seen.turn(r.namespace, "demo-1")
		call = nil
		for _, c := range turn.Status.ToolCalls {
			if c.ID == id && act.AwaitsInput(c) {
				call = &c
			}
			if c.ID == id && c.State.Settled() {
				return nil
			}
		}
		if ended(turn) {
			call = nil
			return nil
		}
		if call == nil {
			return fmt.Errorf("call %s asks for nothing: %s", id, callsOf(turn))
		}
		return nil
	})
	return call, err
}

// connect answers the first call, once it needs a connection, with all actions at once. A call that has ended needs
// none: its outcome may be unknown.
func connect(actions ...v1alpha1.InputAction) func(ctx context.Context, r *run) error {
	return func(ctx context.Context, r *run) error {
		call, err := r.asking(ctx, "1-0")
		if err != nil || call == nil {
			return err
		}
		r.connected.Store(actions[0] == v1alpha1.InputActionAccept)
		for i, action := range actions {
			result := r.toolResult(fmt.Sprintf("connection-%d", i), "1-0", "")
			result.Spec.TurnRef.UID = r.seen.turn(r.namespace, "demo-1").UID
			result.Spec.Result, result.Spec.SubmittedBy, result.Spec.CallDigest = nil, "ann", call.CallDigest
			result.Spec.Input = &v1alpha1.InputAnswer{ID: "shop", Action: action}
			if err := r.user.Create(ctx, result); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	}
}
