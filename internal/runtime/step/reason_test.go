package step

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Rules: LIFE-02, LIFE-03, LIFE-04, LIFE-05, SM-04, SM-08, TURN-15, VEC-05.
func TestAnAnswerEndsTheTurn(t *testing.T) {
	b := newBench(t)
	turn, closed := b.reason(newTurn("demo-1"), with())
	b.expectTypes(closed.Events, openingTypes, reasonTypes, "turn.completed session.idled")
	p := turn.Progress
	if p.Phase != v1alpha1.TurnPhaseSucceeded || p.Plan.Phase != v1alpha1.PlanPhaseComplete ||
		p.Plan.StopReason != v1alpha1.StopReasonEndTurn ||
		p.Output != "Hello." {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
	if p.Plan.Step != 1 || p.Plan.OpenedAtOrdinal != closed.Ordinal+1 || p.Summary.FinishedAt == nil ||
		p.Summary.ModelCalls != 1 ||
		p.Summary.Usage.TotalTokens != 5 {
		t.Errorf("plan %+v, summary %+v", p.Plan, p.Summary)
	}
	if closed.Digest == "" {
		t.Error("the first entry has no digest of the message")
	}
}

func TestAnAnswerThatAFilterEndedIsARefusalAndTheLogHasTheProvidersWord(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) {
		return &model.Response{
			FinishReason: model.FinishFiltered,
			FinishWord:   "SPII",
			Usage:        model.Usage{InputTokens: 3},
		}, nil
	}
	turn, closed := b.reason(newTurn("demo-1"), with())
	b.expectTypes(closed.Events, openingTypes, reasonTypes, "turn.completed session.idled")
	if p := turn.Progress; p.Phase != v1alpha1.TurnPhaseSucceeded || p.Plan.StopReason != v1alpha1.StopReasonRefusal ||
		p.Output != "" {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
	if recorded := generations(
		t,
		closed,
	); len(recorded) != 1 || recorded[0].FinishReason != "SPII" ||
		!recorded[0].Success {
		t.Errorf("the journal has %+v", recorded)
	}
}

func TestAStepThatIsClosedIsAdoptedAndCostsNoModelCall(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	_, first := b.reason(newTurn("demo-1"), with())
	other := onStore(t, store)
	other.responds("Something else.")
	turn, closed := other.reason(newTurn("demo-1"), with())
	if len(other.asked) != 0 || !closed.Adopted || closed.Ordinal != first.Ordinal || turn.Progress.Output != "Hello." {
		t.Errorf("asked %d times, adopted %v, output %q", len(other.asked), closed.Adopted, turn.Progress.Output)
	}
}

func TestACancelledContextDecidesNothing(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.answer = func(model.Request) (*model.Response, error) { cancel(); return nil, ctx.Err() }
	if _, err := b.Reason(ctx, newTurn("demo-1"), with()); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if got := b.transcript(); len(got) != 0 {
		t.Errorf("the journal has %d messages", len(got))
	}
}

// Rules: ERR-03, LIFE-06, LLM-03, SM-02, SM-04, SM-08, TURN-09.
func TestAFailureOfTheModelIsAnOutcome(t *testing.T) {
	b := newBench(t)
	b.failing(&model.Error{Code: v1alpha1.ErrorCodeProviderRateLimited, Text: "rate limit of key sk-secret"})
	turn, closed := b.reason(newTurn("demo-1"), with())
	b.expectTypes(closed.Events, openingTypes, reasonTypes, failedTypes)
	p := turn.Progress
	if p.Phase != v1alpha1.TurnPhaseFailed || p.Error.Code != "provider_rate_limited" || p.Plan.StopReason != "" {
		t.Errorf("progress %+v, error %+v", p, p.Error)
	}
	for _, e := range closed.Events {
		if e.Type == "turn.failed" && strings.Contains(string(e.Data.Raw), "sk-secret") {
			t.Errorf("the user is shown the provider's text: %s", e.Data.Raw)
		}
	}
	// The next Turn's model does not see the failure (LLM-07).
	b.responds("Fine.")
	next := newTurn("demo-2")
	next.Ref.UID, next.Progress = "uid-2", plan.Begin(closed.Ordinal+1, b.micro())
	b.reason(next, with())
	asked := b.asked[len(b.asked)-1].Messages
	if len(asked) != 2 || asked[0].Role != event.RoleUser || asked[1].Role != event.RoleUser {
		t.Errorf("the model reads %+v", asked)
	}
}

// What comes with a failure is not used: neither its calls nor the messages that wait.
// Rules: TURN-09, VEC-03.
func TestTheCallsOfAModelThatFailsAreNotPlanned(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) {
		refused := provider.StatusError("Test", "m", 401, 0, "")
		return &model.Response{Text: "Let me see.", ToolCalls: calls(1, "work")}, refused
	}
	turn, closed := b.reason(steeredBy(newTurn("demo-1"), message("demo-2", "And Bob?")), with(jobTool("work")))
	b.expectTypes(closed.Events, openingTypes, reasonTypes, failedTypes)
	p := turn.Progress
	if p.Phase != v1alpha1.TurnPhaseFailed || p.Error.Code != v1alpha1.ErrorCodeProviderMisconfigured ||
		p.Output != "" || p.Summary.ToolCalls != 0 || len(p.ToolCalls) != 0 {
		t.Errorf("progress %+v, summary %+v", p, p.Summary)
	}
	if len(closed.Calls) != 0 || closed.Context != nil || len(closed.Steered) != 0 {
		t.Errorf("the journal has the calls %+v, the context %+v and the messages %+v",
			closed.Calls, closed.Context, closed.Steered)
	}
}

