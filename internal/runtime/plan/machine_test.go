package plan

import (
	"errors"
	"reflect"
	"testing"
)

func newMachine(t *testing.T) *Machine {
	t.Helper()
	state := testState()
	state.Iteration = 1
	machine, err := NewMachine(state)
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// atReason returns a machine that is about to run its first reason step.
func atReason(t *testing.T) *Machine {
	t.Helper()
	machine := newMachine(t)
	if err := machine.OnInputCompleted(Facts{}); err != nil {
		t.Fatal(err)
	}
	return machine
}

func feedReason(t *testing.T, machine *Machine, result ReasonResult, pending int) []Effect {
	t.Helper()
	effects, err := machine.OnReasonCompleted(result, pending, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return effects
}

func feedAct(t *testing.T, machine *Machine, result ActResult) []Effect {
	t.Helper()
	effects, err := machine.OnActCompleted(result, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return effects
}

func finished(t *testing.T, machine *Machine) TurnOutcome {
	t.Helper()
	finish, ok := machine.NextAction().(Finish)
	if !ok {
		t.Fatalf("the action is %T", machine.NextAction())
	}
	return finish.Outcome
}

func toolCalls(count int) ReasonResult {
	return ReasonResult{Success: true, HasToolCalls: true, ToolCalls: make([]ToolCall, count)}
}

func TestMachineNeedsATurnID(t *testing.T) {
	if _, err := NewMachine(State{SessionID: "s"}); !IsInternal(err) {
		t.Errorf("error %v", err)
	}
}

func TestMachineWalksThroughItsPhases(t *testing.T) {
	machine := newMachine(t)
	expect := func(phase Phase, action Action) {
		t.Helper()
		if machine.Phase() != phase {
			t.Fatalf("phase %s, want %s", machine.Phase(), phase)
		}
		for range 2 {
			if got := machine.NextAction(); !reflect.DeepEqual(got, action) {
				t.Fatalf("action %+v, want %+v", got, action)
			}
		}
	}
	expect(PhasePendingInput, ExecuteInput{State: machine.State()})
	if err := machine.OnInputCompleted(Facts{}); err != nil {
		t.Fatal(err)
	}
	first := machine.State()
	if first.Iteration != 1 || first.TurnID != testTurnID {
		t.Fatalf("unexpected state %+v", first)
	}
	expect(PhasePendingReason, ExecuteReason{State: first})
	calls := toolCalls(2)
	calls.ResponseID = "r1"
	feedReason(t, machine, calls, 0)
	act := first
	act.ToolCallCount, act.LLMCallCount, act.PreviousResponseID = 2, 1, "r1"
	expect(PhasePendingAct, ExecuteAct{Act: ScheduleAct{State: act, ToolCalls: calls.ToolCalls}})
	waiting := feedAct(t, machine, ActResult{WaitingForToolResults: true})
	if !reflect.DeepEqual(effectNames(waiting), []string{setWaiting}) {
		t.Errorf("effects %q", effectNames(waiting))
	}
	act.Iteration = 2
	expect(PhaseWaiting, Wait{Resume: act})
	if err := machine.OnToolResults(); err != nil {
		t.Fatal(err)
	}
	expect(PhasePendingReason, ExecuteReason{State: act})
	effects := feedReason(t, machine, ReasonResult{Success: true, Text: "Done."}, 0)
	if !reflect.DeepEqual(effectNames(effects), completedOrder) {
		t.Errorf("effects %q", effectNames(effects))
	}
	expect(PhaseCompleted, Finish{Outcome: TurnOutcome{
		Kind: OutcomeSuccess, Response: "Done.", Iterations: 2, ToolCalls: 2, StopReason: StopEndTurn,
	}})
}

func TestMachineReasonTable(t *testing.T) {
	limited := func(result ReasonResult, limit uint32) ReasonResult {
		result.MaxIterations = limit
		return result
	}
	tests := map[string]struct {
		result  ReasonResult
		pending int
		phase   Phase
		kind    OutcomeKind
	}{
		"tool calls":                          {toolCalls(1), 0, PhasePendingAct, ""},
		"tool calls at the limit are dropped": {limited(toolCalls(1), 1), 0, PhaseCompleted, OutcomeMaxIterationsReached},
		"tool calls before steering":          {toolCalls(1), 1, PhasePendingAct, ""},
		"announced but empty list still acts": {toolCalls(0), 0, PhasePendingAct, ""},
		"steering":                            {ReasonResult{Success: true}, 1, PhasePendingReason, ""},
		"steering at the limit": {
			limited(ReasonResult{Success: true}, 1),
			1,
			PhaseCompleted,
			OutcomeMaxIterationsReached,
		},
		"natural end":                       {ReasonResult{Success: true}, 0, PhaseCompleted, OutcomeSuccess},
		"natural end on the last iteration": {limited(ReasonResult{Success: true}, 1), 0, PhaseCompleted, OutcomeSuccess},
		"failure":                           {ReasonResult{Error: "boom"}, 0, PhaseCompleted, OutcomeFailed},
		"failure without error string":      {ReasonResult{}, 0, PhaseCompleted, OutcomeFailed},
		"failure with tool calls and steering": {
			ReasonResult{HasToolCalls: true, ToolCalls: make([]ToolCall, 1)},
			1,
			PhaseCompleted,
			OutcomeFailed,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := atReason(t)
			feedReason(t, machine, test.result, test.pending)
			if machine.Phase() != test.phase {
				t.Fatalf("phase %s, want %s", machine.Phase(), test.phase)
			}
			if test.phase != PhaseCompleted {
				return
			}
			outcome := finished(t, machine)
			if outcome.Kind != test.kind || outcome.ToolCalls != 0 || outcome.Iterations != 1 {
				t.Errorf("unexpected outcome %+v", outcome)
			}
			if (outcome.Kind == OutcomeFailed) != (outcome.Error != "") {
				t.Errorf("unexpected error text %q", outcome.Error)
			}
		})
	}
}

func TestMachineKeepsTheLastTextThatWasNotEmpty(t *testing.T) {
	machine := atReason(t)
	calls := toolCalls(1)
	calls.Text = "Looking."
	feedReason(t, machine, calls, 0)
	feedAct(t, machine, ActResult{})
	feedReason(t, machine, ReasonResult{Success: true}, 0)
	if outcome := finished(t, machine); outcome.Response != "Looking." || outcome.Iterations != 2 {
		t.Errorf("unexpected outcome %+v", outcome)
	}
}

func TestMachineFailureIsClassified(t *testing.T) {
	machine := atReason(t)
	effects := feedReason(t, machine, ReasonResult{Text: "Wait a moment.", Error: "error (429)"}, 0)
	event := effects[1].(EffectTurnFailed)
	if event.Code != CodeProviderRateLimited || event.Error != "Wait a moment." {
		t.Errorf("unexpected event %+v", event)
	}
	outcome := finished(t, machine)
	if outcome.Error != "error (429)" || outcome.Failure.Code != CodeProviderRateLimited ||
		outcome.StopReason != StopError {
		t.Errorf("unexpected outcome %+v", outcome)
	}
}

func TestMachineEndsOnBlockedActWithoutFurtherEvents(t *testing.T) {
	machine := atReason(t)
	feedReason(t, machine, toolCalls(2), 0)
	if effects := feedAct(t, machine, ActResult{Blocked: true}); len(effects) != 0 {
		t.Errorf("effects %q", effectNames(effects))
	}
	outcome := finished(t, machine)
	want := TurnOutcome{
		Kind: OutcomeFailed, Iterations: 1, ToolCalls: 2, Error: "dependency_unavailable",
		StopReason: StopError, Failure: &Failure{Code: CodeDependencyUnavailable},
	}
	if !reflect.DeepEqual(outcome, want) {
		t.Errorf("got  %+v\nwant %+v", outcome, want)
	}
}

func TestVector10TurnResultTable(t *testing.T) {
	tests := map[string]struct {
		outcome TurnOutcome
		want    TurnResult
	}{
		"success": {
			TurnOutcome{Kind: OutcomeSuccess, Response: "r", Iterations: 2, ToolCalls: 3},
			TurnResult{TurnID: "t", Success: true, Response: "r", Iterations: 2, ToolCallsCount: 3},
		},
		"limit reached": {
			TurnOutcome{Kind: OutcomeMaxIterationsReached, Response: "so far", Iterations: 2, ToolCalls: 3},
			TurnResult{TurnID: "t", Success: true, Response: "so far", Iterations: 2, ToolCallsCount: 3},
		},
		"failed after tools ran": {
			TurnOutcome{Kind: OutcomeFailed, Response: "x", Iterations: 2, ToolCalls: 3, Error: "boom"},
			TurnResult{TurnID: "t", Iterations: 2, Error: "boom"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.outcome.Result("t"); got != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Vector 10 reports such a turn as having reached the limit. Here it is a natural end (SM-03(a), GAP-03); the result is
// the same.
func TestVector10NaturalEndOnTheOnlyIterationIsASuccess(t *testing.T) {
	machine := atReason(t)
	feedReason(t, machine, ReasonResult{Success: true, Text: "Hi.", MaxIterations: 1}, 0)
	outcome := finished(t, machine)
	if outcome.Kind != OutcomeSuccess || outcome.StopReason != StopEndTurn {
		t.Errorf("unexpected outcome %+v", outcome)
	}
	want := TurnResult{TurnID: testTurnID, Success: true, Response: "Hi.", Iterations: 1}
	if got := outcome.Result(machine.State().TurnID); got != want {
		t.Errorf("got %+v", got)
	}
}

func TestMachineCanBeEndedInEveryPhase(t *testing.T) {
	waiting := func(t *testing.T) *Machine {
		machine := atReason(t)
		feedReason(t, machine, toolCalls(1), 0)
		feedAct(t, machine, ActResult{WaitingForToolResults: true})
		return machine
	}
	acting := func(t *testing.T) *Machine {
		machine := atReason(t)
		feedReason(t, machine, toolCalls(1), 0)
		return machine
	}
	starts := map[Phase]func(*testing.T) *Machine{
		PhasePendingInput: newMachine, PhasePendingReason: atReason, PhasePendingAct: acting, PhaseWaiting: waiting,
	}
	ends := map[string]struct {
		call   func(*Machine) ([]Effect, error)
		reason StopReason
		code   ErrorCode
	}{
		"fail": {
			func(m *Machine) ([]Effect, error) { return m.Fail(errors.New("(500)")) },
			StopError,
			CodeProviderUnavailable,
		},
		"cancel": {(*Machine).Cancel, StopCancelled, CodeCancelled},
	}
	for phase, start := range starts {
		for name, end := range ends {
			t.Run(name+" in "+string(phase), func(t *testing.T) {
				machine := start(t)
				if machine.Phase() != phase {
					t.Fatalf("phase %s", machine.Phase())
				}
				effects, err := end.call(machine)
				if err != nil || !reflect.DeepEqual(effectNames(effects), failedOrder) {
					t.Fatalf("effects %q, error %v", effectNames(effects), err)
				}
				outcome := finished(t, machine)
				if outcome.Kind != OutcomeFailed || outcome.StopReason != end.reason || outcome.Failure.Code != end.code {
					t.Errorf("unexpected outcome %+v", outcome)
				}
			})
		}
	}
}

func TestMachineRefusesStepsOfOtherPhases(t *testing.T) {
	calls := map[string]func(*Machine) error{
		"input": func(m *Machine) error { return m.OnInputCompleted(Facts{}) },
		"reason": func(m *Machine) error {
			_, err := m.OnReasonCompleted(ReasonResult{Success: true, Text: "late"}, 0, Facts{})
			return err
		},
		"act":     func(m *Machine) error { _, err := m.OnActCompleted(ActResult{}, Facts{}); return err },
		"results": (*Machine).OnToolResults,
		"fail":    func(m *Machine) error { _, err := m.Fail(nil); return err },
		"cancel":  func(m *Machine) error { _, err := m.Cancel(); return err },
	}
	completed := func(t *testing.T) *Machine {
		machine := atReason(t)
		feedReason(t, machine, ReasonResult{Success: true, Text: "Done."}, 0)
		return machine
	}
	tests := map[string]struct {
		start   func(*testing.T) *Machine
		refused []string
	}{
		"before input": {newMachine, []string{"reason", "act", "results"}},
		"at reason":    {atReason, []string{"input", "act", "results"}},
		"completed":    {completed, []string{"input", "reason", "act", "results", "fail", "cancel"}},
	}
	for name, test := range tests {
		for _, call := range test.refused {
			t.Run(call+" "+name, func(t *testing.T) {
				machine := test.start(t)
				before := *machine
				if err := calls[call](machine); !IsInternal(err) {
					t.Errorf("error %v", err)
				}
				if !reflect.DeepEqual(*machine, before) {
					t.Errorf("the machine has changed to %+v", *machine)
				}
			})
		}
	}
}
