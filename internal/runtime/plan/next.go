package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The names of the activities that Next accepts (TURN-03).
const (
	ActivityProcessInput = "process_input"
	ActivityReason       = "reason"
	ActivityAct          = "act"
)

// ClientToolsPolicy is when a turn waits for client results (GAP-06).
type ClientToolsPolicy string

const (
	// ClientToolsWait waits whenever the act step asks for it. It is the default: the empty policy means the same, and so
	// does an unknown one, because a turn that waits can be continued but one that went on can not be taken back.
	ClientToolsWait ClientToolsPolicy = "Wait"
	// ClientToolsFollowHints waits only if the session hint setup_connection is the JSON boolean true, and otherwise
	// continues with a reason step (TURN-11, TURN-12).
	ClientToolsFollowHints ClientToolsPolicy = "FollowHints"
)

// HintSetupConnection is the hint that the policy FollowHints reads.
const HintSetupConnection = "setup_connection"

// Facts are the inputs of a decision besides the state and the step's result. The zero value is usable.
type Facts struct {
	// Hints are the hints of the session, not of the message, with JSON values as encoding/json decodes them. Nil when
	// there are none or they could not be read (TURN-12).
	Hints map[string]any
	// ClientTools is the session's policy; empty means ClientToolsWait.
	ClientTools ClientToolsPolicy
	// MaxIterations is the limit for a reason result that carries none; 0 means DefaultMaxIterations.
	MaxIterations uint32
	// Now is the present; the zero time leaves start time and duration unset.
	Now time.Time
}

// Input is the input of Next.
type Input struct {
	// Activity is the name of the activity that has just ended.
	Activity string
	// State is the state with which that activity ran.
	State State
	// Output is the activity's raw JSON output.
	Output json.RawMessage
	// Pending is the number of steering messages that the host has taken from the queue for this turn. Next takes none
	// itself. A negative number counts as 0 (STEER-02).
	Pending int
	// Facts are read again for every decision.
	Facts Facts
}

// Next decides what a turn does after an activity has ended (TURN-03). An unknown activity is an error of
// KindConfiguration. Output that can not be decoded, and a state without a turn id after process_input, are errors of
// KindInternal. On an error the Outcome is empty.
func Next(in Input) (Outcome, error) {
	switch in.Activity {
	case ActivityProcessInput:
		fields, err := readObject(in.Output)
		if err != nil {
			return Outcome{}, internalError(fmt.Errorf("reading the output of process_input: %w", err))
		}
		return AfterInput(in.State, turnIDOf(fields), in.Facts), nil
	case ActivityReason:
		if err := in.State.requireTurnID(); err != nil {
			return Outcome{}, err
		}
		var result ReasonResult
		if err := json.Unmarshal(in.Output, &result); err != nil {
			return Outcome{}, internalError(fmt.Errorf("reading the output of reason: %w", err))
		}
		return AfterReason(in.State, result, in.Pending, in.Facts), nil
	case ActivityAct:
		if err := in.State.requireTurnID(); err != nil {
			return Outcome{}, err
		}
		result, err := ReadActResult(in.Output)
		if err != nil {
			return Outcome{}, internalError(fmt.Errorf("reading the output of act: %w", err))
		}
		return AfterAct(in.State, result, in.Facts), nil
	default:
		return Outcome{}, configurationError(fmt.Errorf("the activity %q is unknown", in.Activity))
	}
}

func (s State) requireTurnID() error {
	if s.TurnID == "" {
		return internalError(errors.New("the turn state has no turn id"))
	}
	return nil
}

// AfterInput begins the loop: the first reason step, in a state with this turn id, no previous response and iteration 1
// (TURN-04). The start time is set once, so that a repeated input step does not shorten the turn.
func AfterInput(state State, turnID string, facts Facts) Outcome {
	state.TurnID = turnID
	state.PreviousResponseID = ""
	state.Iteration = firstIteration
	if state.StartedAt.IsZero() && !facts.Now.IsZero() {
		state.StartedAt = facts.Now.UTC().Truncate(time.Millisecond)
	}
	return Outcome{Plan: ScheduleReason{State: state}}
}

// AfterReason decides after a reason step. In this order: a failed step fails the turn, whatever else it holds
// (TURN-09); a turn that wants to go on but has used all its iterations completes with StopMaxTurnRequests, and its
// tool calls are dropped and not counted (TURN-14); tool calls lead to an act step of the same iteration (TURN-06);
// pending steering messages lead to another reason step (TURN-07); otherwise the turn is complete (TURN-08).
func AfterReason(state State, result ReasonResult, pending int, facts Facts) Outcome {
	state = state.withReason(result)
	if !result.Success {
		return afterFailedReason(state, result)
	}
	goesOn := result.HasToolCalls || pending > 0
	switch {
	case goesOn && state.Iteration >= maxIterations(result, facts):
		return completed(state, result, StopMaxTurnRequests, facts)
	case result.HasToolCalls:
		return scheduleAct(state, result)
	case goesOn:
		state.PreviousResponseID = result.ResponseID
		return Outcome{Plan: ScheduleReason{State: state.nextIteration()}}
	default:
		return completed(state, result, naturalStop(result.FinishReason), facts)
	}
}