// The end of a Turn after one step with a tool, by its second model call.
// Rules: SM-04, VEC-10.
func TestTheResultOfATurn(t *testing.T) {
	for name, test := range map[string]struct {
		limit  int32
		answer func(*bench)
		phase  v1alpha1.TurnPhase
		stop   v1alpha1.StopReason
		output string
		code   v1alpha1.ErrorCode
	}{
		"success": {
			10, func(b *bench) { b.responds("It is done.") }, v1alpha1.TurnPhaseSucceeded, v1alpha1.StopReasonEndTurn,
			"It is done.", "",
		},
		"the limit of iterations": {
			2, func(b *bench) { b.responds("", calls(3, "work")...) }, v1alpha1.TurnPhaseSucceeded,
			v1alpha1.StopReasonMaxTurnRequests, "I will look.", "",
		},
		"failure": {
			10, func(b *bench) { b.fails("broken") }, v1alpha1.TurnPhaseFailed, "", "", v1alpha1.ErrorCodeProcessingError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c := with(jobTool("work"))
			c.Effective.MaxIterations = test.limit
			b.responds("I will look.", calls(1, "work")...)
			turn, _ := b.reason(newTurn("demo-1"), c)
			turn = b.looked(turn)
			test.answer(b)
			turn, _ = b.reason(turn, c)
			p := turn.Progress
			var code v1alpha1.ErrorCode
			if p.Error != nil {
				code = p.Error.Code
			}
			if p.Phase != test.phase || p.Plan.StopReason != test.stop || p.Output != test.output || code != test.code ||
				p.Iteration != 2 || p.Summary.ToolCalls != 1 {
				t.Errorf("progress %+v, plan %+v, summary %+v, error %q", p, p.Plan, p.Summary, code)
			}
		})
	}
}

// TestStatusReportsWhyAProviderRefusedTheRequest: in the provider's words, in full, and with no advice that does not
// help.
func TestStatusReportsWhyAProviderRefusedTheRequest(t *testing.T) {
	b := newBench(t)
	problem := "tools.3.custom.input_schema: " + strings.Repeat("long ", 150)
	b.answer = func(model.Request) (*model.Response, error) {
		return nil, provider.WithProblem(provider.StatusError("Anthropic", "m", 400, 0, "invalid_request_error"), problem)
	}
	turn, closed := b.reason(newTurn("demo-1"), with())
	failed := turn.Progress.Error
	if failed == nil || failed.Code != "processing_error" || failed.Fields["problem"] != problem ||
		failed.Message != "The model provider rejected the request." {
		t.Errorf("error %+v", failed)
	}
	b.expectTypes(closed.Events, openingTypes, reasonTypes, failedTypes)
}

func TestANilAnswerAndAMissingModelAreFailures(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) { return nil, nil }
	turn, _ := b.reason(newTurn("demo-1"), with())
	if turn.Progress.Error == nil || turn.Progress.Error.Code != "processing_error" {
		t.Errorf("error %+v", turn.Progress.Error)
	}
	b = newBench(t)
	c := with()
	c.Model = nil
	turn, _ = b.reason(newTurn("demo-1"), c)
	if turn.Progress.Error == nil || turn.Progress.Error.Code != "model_unavailable" {
		t.Errorf("error %+v", turn.Progress.Error)
	}
}

// Rules: BLK-01, BLK-02, BLK-05, LIFE-10, PHASE-04, VEC-11.
func TestABlockerEndsTheTurnBeforeTheModelIsCalled(t *testing.T) {
	b := newBench(t)
	c := with()
	c.Blocker = &config.Blocker{Dependency: config.DependencyAgent, State: config.DependencyDeleted}
	turn, closed := b.reason(newTurn("demo-1"), c)
	b.expectTypes(closed.Events, openingTypes, "output.message.completed", failedTypes)
	if len(b.asked) != 0 || turn.Progress.Error.Code != "dependency_unavailable" ||
		turn.Progress.Error.Fields["dependency"] != "agent" ||
		turn.Progress.Error.Message != c.Blocker.Sentence() {
		t.Errorf("asked %d times, error %+v", len(b.asked), turn.Progress.Error)
	}
}

