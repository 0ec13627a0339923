package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// decider is an executor whose outcome is the expression of the hook.
type decider struct {
	ran []string
}

func (d *decider) Run(_ context.Context, c hook.Call) hook.Outcome {
	d.ran = append(d.ran, c.Key+" "+string(c.Payload))
	return hook.ParseJSON([]byte(c.Spec.CEL.Expression))
}

func withHooks(c turnstate.Config, specs ...hook.Spec) turnstate.Config {
	c.Hooks = hook.Finalize([]hook.Contribution{{Namespace: "session", Hooks: specs}})
	return c
}

func spec(event hook.Event, outcome string) hook.Spec {
	return hook.Spec{Name: "h", Event: event, CEL: &hook.CEL{Expression: outcome}}
}

func (b *bench) deciding() *decider {
	d := &decider{}
	b.Hooks.CEL = d
	b.Hooked = func(context.Context, turnstate.Turn) (bool, error) { return true, nil }
	return d
}

func (b *bench) ordinals() int64 {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return view.Head
}

const rewritePrompt = `{"decision":"mutate","patch":{"message":"Tell me a joke."}}`

// Rules: HOOK-19.
func TestARewrittenMessageStandsInForTheUsers(t *testing.T) {
	b := newBench(t)
	d := b.deciding()
	c := withHooks(with(), spec(hook.UserPromptSubmit, rewritePrompt))
	turn := newTurn("one")
	_, closed := b.reason(turn, c)
	if got := b.asked[0].Messages[0].PlainText(); got != "Tell me a joke." {
		t.Errorf("the model was sent %q", got)
	}
	if got := b.transcript()[0].PlainText(); got != "Tell me a joke." {
		t.Errorf("later prompts have %q", got)
	}
	var data event.InputMessage
	if err := json.Unmarshal(closed.Events[0].Data.Raw, &data); err != nil || data.Original == nil ||
		data.Original.PlainText() != "How are you?" {
		t.Errorf("the event is %s, %v", closed.Events[0].Data.Raw, err)
	}
	if closed.Digest != turn.Digest() || b.ordinals() != 2 || len(d.ran) != 1 ||
		!strings.HasPrefix(d.ran[0], "turn-uid/1/user_prompt_submit//session:h ") {
		t.Errorf("digest %s, %d entries, runs %q", closed.Digest, b.ordinals(), d.ran)
	}
}

// Rules: HOOK-18.
func TestTheOutcomeOfAMessagesHooksIsComputedOnce(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	b.deciding()
	b.fails("connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	b.answer = func(model.Request) (*model.Response, error) {
		cancel()
		return nil, context.Canceled
	}
	c := withHooks(with(), spec(hook.UserPromptSubmit, rewritePrompt))
	if _, err := b.ReasonInPlace(ctx, newTurn("one"), c, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("the process ends with %v", err)
	}
	next := onStore(t, store)
	d := next.deciding()
	next.reason(newTurn("one"), withHooks(with(), spec(hook.UserPromptSubmit, `{"decision":"block"}`)))
	if len(d.ran) != 0 || next.asked[0].Messages[0].PlainText() != "Tell me a joke." {
		t.Errorf("another process runs %q and sends %+v", d.ran, next.asked[0].Messages)
	}
}

// Rules: HOOK-18, VEC-14.
func TestHooksAtAMessageRunBeforeTheFirstModelCallAlone(t *testing.T) {
	for _, iteration := range []int32{0, 1} {
		t.Run(fmt.Sprintf("from iteration %d", iteration), func(t *testing.T) {
			b := newBench(t)
			d := b.deciding()
			c := withHooks(with(jobTool("work")), spec(hook.UserPromptSubmit, rewritePrompt))
			b.responds("", calls(1, "work")...)
			turn := newTurn("one")
			turn.Progress.Iteration = iteration
			turn, closed := b.reason(turn, c)
			if len(d.ran) != 1 {
				t.Fatalf("before the first model call, the hooks have run %q", d.ran)
			}
			text := "42"
			acted, err := b.Act(t.Context(), turn, facts{
				Outcomes: map[string]tool.Outcome{"1-0": {State: v1alpha1.ToolCallStateSucceeded, Result: &text}},
				Planned:  planned(closed),
			}.step())
			if err != nil {
				t.Fatal(err)
			}
			b.responds("Done.")
			if turn, _ = b.reason(after(turn, acted), c); turn.Progress.Iteration != 2 {
				t.Errorf("the iteration is %d", turn.Progress.Iteration)
			}
			if len(d.ran) != 1 || len(b.asked) != 2 {
				t.Fatalf("%d model calls, and the hooks have run %q", len(b.asked), d.ran)
			}
			if got := b.asked[1].Messages[0].PlainText(); got != "Tell me a joke." {
				t.Errorf("the second model call has %q", got)
			}
		})
	}
}

