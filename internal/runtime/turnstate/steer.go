package turnstate

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

const (
	// MaxSteers is how many messages go into a Turn at one step. The others follow at the next one.
	MaxSteers = 32
	// MaxSteerBytes bounds the messages that go into a Turn at one step together, except for the last one. It is twice
	// the size of the largest.
	MaxSteerBytes = 2 * maxTurnMessageBytes
)

// Steer is a message that waits to go into a Turn that runs (STEER-01).
type Steer struct {
	// Ref names the Turn that the message was sent as.
	Ref v1alpha1.JournalTurn
	// Input is the user's text; of a message in parts, its texts joined by line breaks.
	Input string
	// Content is the user's message in parts; nil when it is Input alone.
	Content []event.Part
	// ReadMessage returns the whole message if Input is only its beginning; nil if Input and Content are the message.
	ReadMessage MessageReader
	// Controls of the message; nil for none.
	Controls *v1alpha1.TurnControls
	// SubmittedBy is the user who sent the message; empty if that is not known.
	SubmittedBy string
	// Task reports whether the message is the end of a background task, and not one of a user.
	Task bool
}

// AnyOfUser reports whether a user has sent one of the messages.
func AnyOfUser(messages []Steer) bool {
	return slices.ContainsFunc(messages, func(s Steer) bool { return !s.Task })
}