// Rules: TOOL-02, TOOL-10.
func TestCallsArePinnedWithAllThatRunningThemNeeds(t *testing.T) {
	b := newBench(t)
	pure := jobTool("pure")
	pure.Spec.SideEffect, pure.Spec.ConcurrencyClass = v1alpha1.SideEffectPure, "db"
	strict := jobTool("strict")
	strict.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","required":["x"]}`)}
	b.responds("Let me see.",
		model.ToolCall{ProviderID: "p", Name: "pure", Arguments: `{"a":1}`},
		model.ToolCall{Name: "once", Arguments: ``},
		model.ToolCall{Name: "ask"},
		model.ToolCall{Name: "nothing", Arguments: "{"},
		model.ToolCall{Name: "strict", Arguments: `{}`},
		model.ToolCall{Name: "once", Arguments: `"` + strings.Repeat("x", tool.MaxArgumentsBytes) + `"`},
	)
	turn, closed := b.reason(newTurn("demo-1"), with(pure, jobTool("once"), clientTool("ask"), strict))
	got := turn.Progress.ToolCalls
	if len(got) != 6 || turn.Progress.Phase != v1alpha1.TurnPhaseAct || turn.Progress.Plan.Step != 2 ||
		turn.Progress.Summary.Calls != "3/6" {
		t.Fatalf(
			"%d calls, phase %s, plan %+v, calls %s",
			len(got),
			turn.Progress.Phase,
			turn.Progress.Plan,
			turn.Progress.Summary.Calls,
		)
	}
	if c := got[0]; c.ID != "1-0" ||
		c.Executor != v1alpha1.ToolExecutorJob ||
		c.SideEffect != v1alpha1.SideEffectPure ||
		c.ConcurrencyClass != "db" ||
		c.ToolGeneration != 0 ||
		c.Attempt != 1 ||
		c.State != v1alpha1.ToolCallStatePending ||
		c.Timeout.Minutes() != 1 ||
		c.Fingerprint != tool.Fingerprint("pure", `{"a":1}`) ||
		len(c.ToolDigest) != 40 ||
		c.CallDigest != "" {
		t.Errorf("Pure: %+v", c)
	}
	if c := got[1]; c.SideEffect != v1alpha1.SideEffectAtMostOnce {
		t.Errorf("a Tool without a class is pinned as %q", c.SideEffect)
	}
	if c := got[2]; c.Executor != v1alpha1.ToolExecutorClient || c.State != v1alpha1.ToolCallStateWaiting ||
		c.Attempt != 0 {
		t.Errorf("client: %+v", c)
	}
	for i, reason := range map[int]string{
		3: v1alpha1.ToolCallReasonToolNotFound, 4: v1alpha1.ToolCallReasonInvalidArguments,
		5: v1alpha1.ToolCallReasonArgumentsTooLarge,
	} {
		if c := got[i]; c.Executor != v1alpha1.ToolExecutorNone || c.State != v1alpha1.ToolCallStateNotExecuted ||
			c.Reason != reason ||
			c.Preview == "" {
			t.Errorf("call %d: %+v, want %s", i, c, reason)
		}
		if closed.Calls[i].Refusal == "" {
			t.Errorf("call %d has no refusal in the log", i)
		}
	}
	if len(closed.Calls[5].Arguments) > maxLoggedArguments {
		t.Errorf("%d bytes of refused arguments are in the log", len(closed.Calls[5].Arguments))
	}
	if closed.Calls[0].ProviderID != "p" || closed.Calls[0].Arguments != `{"a":1}` || closed.Calls[3].Arguments != "{" {
		t.Errorf("the journal has %+v", closed.Calls)
	}
}

