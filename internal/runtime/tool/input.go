package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// MaxInputRounds is how often one call may ask.
	MaxInputRounds = 8
	// MaxInputRequests is the number of questions that it may ask at once.
	MaxInputRequests = 4
	// MaxInputBytes is the size of these questions as JSON: status shows them.
	MaxInputBytes = 4 << 10
	// MaxInputStateBytes is the size of the state that a tool gets back with the answers.
	MaxInputStateBytes = 32 << 10
	// MaxInputContentBytes is the size of the content of one answer.
	MaxInputContentBytes = 16 << 10
)

// Input is what a tool asks before it continues with a call.
type Input struct {
	// State is the tool's own, which it gets back with the answers.
	State string
	// Requests are the questions, each with another id.
	Requests []v1alpha1.ToolInputRequest
}

// Answers are what a further request of a call has, after the tool has asked.
type Answers struct {
	// Round counts how often the call has asked, from 1.
	Round int32
	// State is that of the Input.
	State string
	// Answers to its questions, one for each; none for a call that is sent again because a connection exists.
	Answers []v1alpha1.InputAnswer
}

// InputRound is how often a call has asked, of those times that its answers were recorded or are awaited.
func InputRound(call v1alpha1.ToolCall) int32 {
	if call.Input == nil {
		return 0
	}
	return call.Input.Round
}

// InputDigest is the SHA-256, in hexadecimal, over everything that an answer of a user refers to: the Turn, the step,
// the call, the round, and the questions in the form that the journal has.
func InputDigest(
	turn types.UID, step int32, callID string, round int32, requests []v1alpha1.ToolInputRequest,
) (string, error) {
	raw, err := json.Marshal(requests)
	if err != nil {
		return "", fmt.Errorf("encoding the questions of call %s: %w", callID, err)
	}
	return Hash("input", string(turn), strconv.Itoa(int(step)), callID, strconv.Itoa(int(round)), string(raw)), nil
}

// RoundKey is the IdempotencyKey of a request that has the answers of a round: to the tool it is another request than
// the one that it has answered with its questions.
func RoundKey(turn types.UID, callID string, round int32) string {
	if round == 0 {
		return IdempotencyKey(turn, callID)
	}
	return Hash("idempotency-key", string(turn), callID, strconv.Itoa(int(round)))
}

// provider is the name of one that a tool may need a connection to.
var provider = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// ValidProvider reports whether a text is the name of a provider of connections.
func ValidProvider(name string) bool {
	return provider.MatchString(name)
}

// NeedsConnection is the outcome of a request of a call whose tool reports, outside of its result, that it has done
// nothing because it needs a connection to a provider (TOOL-16). The name must be valid. waits reports whether a client
// may set the connection up; otherwise the call ends.
func NeedsConnection(name string, waits bool) Outcome {
	if !waits {
		return AfterStart(ConnectionMissing(name))
	}
	return AfterStart(Outcome{Asked: &Input{Requests: []v1alpha1.ToolInputRequest{{
		ID: name, Mode: v1alpha1.ToolInputModeConnection,
		Message: fmt.Sprintf("The tool needs a connection to %q. Accept once it is set up.", name),
	}}}})
}

// LacksConnection is the outcome of a call that was not sent because the user of the Turn has no usable connection to a
// provider. why is a sentence without its end, and remedy one or more with theirs. waits reports whether a client may
// set the connection up; otherwise the call ends.
func LacksConnection(name, why, remedy string, waits bool) Outcome {
	if !waits {
		return NotExecuted(v1alpha1.ToolCallReasonConnectionRequired, why)
	}
	return Outcome{Asked: &Input{Requests: []v1alpha1.ToolInputRequest{{
		ID: name, Mode: v1alpha1.ToolInputModeConnection, Message: why + ". " + remedy + " Accept once it is set up.",
	}}}}
}

// NeededConnection is the outcome of a Job, in view of the exit codes by which its tool reports that it has done
// nothing because it needs a connection (TOOL-16). Nothing that the tool has printed counts, which others may have
// written.
func NeededConnection(spec *v1alpha1.ToolSpec, outcome Outcome, waits bool) Outcome {
	if spec == nil || spec.Job == nil || outcome.ExitCode == 0 || outcome.Reason != v1alpha1.ToolCallReasonExitCode {
		return outcome
	}
	for _, c := range spec.Job.Connections {
		if c.ExitCode == outcome.ExitCode {
			needs := NeedsConnection(c.Provider, waits)
			needs.Started, needs.StartedAt, needs.FinishedAt = outcome.Started, outcome.StartedAt, outcome.FinishedAt
			return needs
		}
	}
	return outcome
}

// What a tool reports that needs a connection, of its only attempt and of its last one.
const (
	toolDidNothing = "It reports that it has done nothing."
	lastDidNothing = "It reports that it has done nothing in its last attempt."
)

// ConnectionMissing is the outcome of a call whose tool needs a connection that was not set up.
func ConnectionMissing(name string) Outcome {
	return Failed(v1alpha1.ToolCallReasonConnectionRequired, fmt.Sprintf(
		"The tool needs a connection to %q, which is not set up. "+toolDidNothing+" Tell the user, and do not call it again "+
			"before the connection exists.", name))
}

// AsksForConnection reports whether what a tool asks is a connection.
func AsksForConnection(requests []v1alpha1.ToolInputRequest) bool {
	return len(requests) == 1 && requests[0].Mode == v1alpha1.ToolInputModeConnection
}

// AfterInput is the outcome of a request of a call in view of the requests before it: a call whose tool has asked
// something was executed, even if the answers did not reach the tool.
func AfterInput(call v1alpha1.ToolCall, outcome Outcome) Outcome {
	if InputRound(call) == 0 || outcome.State != v1alpha1.ToolCallStateNotExecuted {
		return outcome
	}
	why := strings.TrimSuffix(outcome.Error, changedNothing)
	why = strings.Replace(why, toolNotExecuted, "The answers were not sent", 1)
	outcome.Error = "The tool asked the user for input, and may have done a part of its work. " + why
	if outcome.State = v1alpha1.ToolCallStateUnknown; !AtMostOnce(call) {
		outcome.State = v1alpha1.ToolCallStateFailed
	}
	return outcome
}

// NoMoreInput is the outcome of a call whose tool asks too often.
func NoMoreInput() Outcome {
	return AfterStart(Failed(v1alpha1.ToolCallReasonToolError, fmt.Sprintf(
		"The tool asked the user %d times, and once more, which is too often. It may have done a part of its work.",
		MaxInputRounds)))
}

// NoRoomForInput is the outcome of a call whose questions cannot be shown.
func NoRoomForInput() Outcome {
	return AfterStart(Failed(v1alpha1.ToolCallReasonToolError, "The tool asked the user for input, and too many calls do "+
		"so at once. It may have done a part of its work. Call it again with fewer other calls."))
}
