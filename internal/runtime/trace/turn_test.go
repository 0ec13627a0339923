package trace_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const uid = "6f8a1c9e-0000-4000-8000-00000000abcd"

var began = time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)

func turn() turnstate.Turn {
	t := turnstate.Turn{
		Ref: v1alpha1.JournalTurn{Name: "demo-1", UID: uid}, Harness: "base", Agent: "helper",
	}
	t.Session.UID, t.Session.Name, t.Session.Namespace = "s1", "demo", "team"
	return t
}

// closed is a step that was closed 10 seconds after the beginning of the Turn.
func closed(step int32, phase v1alpha1.PlanPhase, events ...event.Event) *journal.Closed {
	at := metav1.NewMicroTime(began)
	c := &journal.Closed{
		Step: step, Time: metav1.NewMicroTime(began.Add(10 * time.Second)), Events: events,
		Transition: v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseReason, Plan: &v1alpha1.TurnPlan{Step: step + 1, Phase: phase},
			Summary: &v1alpha1.TurnSummary{StartedAt: &at},
		},
	}
	return c
}

func factory(seconds float64) event.Step {
	at := began.Add(time.Duration(seconds * float64(time.Second)))
	return event.NewFactory(event.Identity{Turn: uid}, func() time.Time { return at }).Step(1, 1)
}

// attributes of a span, as text.
func attributes(s trace.Span) map[string]string {
	values := map[string]string{}
	for _, a := range s.Attributes {
		values[string(a.Key)] = a.Value.String()
	}
	return values
}

func named(t *testing.T, spans []trace.Span, name string) trace.Span {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span is named %s: %+v", name, spans)
	return trace.Span{}
}

func ms(n int64) *int64 { return &n }

func TestAModelCallHasTheAttributesOfTheConventions(t *testing.T) {
	spans := trace.Of(turn(), nil, closed(1, v1alpha1.PlanPhaseAct,
		factory(1).ReasonStarted(event.ReasonStarted{Model: "gpt-5"}),
		factory(2).LLMGeneration(event.LLMGeneration{
			Provider: "OpenAI", Model: "gpt-5", DurationMS: ms(1000), ErrorCode: "provider_unavailable", Error: "key sk-1",
		}),
		factory(4).LLMGeneration(event.LLMGeneration{
			Provider: "Anthropic", Model: "claude-1", DurationMS: ms(1500), Success: true, Tries: 2,
			Usage:      &event.Usage{InputTokens: 7, OutputTokens: 3, CacheReadTokens: 5},
			ResponseID: "r1", FinishReason: "stop", TimeToFirstTokenMS: ms(250),
		}),
		factory(4).OutputMessageCompleted(event.OutputMessageCompleted{Message: text("My text")}),
		factory(4).ReasonCompleted(event.ReasonCompleted{Success: true}),
	), false)
	if len(spans) != 3 {
		t.Fatalf("the spans are %+v", spans)
	}
	step := named(t, spans, "reason")
	if step.ID != event.StepSpan(uid, "1-1") || step.Parent != event.TurnSpan(uid) || step.Client || step.Error != "" {
		t.Errorf("the step is %+v", step)
	}
	failed, call := named(t, spans, "chat gpt-5"), named(t, spans, "chat claude-1")
	if failed.Error != "provider_unavailable" || attributes(failed)["error.type"] != "provider_unavailable" {
		t.Errorf("the failed call is %+v", failed)
	}
	if call.Parent != step.ID || failed.Parent != step.ID || call.ID == failed.ID || !call.Client || call.Error != "" {
		t.Errorf("the calls are %+v and %+v", failed, call)
	}
	if got := call.End.Sub(call.Start); got != 1500*time.Millisecond {
		t.Errorf("the call took %s", got)
	}
	got := attributes(call)
	for name, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-1",
		"gen_ai.response.model": "claude-1", "gen_ai.response.id": "r1", "gen_ai.response.finish_reasons": `["stop"]`,
		"gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3", "gen_ai.usage.cache_read.input_tokens": "5",
		"gen_ai.response.time_to_first_chunk": "0.25", "gen_ai.conversation.id": "s1", "gen_ai.agent.name": "helper",
		"k8s.namespace.name": "team", "capstan.session.name": "demo", "capstan.turn.name": "demo-1", "capstan.turn.uid": uid,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, s := range spans {
		for name, value := range attributes(s) {
			if strings.Contains(value, "My text") || strings.Contains(value, "sk-1") {
				t.Errorf("%s of %s is %q", name, s.Name, value)
			}
		}
	}
}