func TestMoreCallsThanAStepMayHaveAreRefused(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(tool.MaxCallsPerStep+3, "work")...)
	turn, closed := b.reason(newTurn("demo-1"), with(jobTool("work")))
	p := turn.Progress
	if len(p.ToolCalls) != tool.MaxCallsPerStep || p.Summary.ToolCalls != 67 || p.Summary.SettledToolCalls != 3 {
		t.Fatalf("%d calls in status, summary %+v", len(p.ToolCalls), p.Summary)
	}
	results := facts{Outcomes: map[string]tool.Outcome{}, Planned: planned(closed)}
	for _, call := range p.ToolCalls {
		text := "fine"
		results.Outcomes[call.ID] = tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Result: &text}
	}
	acted, err := b.Act(t.Context(), turn, results.step())
	if err != nil {
		t.Fatal(err)
	}
	if len(results.Outcomes) != tool.MaxCallsPerStep {
		t.Error("closing the step changed the caller's outcomes")
	}
	recorded := map[string]string{}
	for _, m := range b.transcript() {
		if m.Role == event.RoleToolResult {
			recorded[m.ToolCallID] = m.Error
		}
	}
	if len(recorded) != 67 || recorded["1-63"] != "" || !strings.Contains(recorded["1-64"], "at most 64") ||
		recorded["1-66"] == "" {
		t.Errorf("the result of call 1-64 of %d is %q", len(recorded), recorded["1-64"])
	}
	if s := acted.Transition.Summary; s.Calls != "67/67" {
		t.Errorf("summary %+v", s)
	}
}

// Rules: TOOL-10.
func TestTheTurnWaitsAtOnceWhenAllCallsAreTheClients(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(2, "ask")...)
	turn, _ := b.reason(newTurn("demo-1"), with(clientTool("ask")))
	if turn.Progress.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Errorf("phase %s", turn.Progress.Phase)
	}
	b = newBench(t)
	b.responds("", append(calls(1, "ask"), calls(1, "work")...)...)
	turn, _ = b.reason(newTurn("demo-1"), with(clientTool("ask"), jobTool("work")))
	if turn.Progress.Phase != v1alpha1.TurnPhaseAct {
		t.Errorf("phase %s while a Job is to run", turn.Progress.Phase)
	}
	b = newBench(t)
	b.responds("", calls(1, "ask")...)
	follows := newTurn("demo-1")
	follows.ClientTools = v1alpha1.ClientToolsPolicyFollowHints
	turn, _ = b.reason(follows, with(clientTool("ask")))
	if turn.Progress.Phase != v1alpha1.TurnPhaseAct {
		t.Errorf("phase %s although no tool returns", turn.Progress.Phase)
	}
}

// Rules: ERR-04, SM-04.
func TestTheLimitOfIterationsCompletesTheTurnWithTheLastText(t *testing.T) {
	b := newBench(t)
	c := with(jobTool("work"))
	c.Effective.MaxIterations = 2
	b.responds("I will look.", calls(1, "work")...)
	turn, closed := b.reason(newTurn("demo-1"), c)
	acted, err := b.Act(
		t.Context(),
		turn,
		facts{
			Outcomes: map[string]tool.Outcome{"1-0": {State: v1alpha1.ToolCallStateFailed, Error: "no"}},
			Planned:  planned(closed),
		}.step(),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.responds("", calls(1, "work")...)
	turn, _ = b.reason(after(turn, acted), c)
	p := turn.Progress
	if p.Phase != v1alpha1.TurnPhaseSucceeded || p.Plan.StopReason != v1alpha1.StopReasonMaxTurnRequests ||
		p.Output != "I will look." ||
		p.Summary.ToolCalls != 1 {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
}

// Rules: PHASE-02, PHASE-04.
func TestTheRequestCarriesTheTurn(t *testing.T) {
	b := newBench(t)
	c := with(jobTool("work"))
	c.Effective.SystemPrompt = "Be brief."
	c.Effective.Tools = append(c.Effective.Tools, "not there")
	c.Model.Spec.Model = "m-1"
	b.responds("", calls(1, "work")...)
	turn, closed := b.reason(newTurn("demo-1"), c)
	text := "42"
	acted, err := b.Act(
		t.Context(),
		turn,
		facts{
			Outcomes: map[string]tool.Outcome{"1-0": {State: v1alpha1.ToolCallStateSucceeded, Result: &text}},
			Planned:  planned(closed),
		}.step(),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.responds("Done.")
	b.reason(after(turn, acted), c)
	r := b.asked[1]
	if r.Model != "m-1" || r.SystemPrompt != "Be brief.\n\n"+event.FenceNote || r.Iteration != 2 ||
		r.TurnID != string(turn.Ref.UID) {
		t.Errorf("request %+v", r)
	}
	if len(r.Tools) != 1 || r.Tools[0].Name != "work" || !json.Valid(r.Tools[0].InputSchema) {
		t.Errorf("tools %+v", r.Tools)
	}
	roles := []event.Role{}
	for _, m := range r.Messages {
		roles = append(roles, m.Role)
	}
	if len(roles) != 3 || roles[0] != event.RoleUser || roles[1] != event.RoleAssistant ||
		roles[2] != event.RoleToolResult ||
		event.Unfenced(r.Messages[2]).PlainText() != "42" {
		t.Errorf("messages %+v", r.Messages)
	}
}
