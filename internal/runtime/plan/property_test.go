package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// step is what the world answers to one step of a turn, whichever step it is.
type step struct {
	reason  ReasonResult
	pending int
	act     ActResult
	facts   Facts
}

// trace is what can be seen of a turn from outside.
type trace struct {
	actions []string
	effects []string
	final   string
}

func pick[T any](random *rand.Rand, values ...T) T {
	return values[random.IntN(len(values))]
}

func randomStep(random *rand.Rand, now time.Time) step {
	result := ReasonResult{
		Success: random.IntN(8) > 0,
		Text: pick(
			random,
			"",
			"An answer.",
			"Sorry (429)",
			"Budget exhausted. 2 usd spent reached the 2 usd limit.",
		),
		HasToolCalls:    random.IntN(2) == 0,
		MaxIterations:   pick[uint32](random, 0, 0, 1, 2, 3, 6),
		Error:           pick(random, "", "", "boom", "error (503)", "Budget exhausted. Plain."),
		OutputMessageID: pick(random, "", "o1", "o2"),
		ResponseID:      pick(random, "", "r1", "r2"),
		FinishReason:    pick(random, "", "stop", "length", "refusal", "error", "canceled"),
		TerminalEmitted: random.IntN(6) == 0,
	}
	for i := range random.IntN(4) {
		result.ToolCalls = append(result.ToolCalls, ToolCall{ID: fmt.Sprint(i), Name: "n", Arguments: json.RawMessage(`{}`)})
	}
	if random.IntN(2) == 0 {
		result.Usage = &Usage{InputTokens: random.Int64(), OutputTokens: random.Int64N(9)}
	}
	if random.IntN(2) == 0 {
		result.TimeToFirstTokenMS = ptr(random.Int64N(100))
	}
	if random.IntN(5) == 0 {
		result.Failure = &Failure{Code: pick(random, "", CodeBlockedByHook), Fields: map[string]any{"a": "b"}}
	}
	act := ActResult{Blocked: random.IntN(8) == 0, WaitingForToolResults: random.IntN(3) == 0}
	if random.IntN(2) == 0 {
		act.Failure = &Failure{Code: CodeDependencyUnavailable, Fields: map[string]any{"state": "deleted"}}
	}
	return step{
		reason: result, pending: random.IntN(3), act: act,
		facts: Facts{
			Hints:         map[string]any{"setup_connection": pick[any](random, true, false, "true", nil)},
			ClientTools:   pick(random, "", ClientToolsWait, ClientToolsFollowHints),
			MaxIterations: pick[uint32](random, 0, 2, 4),
			Now:           now,
		},
	}
}

