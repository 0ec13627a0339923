package plan

import (
	"errors"
	"fmt"
)

// Phase is the state of a Machine (SM-01).
type Phase string

// The phases of a Machine. PhaseWaiting has no counterpart in SM-01: there, a wait for tool results was ignored.
const (
	PhasePendingInput  Phase = "PendingInput"
	PhasePendingReason Phase = "PendingReason"
	PhasePendingAct    Phase = "PendingAct"
	PhaseWaiting       Phase = "Waiting"
	PhaseCompleted     Phase = "Completed"
)

// Action is what the owner of a Machine does next: exactly one of ExecuteInput, ExecuteReason, ExecuteAct, Wait and
// Finish.
type Action interface {
	isAction()
}

// ExecuteInput runs the input activity; OnInputCompleted follows.
type ExecuteInput struct {
	State State
}

// ExecuteReason runs a reason step in this state; OnReasonCompleted follows.
type ExecuteReason struct {
	State State
}

// ExecuteAct runs an act step; OnActCompleted follows.
type ExecuteAct struct {
	Act ScheduleAct
}

// Wait does nothing until client results have arrived; OnToolResults follows.
type Wait struct {
	Resume State
}

// Finish ends the loop. The effects of the end were returned by the call that led here.
type Finish struct {
	Outcome TurnOutcome
}

func (ExecuteInput) isAction()  {}
func (ExecuteReason) isAction() {}
func (ExecuteAct) isAction()    {}
func (Wait) isAction()          {}
func (Finish) isAction()        {}

// OutcomeKind is how a turn ended in-process (SM-03).
type OutcomeKind string

const (
	// OutcomeSuccess is a turn that ended by itself, on whatever iteration. This departs from SM-03(a), which reports a
	// natural end on the last allowed iteration as OutcomeMaxIterationsReached.
	OutcomeSuccess OutcomeKind = "Success"
	// OutcomeMaxIterationsReached is a turn that needed another iteration but had used all of them.
	OutcomeMaxIterationsReached OutcomeKind = "MaxIterationsReached"
	// OutcomeFailed is a turn that failed, was blocked or was cancelled.
	OutcomeFailed OutcomeKind = "Failed"
)

// TurnOutcome is the end of a turn in-process.
type TurnOutcome struct {
	Kind OutcomeKind
	// Response is the latest text that was not empty, in full; empty for OutcomeFailed.
	Response string
	// Iterations is the iteration in which the turn ended.
	Iterations uint32
	// ToolCalls is the number of tool calls planned. It is kept for OutcomeFailed too.
	ToolCalls uint32
	// Error is the technical error text of OutcomeFailed, never empty there. After a blocked act it is the failure's code.
	Error string
	// StopReason is why the turn ended.
	StopReason StopReason
	// Failure classifies OutcomeFailed; nil otherwise.
	Failure *Failure
}

// TurnResult is the result of a turn for the caller of the in-process runtime (SM-04).
type TurnResult struct {
	TurnID         string
	Success        bool
	Response       string
	Error          string
	Iterations     uint32
	ToolCallsCount uint32
}

// Result maps an outcome by the table of SM-04: a reached limit is a success, and a failure has an empty response and
// no tool calls, even if tools ran.
func (o TurnOutcome) Result(turnID string) TurnResult {
	result := TurnResult{TurnID: turnID, Iterations: o.Iterations}
	if o.Kind == OutcomeFailed {
		result.Error = o.Error
		return result
	}
	result.Success = true
	result.Response = o.Response
	result.ToolCallsCount = o.ToolCalls
	return result
}

// Machine runs one turn in memory (SM-01 to SM-08). It decides with AfterInput, AfterReason and AfterAct, as Next does;
// the package comment lists where that departs from the machine of the specification:
//
//   - it has no counter of its own: the iteration limit is compared where Next compares it, so that a natural end on the
//     last iteration is a success (SM-03(a));
//   - tool calls are announced by HasToolCalls alone (SM-02, SM-06);
//   - a blocked act ends the turn, and a wait is returned as Wait (SM-07);
//   - a failure is classified (SM-08), and one without error text gets GenericError (SM-03(b)).
//
// A method called in the wrong phase gives an error of KindInternal and changes nothing; therefore terminal effects are
// returned at most once. A Machine must not be used by several goroutines at once.
type Machine struct {
	phase    Phase
	state    State
	act      ScheduleAct
	response string
	outcome  TurnOutcome
}

