package crash_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// guarded are conversations at which hooks look (HOOK-17, HOOK-20). Their tools return their arguments.
var guarded = []scenario{
	{
		name:       "hooks rewrite the message and the arguments of a call, and block another call",
		simulation: paying("{{input}} | {{tool:pay}} | {{tool:refund}}", "pay", "refund"),
		tools: given(
			builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
			builder.JobTool("refund", v1alpha1.SideEffectAtMostOnce).Obj(),
		),
		session: func(s *v1alpha1.SessionSpec) {
			s.Hooks = []v1alpha1.Hook{
				{
					Name: "message", Event: v1alpha1.HookEventUserPromptSubmit,
					CEL: &v1alpha1.CELHook{
						Expression: `{"decision": "mutate", "patch": {"message": data.message + ", checked"}}`,
					},
				},
				{
					Name: "arguments", Event: v1alpha1.HookEventPreToolUse, Matcher: &v1alpha1.HookMatcher{ToolName: "pay"},
					CEL: &v1alpha1.CELHook{Expression: `{"decision": "mutate", "patch": {"arguments": {"euros": 4}}}`},
				},
				{
					Name: "refunds", Event: v1alpha1.HookEventPreToolUse, Matcher: &v1alpha1.HookMatcher{ToolName: "refund"},
					CEL: &v1alpha1.CELHook{Expression: `"not here"`},
				},
			}
		},
		tool: argumentsOf,
	},
	{
		name:       "a hook blocks the message",
		simulation: paying("never", "pay"),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		session: func(s *v1alpha1.SessionSpec) {
			s.Hooks = []v1alpha1.Hook{{
				Name: "message", Event: v1alpha1.HookEventUserPromptSubmit,
				CEL: &v1alpha1.CELHook{Expression: `{"decision": "block", "user_message": "Not here."}`},
			}}
		},
		tool: argumentsOf,
	},
	{
		name:       "hooks that come to something else each time",
		simulation: paying("{{input}} | {{tool:pay}}", "pay"),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		session: func(s *v1alpha1.SessionSpec) {
			s.Hooks = []v1alpha1.Hook{
				{
					Name: "message", Event: v1alpha1.HookEventUserPromptSubmit, Bash: &v1alpha1.BashHook{
						Command: `echo '{"decision": "mutate", "patch": {"message": "'$RANDOM-$RANDOM'"}}'`,
					},
				},
				{
					Name: "arguments", Event: v1alpha1.HookEventPreToolUse, Bash: &v1alpha1.BashHook{
						Command: `echo '{"decision": "mutate", "patch": {"arguments": {"euros": "'$RANDOM-$RANDOM'"}}}'`,
					},
				},
			}
		},
		tool:   argumentsOf,
		drive:  holdToTheRecord,
		varies: true,
	},
}

// paying is a script of a model that calls tools with arguments.
func paying(text string, names ...string) v1alpha1.Simulation {
	script := builder.Script(text, builder.Calls(names...))
	arguments := `{"euros": 40}`
	for i := range script.ToolCalls.Sequence[0].Calls {
		script.ToolCalls.Sequence[0].Calls[i].RawArguments = &arguments
	}
	return script
}

// argumentsOf is a tool that returns its arguments.
func argumentsOf(_ *run, call capstantest.Call) string { return call.Arguments }

// holdToTheRecord checks, when the Turn has ended, that what the journal had first of its message and of its call is
// what the model read and what ran.
func holdToTheRecord(ctx context.Context, r *run) error {
	return r.await(ctx, func() error {
		if err := hasEnded(r); err != nil {
			return err
		}
		turn := r.seen.turn(r.namespace, "demo-1")
		if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded {
			return nil
		}
		message, arguments := r.recorded(turn)
		if message == "" || arguments == "" {
			return errors.New("the journal has no outcome of the hooks")
		}
		said, paid, _ := strings.Cut(turn.Status.Output, " | ")
		if said != message {
			return hopeless{fmt.Errorf("the journal has message %q, and the model read %q", message, said)}
		}
		// Otherwise the call has failed because of a fault.
		ran := strings.Contains(callsOf(turn), string(v1alpha1.ToolCallStateSucceeded))
		if ran && paid != arguments {
			return hopeless{fmt.Errorf("the journal has arguments %s, and the tool had %s", arguments, paid)}
		}
		return nil
	})
}

// recorded is what the journal had first of the message of a Turn, and of the arguments of its call.
func (r *run) recorded(turn *v1alpha1.Turn) (message, arguments string) {
	for _, at := range r.seen.snapshot(r.namespace).entries {
		s := at.object.Spec
		if s.Turn == nil || s.Turn.UID != turn.UID {
			continue
		}
		if s.Prompt != nil && s.Prompt.Text != nil && message == "" {
			message = *s.Prompt.Text
		}
		for _, call := range s.Calls {
			if s.Final && call.ID == "1-0" {
				arguments = call.Arguments
			}
		}
	}
	return message, arguments
}
