package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Rules: HOOK-11, HOOK-21.
func TestHooksAfterACallChangeItsOutcome(t *testing.T) {
	text := func(s string) *string { return &s }
	well := tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: text("rain"),
	}
	of := func(result string) tool.Outcome { o := well; o.Result = &result; return o }
	badly := tool.Failed(v1alpha1.ToolCallReasonExitCode, "it broke")
	unknown := tool.Unknown(v1alpha1.ToolCallReasonTimeout, "it was interrupted")
	for name, test := range map[string]struct {
		outcome tool.Outcome
		hook    string
		onError hook.OnError
		// state, text and original are what the model reads, and what is recorded of what it does not.
		state          v1alpha1.ToolCallState
		text, original string
		// data is a part of the payload; empty if the hook does not run.
		data string
	}{
		"allow": {
			well, `{}`, "", v1alpha1.ToolCallStateSucceeded, "rain", "",
			`{"arguments":{"where":"here"},"error":null,"result":"rain","success":true,"tool_call_id":"1-0","tool_name":"look"}`,
		},
		"block is ignored": {
			well, `{"decision":"block","reason":"no"}`, "", v1alpha1.ToolCallStateSucceeded, "rain", "", `"rain"`,
		},
		"a text as the result": {
			well, `{"decision":"mutate","patch":{"result":"sun"}}`, "", v1alpha1.ToolCallStateSucceeded, "sun", "rain", `"rain"`,
		},
		"an object as the result": {
			of(`{"sky":"rain"}`), `{"decision":"mutate","patch":{"result":{"sky":"sun"}}}`, "",
			v1alpha1.ToolCallStateSucceeded, `{"sky":"sun"}`, `{"sky":"rain"}`, `"result":{"sky":"rain"}`,
		},
		"null as the result": {
			well, `{"decision":"mutate","patch":{"result":null}}`, "", v1alpha1.ToolCallStateSucceeded, "", "rain", `"rain"`,
		},
		"a number stays a text": {
			of("7"), `{"decision":"mutate","patch":{"result":8}}`, "", v1alpha1.ToolCallStateSucceeded, "8", "7",
			`"result":"7"`,
		},
		"context of a text": {
			well, `{"decision":"mutate","patch":{"additional_context":"near"}}`, "", v1alpha1.ToolCallStateSucceeded,
			`{"hook_context":"near","value":"rain"}`, "rain", `"rain"`,
		},
		"an error": {
			well, `{"decision":"mutate","patch":{"error":"wrong"}}`, "", v1alpha1.ToolCallStateFailed, "wrong", "rain", `"rain"`,
		},
		"a hook that fails": {well, `{"decision":"?"}`, "", v1alpha1.ToolCallStateSucceeded, "rain", "", `"rain"`},
		"a guard that fails": {
			well, `{"decision":"?"}`, hook.OnErrorBlock, v1alpha1.ToolCallStateFailed, "hook session:h: ", "rain", `"rain"`,
		},
		"another error": {
			badly, `{"decision":"mutate","patch":{"error":"try again"}}`, "", v1alpha1.ToolCallStateFailed, "try again",
			"it broke", `"error":"it broke","result":null,"success":false`,
		},
		"context of an error": {
			badly, `{"decision":"mutate","patch":{"additional_context":"near"}}`, "", v1alpha1.ToolCallStateFailed,
			"it broke\n{\"hook_context\":\"near\"}", "it broke", `"it broke"`,
		},
		"an unknown outcome stays one": {
			unknown, `{"decision":"mutate","patch":{"error":"fine"}}`, "", v1alpha1.ToolCallStateUnknown,
			unknown.Error + "\nfine", unknown.Error, `"success":false`,
		},
		"a call that was not executed": {
			tool.NotExecuted(v1alpha1.ToolCallReasonTurnEnded, "the turn ended first"),
			`{"decision":"mutate","patch":{"error":"fine"}}`, "", v1alpha1.ToolCallStateNotExecuted, "", "", "",
		},
		"an attempt that is repeated": {
			tool.Interrupted(v1alpha1.ToolCall{SideEffect: v1alpha1.SideEffectPure}, v1alpha1.ToolCallReasonTimeout, "a drain"),
			`{"decision":"mutate","patch":{"error":"fine"}}`, "", v1alpha1.ToolCallStateFailed, "", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d := b.deciding()
			s := spec(hook.PostToolUse, test.hook)
			s.OnError = test.onError
			c := withHooks(with(), s)
			call := v1alpha1.ToolCall{ID: "1-0", Name: "look", SideEffect: v1alpha1.SideEffectPure, Attempt: 1}
			got, err := b.After(newTurn("one"), c, call, `{"where":"here"}`)(t.Context(), test.outcome)
			if err != nil {
				t.Fatal(err)
			}
			read := got.Error
			if got.Result != nil {
				read = *got.Result
			}
			ran := len(d.ran) == 1
			if got.State != test.state || ran != (test.data != "") || !strings.HasPrefix(read, test.text) ||
				got.Original != test.original || ran && !strings.Contains(d.ran[0], test.data) {
				t.Errorf("the model reads %s %q, the journal has %q; ran %q", got.State, read, got.Original, d.ran)
			}
		})
	}
}

func TestHooksAfterACallThatAreStoppedLeaveNoOutcome(t *testing.T) {
	b := newBench(t)
	b.deciding()
	c := withHooks(with(), spec(hook.PostToolUse, `{}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result := "rain"
	call := v1alpha1.ToolCall{ID: "1-0", Name: "look", Attempt: 1}
	_, err := b.After(newTurn("one"), c, call, "")(ctx, tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Result: &result,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if b.After(newTurn("one"), withHooks(with(), spec(hook.PreToolUse, `{}`)), call, "") != nil {
		t.Error("hooks of another event run after the call")
	}
}

func TestAResultIsNotDecodedForTheHooksAfterACall(t *testing.T) {
	for name, c := range map[string]struct {
		text      string
		composite bool
	}{
		"many arrays": {"[" + strings.Repeat("[],", 20_000) + "[]]", true},
		"deep arrays": {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), true},
		"indented":    {"\n\t {\"a\": 1}\n", true},
		"cut":         {"[" + strings.Repeat("[],", 20_000), false},
		"two values":  {"{} {}", false},
		"nothing":     {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Result: &c.text}
			var got hook.Returned
			if allocations := testing.AllocsPerRun(1, func() { got = returned(outcome) }); allocations > 100 {
				t.Errorf("%v allocations", allocations)
			}
			if composite := string(got.Result) == c.text; composite != c.composite {
				t.Errorf("hooks see it as it is: %t, want %t", composite, c.composite)
			}
		})
	}
}