// Rules: BLK-05, HOOK-18, LIFE-09.
func TestABlockedMessageEndsTheTurnAndIsInNoPrompt(t *testing.T) {
	b := newBench(t)
	b.deciding()
	c := withHooks(with(), spec(hook.UserPromptSubmit, `{"decision":"block","reason":"r","user_message":"Not here."}`))
	turn, closed := b.reason(newTurn("one"), c)
	failed := turn.Progress
	if len(b.asked) != 0 || failed.Phase != v1alpha1.TurnPhaseFailed || failed.Error == nil ||
		failed.Error.Code != v1alpha1.ErrorCodeBlockedByUserPromptHook || failed.Error.Message != "Not here." ||
		failed.Error.Fields["hook"] != "session:h" {
		t.Errorf("%d model calls, the Turn is %+v, %+v", len(b.asked), failed, failed.Error)
	}
	b.expectTypes(closed.Events, openingTypes, "output.message.completed", failedTypes)
	for _, m := range b.transcript() {
		if strings.Contains(m.PlainText(), "How are you?") {
			t.Errorf("a later prompt has %q", m.PlainText())
		}
	}
}

func TestAMessageDoesNotGetPastItsHooksByACancellation(t *testing.T) {
	for name, test := range map[string]struct {
		hooked bool
		before func(*bench, turnstate.Turn)
		want   string
	}{
		"its hooks have not run": {
			true, func(*bench, turnstate.Turn) {}, "[This message was blocked before it was processed.]",
		},
		"it has no hooks": {false, func(*bench, turnstate.Turn) {}, "How are you?"},
		"its hooks have run": {true, func(b *bench, turn turnstate.Turn) {
			ctx, cancel := context.WithCancel(t.Context())
			b.answer = func(model.Request) (*model.Response, error) {
				cancel()
				return nil, context.Canceled
			}
			_, err := b.ReasonInPlace(ctx, turn, withHooks(with(), spec(hook.UserPromptSubmit, rewritePrompt)), nil)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted: %v", err)
			}
		}, "Tell me a joke."},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.deciding()
			b.Hooked = func(context.Context, turnstate.Turn) (bool, error) { return test.hooked, nil }
			test.before(b, newTurn("one"))
			if _, err := b.Cancel(t.Context(), newTurn("one"), nil); err != nil {
				t.Fatal(err)
			}
			if got := b.transcript()[0].PlainText(); got != test.want {
				t.Errorf("later prompts have %q, want %q", got, test.want)
			}
		})
	}
}

func patchArguments(arguments string) string {
	return fmt.Sprintf(`{"decision":"mutate","patch":{"arguments":%s}}`, arguments)
}

func TestRewrittenArgumentsRunAndTheModelSeesItsOwn(t *testing.T) {
	b := newBench(t)
	b.deciding()
	b.responds("", model.ToolCall{Name: "write", Arguments: `{"path":"/etc/x","n":1}`})
	pay := jobTool("write")
	pay.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	c := withHooks(with(pay), spec(hook.PreToolUse, patchArguments(`{"path":"/tmp/x"}`)))
	turn, closed := b.reason(newTurn("one"), c)
	const effective = `{"n":1,"path":"/tmp/x"}`
	call := turn.Progress.ToolCalls[0]
	if planned(closed)[0].Arguments != effective || call.Fingerprint != tool.Fingerprint("write", effective) ||
		call.Arguments != effective || call.State != v1alpha1.ToolCallStateWaiting ||
		call.CallDigest != tool.CallDigest("turn-uid", 2, callWithout(call), effective) {
		t.Errorf("planned %+v, shown %+v", planned(closed)[0], call)
	}
	messages := b.transcript()
	shown := messages[len(messages)-1].ToolCalls
	if len(shown) != 1 || shown[0].Arguments != `{"path":"/etc/x","n":1}` {
		t.Errorf("the model sees %+v", shown)
	}
	if run := planned(closed)[0].Hooks; len(run) != 1 || run[0].Hook != "session:h" || run[0].Decision != "mutate" {
		t.Errorf("the journal has %+v", run)
	}
}

// callWithout is a call as its digest was computed.
func callWithout(call v1alpha1.ToolCall) v1alpha1.ToolCall {
	call.CallDigest, call.Arguments = "", ""
	return call
}