// NewMachine begins a turn in PhasePendingInput. The state must have a turn id: it is minted once, by the caller, and
// all events of the turn carry it (GAP-17).
func NewMachine(state State) (*Machine, error) {
	if err := state.requireTurnID(); err != nil {
		return nil, err
	}
	return &Machine{phase: PhasePendingInput, state: state}, nil
}

// Phase returns the state of the machine.
func (m *Machine) Phase() Phase {
	return m.phase
}

// State is the current state of the turn.
func (m *Machine) State() State {
	return m.state
}

// NextAction is a projection of the phase: calling it again gives the same action.
func (m *Machine) NextAction() Action {
	switch m.phase {
	case PhasePendingInput:
		return ExecuteInput{State: m.state}
	case PhasePendingReason:
		return ExecuteReason{State: m.state}
	case PhasePendingAct:
		return ExecuteAct{Act: m.act}
	case PhaseWaiting:
		return Wait{Resume: m.state}
	default:
		return Finish{Outcome: m.outcome}
	}
}

// OnInputCompleted leads from PhasePendingInput to the first reason step.
func (m *Machine) OnInputCompleted(facts Facts) error {
	if err := m.requirePhase(PhasePendingInput); err != nil {
		return err
	}
	m.apply(AfterInput(m.state, m.state.TurnID, facts))
	return nil
}

// OnReasonCompleted takes the result of a reason step. pending is the number of steering messages that the caller has
// taken from its queue. It returns the effects to apply, in order.
func (m *Machine) OnReasonCompleted(result ReasonResult, pending int, facts Facts) ([]Effect, error) {
	if err := m.requirePhase(PhasePendingReason); err != nil {
		return nil, err
	}
	if result.Text != "" {
		m.response = result.Text
	}
	return m.apply(AfterReason(m.state, result, pending, facts)), nil
}

// OnActCompleted takes the result of an act step and returns the effects to apply, in order.
func (m *Machine) OnActCompleted(result ActResult, facts Facts) ([]Effect, error) {
	if err := m.requirePhase(PhasePendingAct); err != nil {
		return nil, err
	}
	return m.apply(AfterAct(m.state, result, facts)), nil
}

// OnToolResults leads from PhaseWaiting to the next reason step.
func (m *Machine) OnToolResults() error {
	if err := m.requirePhase(PhaseWaiting); err != nil {
		return err
	}
	m.apply(Outcome{Plan: ScheduleReason{State: m.state}})
	return nil
}

// Fail ends the turn because an activity returned an error (GAP-08), from any phase but PhaseCompleted.
func (m *Machine) Fail(err error) ([]Effect, error) {
	if m.phase == PhaseCompleted {
		return nil, internalError(errors.New("the turn is already complete"))
	}
	return m.apply(Fail(m.state, err)), nil
}

// Cancel ends the turn on request, from any phase but PhaseCompleted.
func (m *Machine) Cancel() ([]Effect, error) {
	if m.phase == PhaseCompleted {
		return nil, internalError(errors.New("the turn is already complete"))
	}
	return m.apply(Cancel(m.state)), nil
}

func (m *Machine) requirePhase(phase Phase) error {
	if m.phase != phase {
		return internalError(fmt.Errorf("the turn is in phase %s, not %s", m.phase, phase))
	}
	return nil
}

func (m *Machine) apply(outcome Outcome) []Effect {
	m.act = ScheduleAct{}
	switch next := outcome.Plan.(type) {
	case ScheduleReason:
		m.phase, m.state = PhasePendingReason, next.State
	case ScheduleAct:
		m.phase, m.state, m.act = PhasePendingAct, next.State, next
	case WaitForToolResults:
		m.phase, m.state = PhaseWaiting, next.Resume
	case Complete:
		m.phase, m.state, m.outcome = PhaseCompleted, next.State, outcomeOf(next, m.response)
	}
	return outcome.Effects
}

// outcomeOf derives the outcome of a completed turn (SM-03).
func outcomeOf(complete Complete, response string) TurnOutcome {
	outcome := TurnOutcome{
		Kind:       OutcomeSuccess,
		Response:   response,
		Iterations: complete.State.Iteration,
		ToolCalls:  complete.State.ToolCallCount,
		StopReason: complete.StopReason,
		Failure:    complete.Failure,
	}
	switch {
	case !complete.Succeeded():
		outcome.Kind = OutcomeFailed
		outcome.Response = ""
		outcome.Error = complete.Error
		if outcome.Error == "" {
			outcome.Error = string(complete.Failure.Code)
		}
	case complete.StopReason == StopMaxTurnRequests:
		outcome.Kind = OutcomeMaxIterationsReached
	}
	return outcome
}