// AfterAct decides after an act step (TURN-11). A blocked one ends the turn without further events, because the step
// has emitted them. Otherwise a reason step of the next iteration follows, at once or, if the step waits for tool
// results and the policy agrees, when they have arrived. A host can tell a wait that FollowHints has turned down by
// result.WaitingForToolResults and a ScheduleReason.
func AfterAct(state State, result ActResult, facts Facts) Outcome {
	if result.Blocked {
		failure := Failure{Code: CodeDependencyUnavailable}
		if result.Failure != nil && result.Failure.Code != "" {
			failure = *result.Failure
		}
		return Outcome{Plan: Complete{State: state, StopReason: StopError, Failure: &failure}}
	}
	next := state.nextIteration()
	if result.WaitingForToolResults && facts.mayWait() {
		return Outcome{
			Plan:    WaitForToolResults{Resume: next},
			Effects: []Effect{EffectSetStatus{Status: StatusWaitingForToolResults}},
		}
	}
	return Outcome{Plan: ScheduleReason{State: next}}
}

// Fail ends a turn whose step can not be completed, such as one whose retries are exhausted (GAP-08). The error is
// classified, and events carry the sentence for its class, never its text. A nil error counts as GenericError.
func Fail(state State, err error) Outcome {
	text := GenericError
	if err != nil && err.Error() != "" {
		text = err.Error()
	}
	failure := Classify(text)
	return failedTurn(state, StopError, failure, failure.Sentence(), text)
}

// FailAs ends a turn for a reason that the host knows exactly, such as a deadline. sentence is shown to the user and is
// also the error of the plan; when empty, it is the sentence for the failure's code.
func FailAs(state State, failure Failure, sentence string) Outcome {
	if sentence == "" {
		sentence = failure.Sentence()
	}
	return failedTurn(state, StopError, failure, sentence, sentence)
}

// Cancel ends a turn on request. It can be called in any phase.
func Cancel(state State) Outcome {
	failure := Failure{Code: CodeCancelled}
	return failedTurn(state, StopCancelled, failure, failure.Sentence(), failure.Sentence())
}

func afterFailedReason(state State, result ReasonResult) Outcome {
	failure := ClassifyFailure(result.Text, result.Error)
	if result.Failure != nil && result.Failure.Code != "" {
		failure = *result.Failure
	}
	sentence := result.Text
	if sentence == "" {
		sentence = failure.Sentence()
	}
	errorText := result.Error
	if errorText == "" {
		errorText = GenericError
	}
	outcome := failedTurn(state, StopError, failure, sentence, errorText)
	if result.TerminalEmitted {
		outcome.Effects = nil
	}
	return outcome
}

func failedTurn(state State, reason StopReason, failure Failure, sentence, errorText string) Outcome {
	if failure.Code == "" {
		failure.Code = CodeProcessingError
	}
	return Outcome{
		Plan:    Complete{State: state, Error: errorText, StopReason: reason, Failure: &failure},
		Effects: failedEffects(state, sentence, failure),
	}
}

func completed(state State, result ReasonResult, reason StopReason, facts Facts) Outcome {
	return Outcome{
		Plan:    Complete{State: state, Error: result.Error, StopReason: reason},
		Effects: completedEffects(state, reason, facts.Now),
	}
}

func scheduleAct(state State, result ReasonResult) Outcome {
	state.PreviousResponseID = result.ResponseID
	state.ToolCallCount = saturatingAdd(state.ToolCallCount, uint64(len(result.ToolCalls)))
	return Outcome{Plan: ScheduleAct{
		State:           state,
		ToolCalls:       result.ToolCalls,
		ToolDefinitions: result.ToolDefinitions,
		Locale:          result.Locale,
		NetworkAccess:   result.NetworkAccess,
	}}
}

func maxIterations(result ReasonResult, facts Facts) uint32 {
	if result.MaxIterations > 0 {
		return result.MaxIterations
	}
	if facts.MaxIterations > 0 {
		return facts.MaxIterations
	}
	return DefaultMaxIterations
}

func (f Facts) mayWait() bool {
	if f.ClientTools != ClientToolsFollowHints {
		return true
	}
	enabled, isBool := f.Hints[HintSetupConnection].(bool)
	return isBool && enabled
}

// turnIDOf reads the turn id out of the output of process_input; empty when it is missing, no string or no UUID
// (TURN-04).
func turnIDOf(fields map[string]json.RawMessage) string {
	var text string
	if err := json.Unmarshal(fields["turn_id"], &text); err != nil || !isUUID(text) {
		return ""
	}
	// In lower case, so that one turn is not known under two spellings.
	return strings.ToLower(text)
}

// isUUID accepts the hyphenated form with 36 characters, in which object UIDs and UUIDv7 ids are written.
func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, c := range []byte(text) {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}