// drivePlanner runs a turn as a durable host does: state and results pass through JSON between any two steps.
func drivePlanner(t *testing.T, state State, steps []step, abort func(State) Outcome) trace {
	t.Helper()
	var seen trace
	decide := func(activity string, at step, output any) Outcome {
		seen.actions = append(seen.actions, fmt.Sprintf("%s %d", activity, state.Iteration))
		outcome, err := Next(Input{
			Activity: activity, State: decodeState(t, mustJSON(t, state)), Output: json.RawMessage(mustJSON(t, output)),
			Pending: at.pending, Facts: at.facts,
		})
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	outcome := decide(ActivityProcessInput, steps[0], map[string]string{"turn_id": state.TurnID})
	for _, at := range steps[1:] {
		seen.addEffects(t, outcome.Effects)
		switch plan := outcome.Plan.(type) {
		case ScheduleReason:
			state = plan.State
			outcome = decide(ActivityReason, at, at.reason)
		case ScheduleAct:
			state = plan.State
			seen.actions = append(seen.actions, fmt.Sprintf("%d calls", len(plan.ToolCalls)))
			outcome = decide(ActivityAct, at, at.act)
		case WaitForToolResults:
			seen.actions = append(seen.actions, "wait")
			outcome = Outcome{Plan: ScheduleReason{State: plan.Resume}}
		case Complete:
			return seen.finish(plan)
		}
	}
	seen.addEffects(t, outcome.Effects)
	if complete, done := outcome.Plan.(Complete); done {
		return seen.finish(complete)
	}
	outcome = abort(stateOf(outcome.Plan))
	seen.addEffects(t, outcome.Effects)
	return seen.finish(outcome.Plan.(Complete))
}

// driveMachine runs a turn as the in-process runtime does.
func driveMachine(t *testing.T, state State, steps []step, abort func(*Machine) ([]Effect, error)) trace {
	t.Helper()
	var seen trace
	machine, err := NewMachine(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range steps {
		var effects []Effect
		var err error
		switch action := machine.NextAction().(type) {
		case ExecuteInput:
			seen.actions = append(seen.actions, fmt.Sprintf("%s %d", ActivityProcessInput, action.State.Iteration))
			err = machine.OnInputCompleted(at.facts)
		case ExecuteReason:
			seen.actions = append(seen.actions, fmt.Sprintf("%s %d", ActivityReason, action.State.Iteration))
			effects, err = machine.OnReasonCompleted(at.reason, at.pending, at.facts)
		case ExecuteAct:
			seen.actions = append(seen.actions, fmt.Sprintf("%d calls", len(action.Act.ToolCalls)))
			seen.actions = append(seen.actions, fmt.Sprintf("%s %d", ActivityAct, action.Act.State.Iteration))
			effects, err = machine.OnActCompleted(at.act, at.facts)
		case Wait:
			seen.actions = append(seen.actions, "wait")
			err = machine.OnToolResults()
		case Finish:
			return seen.finishMachine(machine, action.Outcome)
		}
		if err != nil {
			t.Fatal(err)
		}
		seen.addEffects(t, effects)
	}
	if machine.Phase() != PhaseCompleted {
		effects, err := abort(machine)
		if err != nil {
			t.Fatal(err)
		}
		seen.addEffects(t, effects)
	}
	return seen.finishMachine(machine, finished(t, machine))
}

func (s *trace) addEffects(t *testing.T, effects []Effect) {
	t.Helper()
	for _, effect := range effects {
		s.effects = append(s.effects, effectNames([]Effect{effect})[0]+" "+mustJSON(t, effect))
	}
}

func (s *trace) finish(complete Complete) trace {
	failed, limit := !complete.Succeeded(), complete.StopReason == StopMaxTurnRequests
	answer, errorText := complete.State.FinalAnswerPreview, ""
	if failed {
		answer, errorText = "", complete.Error
		if errorText == "" {
			errorText = string(complete.Failure.Code)
		}
	}
	s.describe(failed, limit, complete.StopReason, answer, errorText, complete.Failure, complete.State)
	return *s
}

func (s *trace) finishMachine(machine *Machine, outcome TurnOutcome) trace {
	state := machine.State()
	state.Iteration, state.ToolCallCount = outcome.Iterations, outcome.ToolCalls
	failed, limit := outcome.Kind == OutcomeFailed, outcome.Kind == OutcomeMaxIterationsReached
	s.describe(failed, limit, outcome.StopReason, preview(outcome.Response), outcome.Error, outcome.Failure, state)
	return *s
}

func (s *trace) describe(
	failed, limit bool,
	reason StopReason,
	answer, errorText string,
	failure *Failure,
	state State,
) {
	failureJSON, _ := json.Marshal(failure)
	stateJSON, _ := json.Marshal(state)
	s.final = fmt.Sprintf(
		"failed=%t limit=%t %s %q %q %s %s",
		failed,
		limit,
		reason,
		answer,
		errorText,
		failureJSON,
		stateJSON,
	)
}

func stateOf(plan Plan) State {
	switch plan := plan.(type) {
	case ScheduleReason:
		return plan.State
	case ScheduleAct:
		return plan.State
	case WaitForToolResults:
		return plan.Resume
	case Complete:
		return plan.State
	}
	return State{}
}

func TestPlannerAndMachineAgree(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ends := map[string]int{}
	for seed := range uint64(4_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		steps := make([]step, 2+random.IntN(14))
		for i := range steps {
			steps[i] = randomStep(random, start.Add(time.Duration(i)*time.Second))
		}
		state := testState()
		state.Iteration = 1
		cause := errors.New("the worker gave up (503)")
		abortPlan := func(state State) Outcome { return Fail(state, cause) }
		abortMachine := func(m *Machine) ([]Effect, error) { return m.Fail(cause) }
		if random.IntN(2) == 0 {
			abortPlan, abortMachine = Cancel, (*Machine).Cancel
		}
		planned := drivePlanner(t, state, steps, abortPlan)
		machine := driveMachine(t, state, steps, abortMachine)
		if !reflect.DeepEqual(planned, machine) {
			t.Fatalf("seed %d:\nplanner %q\nmachine %q", seed, planned, machine)
		}
		var reason string
		if _, err := fmt.Sscanf(planned.final, "failed=%s limit=%s %s", new(string), new(string), &reason); err != nil {
			t.Fatal(err)
		}
		ends[reason]++
	}
	// Without this the comparison could hold because every turn ends in the same way.
	for _, reason := range []StopReason{StopEndTurn, StopMaxTokens, StopMaxTurnRequests, StopRefusal, StopError, StopCancelled} {
		if ends[string(reason)] < 50 {
			t.Errorf("only %d of the turns ended with %s: %v", ends[string(reason)], reason, ends)
		}
	}
}