func text(content string) event.Message {
	return event.Message{Role: event.RoleAssistant, Content: []event.Part{event.Text(content)}}
}

func TestToolCallsAreWithinTheirStepAlthoughAKubeletRoundsTimes(t *testing.T) {
	calls := []v1alpha1.ToolCall{
		{ID: "1-0", Executor: v1alpha1.ToolExecutorJob},
		{ID: "1-1", Executor: v1alpha1.ToolExecutorMCP},
		{ID: "1-2", Executor: v1alpha1.ToolExecutorClient},
	}
	spans := trace.Of(turn(), calls, closed(
		1,
		v1alpha1.PlanPhaseReason,
		factory(-0.5).ToolStarted(event.ToolStarted{ToolCall: event.ToolCall{ID: "1-0", Name: "work"}, Attempt: 2}),
		factory(
			-0.5,
		).ToolCompleted(event.ToolCompleted{ToolCallID: "1-0", ToolName: "work", Success: true, Status: "success"}),
		factory(1).ToolStarted(event.ToolStarted{ToolCall: event.ToolCall{ID: "1-1", Name: "find"}}),
		factory(11).ToolCompleted(event.ToolCompleted{ToolCallID: "1-1", ToolName: "find", Status: "timeout"}),
		factory(3).ToolCompleted(event.ToolCompleted{ToolCallID: "1-2", ToolName: "ask", Success: true, Status: "success"}),
	), false)
	step := named(t, spans, "act")
	for _, s := range spans {
		if s.ID != step.ID && s.Parent != step.ID {
			t.Errorf("%s has the parent %s", s.Name, s.Parent)
		}
		if s.Start.Before(step.Start) || s.End.After(step.End) || s.Start.Before(began) || s.End.Before(s.Start) {
			t.Errorf("%s is from %s to %s, its step from %s to %s", s.Name, s.Start, s.End, step.Start, step.End)
		}
	}
	if got := attributes(named(t, spans, "execute_tool work")); got["capstan.tool.attempt"] != "2" ||
		got["capstan.tool.executor"] != "Job" || got["gen_ai.tool.call.id"] != "1-0" {
		t.Errorf("the attributes are %v", got)
	}
	find := named(t, spans, "execute_tool find")
	if !find.Client || find.Error != "timeout" || attributes(find)["mcp.method.name"] != "tools/call" {
		t.Errorf("the call of the server is %+v", find)
	}
}

func TestTheTurnIsTheRootOfItsTraceOrContinuesAnother(t *testing.T) {
	for given, want := range map[string]trace.Span{
		"": {Trace: strings.ReplaceAll(uid, "-", ""), Flags: "01"},
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": {
			Trace: "0af7651916cd43dd8448eb211c80319c", Parent: "b7ad6b7169203331", Flags: "00", Remote: true,
		},
	} {
		of := turn()
		of.Continues = given
		last := closed(3, v1alpha1.PlanPhaseComplete)
		finished := metav1.NewMicroTime(began.Add(9 * time.Second))
		last.Transition.Phase, last.Transition.Summary.FinishedAt = v1alpha1.TurnPhaseFailed, &finished
		last.Transition.Error = &v1alpha1.TurnError{Code: v1alpha1.ErrorCodeDeadlineExceeded, Message: "secret"}
		spans := trace.Of(of, nil, last, false)
		if len(spans) != 1 {
			t.Fatalf("the spans are %+v", spans)
		}
		root := spans[0]
		if root.Trace != want.Trace || root.Parent != want.Parent || root.Flags != want.Flags || root.Remote != want.Remote {
			t.Errorf("the root is %+v", root)
		}
		if root.Name != "invoke_agent helper" || root.Error != string(v1alpha1.ErrorCodeDeadlineExceeded) ||
			!root.Start.Equal(began) || !root.End.Equal(finished.Time) {
			t.Errorf("the root is %+v", root)
		}
		if again := trace.Of(of, nil, last, false)[0]; again.ID != root.ID {
			t.Error("the same step has another span")
		}
	}
}