func TestRewrittenArgumentsAreChecked(t *testing.T) {
	b := newBench(t)
	b.deciding()
	b.responds("", model.ToolCall{Name: "write", Arguments: `{"n":1}`})
	write := jobTool("write")
	write.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
	c := withHooks(with(write), spec(hook.PreToolUse, patchArguments(`{"n":"x"}`)))
	turn, _ := b.reason(newTurn("one"), c)
	if call := turn.Progress.ToolCalls[0]; call.State != v1alpha1.ToolCallStateNotExecuted ||
		call.Reason != v1alpha1.ToolCallReasonInvalidArguments {
		t.Errorf("the call is %+v", call)
	}
}

func TestABlockedCallDoesNotRunAndTheModelReadsTheReason(t *testing.T) {
	b := newBench(t)
	d := b.deciding()
	b.responds("", append(calls(2, "write"), calls(1, "ask")...)...)
	guard := spec(hook.PreToolUse, `{"decision":"block","reason":"not today"}`)
	c := withHooks(with(jobTool("write"), clientTool("ask")), guard)
	turn, closed := b.reason(newTurn("one"), c)
	for _, call := range turn.Progress.ToolCalls[:2] {
		if call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != v1alpha1.ToolCallReasonBlockedByHook {
			t.Errorf("the call is %+v", call)
		}
	}
	if len(d.ran) != 2 || turn.Progress.ToolCalls[2].State != v1alpha1.ToolCallStateWaiting {
		t.Errorf("%d hooks ran; the client's call is %+v", len(d.ran), turn.Progress.ToolCalls[2])
	}
	if got := planned(closed)[0].Refusal; got != "blocked by pre_tool_use hook: not today" {
		t.Errorf("the model reads %q", got)
	}
}

func TestAResponseThatNoHookMatchesCostsNoEntry(t *testing.T) {
	b := newBench(t)
	d := b.deciding()
	b.responds("", calls(1, "write")...)
	other := spec(hook.PreToolUse, `{"decision":"block"}`)
	other.Matcher.ToolName = "delete"
	b.reason(newTurn("one"), withHooks(with(jobTool("write")), other))
	if b.ordinals() != 1 || len(d.ran) != 0 {
		t.Errorf("%d entries, %d runs", b.ordinals(), len(d.ran))
	}
}

func TestAfterACrashTheHooksRunAgainAndTheModelIsNotCalled(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	d := b.deciding()
	b.responds("I write.", model.ToolCall{Name: "write", Arguments: `{"path":"` + strings.Repeat("a", 20_000) + `"}`})
	c := withHooks(with(jobTool("write")), spec(hook.PreToolUse, patchArguments(`{"path":"/tmp/x"}`)))
	ctx, cancel := context.WithCancel(t.Context())
	b.Hooks.CEL = runs(func(context.Context, hook.Call) hook.Outcome {
		cancel()
		return hook.Fail("the process ends here")
	})
	if _, err := b.ReasonInPlace(ctx, newTurn("one"), c, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("the process ends with %v", err)
	}
	if b.ordinals() != 1 || len(d.ran) != 0 {
		t.Fatalf("%d entries, %d runs", b.ordinals(), len(d.ran))
	}
	next := onStore(t, store)
	d = next.deciding()
	turn, closed := next.reason(newTurn("one"), c)
	if len(next.asked) != 0 || len(d.ran) != 1 || planned(closed)[0].Arguments != `{"path":"/tmp/x"}` {
		t.Errorf("%d model calls, %d runs, planned %+v", len(next.asked), len(d.ran), planned(closed))
	}
	if turn.Progress.Plan.Phase != v1alpha1.PlanPhaseAct || turn.Progress.Summary.Usage.TotalTokens != 5 {
		t.Errorf("the Turn is %+v", turn.Progress)
	}
	next.expectTypes(closed.Events, openingTypes, reasonTypes)
	third := onStore(t, store)
	adopted, err := third.ReasonInPlace(t.Context(), newTurn("one"), c, nil)
	if err != nil || adopted.Ordinal != closed.Ordinal || len(third.asked) != 0 {
		t.Errorf("a third process: %+v, %v", adopted, err)
	}
}

// runs is an executor that is a function.
type runs func(context.Context, hook.Call) hook.Outcome

func (r runs) Run(ctx context.Context, c hook.Call) hook.Outcome { return r(ctx, c) }

func TestAFullJournalEndsATurnWithHooks(t *testing.T) {
	b := newBench(t)
	b.deciding()
	turn := newTurn("one")
	turn.Session.Limit = 1
	closed, err := b.ReasonInPlace(t.Context(), turn, withHooks(with(), spec(hook.UserPromptSubmit, rewritePrompt)), nil)
	if err != nil || closed.Transition.Error == nil || closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull {
		t.Errorf("it ends with %+v, %v", closed, err)
	}
}