func TestAHookIsASpanBelowItsTurn(t *testing.T) {
	ran := hook.Run{
		Hook: "harness/base:guard", Event: hook.PreToolUse, Tool: "work", ToolCallID: "1-0", Key: "k", Decision: hook.Block,
		Start: began, End: began.Add(time.Second),
	}
	of := turn()
	of.Continues = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := trace.Hook(of, ran)
	if s.Name != "hook harness/base:guard" || s.Parent != event.TurnSpan(uid) || s.Error != "" ||
		s.Trace != "0af7651916cd43dd8448eb211c80319c" || !s.Start.Equal(began) || s.End.Sub(s.Start) != time.Second {
		t.Errorf("the span is %+v", s)
	}
	got := attributes(s)
	for name, want := range map[string]string{
		"capstan.hook.event": string(hook.PreToolUse), "capstan.hook.decision": string(hook.Block),
		"gen_ai.tool.name": "work", "gen_ai.tool.call.id": "1-0", "capstan.turn.uid": uid, "gen_ai.conversation.id": "s1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if again := trace.Hook(of, ran); again.ID != s.ID {
		t.Error("the same run has another span")
	}
	ran.Key, ran.Decision = "another", hook.Failed
	if failed := trace.Hook(of, ran); failed.ID == s.ID || failed.Error != string(hook.Failed) {
		t.Errorf("the run that failed is %+v", failed)
	}
}

func TestContentIsBounded(t *testing.T) {
	long := strings.Repeat("x", 5*trace.MaxContentBytes)
	spans := trace.Of(turn(), nil, closed(1, v1alpha1.PlanPhaseAct,
		event.NewFactory(event.Identity{Turn: uid}, nil).InputMessage(text(long)),
		factory(1).ReasonStarted(event.ReasonStarted{Model: "m"}),
		factory(2).LLMGeneration(event.LLMGeneration{Model: "m", Success: true}),
		factory(2).OutputMessageCompleted(event.OutputMessageCompleted{Message: text("<" + long)}),
		factory(3).ToolStarted(event.ToolStarted{ToolCall: event.ToolCall{ID: "1-0", Arguments: long}}),
		factory(4).ToolCompleted(event.ToolCompleted{
			ToolCallID: "1-0", Success: true, Status: "success", Result: []event.Part{event.Text(long)},
		}),
	), true)
	found := map[string]bool{}
	for _, s := range spans {
		for name, value := range attributes(s) {
			if len(value) > trace.MaxContentBytes+256 {
				t.Errorf("%s has %d bytes", name, len(value))
			}
			found[name] = true
		}
	}
	for _, name := range []string{
		"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
	} {
		if !found[name] {
			t.Errorf("no span has %s", name)
		}
	}
}

func TestASinkOfAFunctionHasNoContent(t *testing.T) {
	var got []trace.Span
	sink := trace.Func(func(s trace.Span) { got = append(got, s) })
	sink.Export([]trace.Span{{ID: "a"}, {ID: "b"}})
	if len(got) != 2 || sink.Content() {
		t.Errorf("the spans are %+v", got)
	}
}
