package turnstate

import (
	"context"
	"maps"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/title"
)

// Turn is a Turn as its steps see it.
type Turn struct {
	// Session names the journal.
	Session format.Session
	// Ref names the Turn in the journal.
	Ref v1alpha1.JournalTurn
	// Input is the user's text; of a message in parts, its texts joined by line breaks.
	Input string
	// Content is the user's message in parts; nil when it is Input alone.
	Content []event.Part
	// Prompt is the message after the hooks of the Turn; nil if there are none, or they have not run yet.
	Prompt *format.HookedPrompt
	// ReadMessage returns the whole message if Input is only its beginning; nil if Input and Content are the message.
	ReadMessage MessageReader
	// MessageBytes is the size of a message that is yet to be read.
	MessageBytes int64
	// ConfigBytes is the size of the configuration that is yet to be read.
	ConfigBytes int64
	// Locale of the response to the message; empty for none (CFG-08).
	Locale string
	// Depth is the number of Sessions above that of the Turn, in its tree of sub-agents.
	Depth int32
	// Root is the Session at the top of that tree, whose labels decide which Budgets count.
	Root v1alpha1.ObjectIdentity
	// Budgets are the changes of Budgets that concern the Turn; nil for none.
	Budgets *budget.Notices
	// SubmittedBy is the user who sent the message, and Origin why the manager has created the Turn; nil for none.
	SubmittedBy string
	Origin      *v1alpha1.TurnOrigin
	// Continues is the W3C trace context that the Turn continues; empty for a trace of its own.
	Continues string
	// Harness and Agent are the names in the Session; Agent may be empty.
	Harness, Agent string
	// StoreFirst reports whether an earlier process may have paid for a response of the open step that is not in the
	// journal. No model is called before an entry is stored.
	StoreFirst bool
	// Progress is the Turn's status: the plan is that of the open step.
	Progress v1alpha1.TurnProgress
	// Steers returns the current messages to be steered into the Turn, in order; nil for none.
	Steers func(context.Context) ([]Steer, error)
	// Local reports whether the process which runs the Turn carries out the calls of Job tools itself, so that they are
	// claimed as requests are.
	Local bool
	// Titled reports whether the Session has a title, or has had enough Turns without one.
	Titled bool
	// ClientTools and Hints are those of the Session.
	ClientTools v1alpha1.ClientToolsPolicy
	Hints       map[string]v1alpha1.JSON
}

// MessageReader returns the spec of a Turn with its whole message.
type MessageReader func(context.Context) (v1alpha1.TurnSpec, error)

// TurnOf returns a Turn of a Session for its steps, without the messages to be steered into it. If the message was left
// out, the caller adds its reader.
func TurnOf(turn *v1alpha1.Turn, session *v1alpha1.Session) Turn {
	t := Turn{
		Session:     JournalOf(session),
		Ref:         v1alpha1.JournalTurn{Name: turn.Name, UID: turn.UID},
		Locale:      config.Locale(ControlsOf(turn), session.Spec.Locale),
		Progress:    *turn.Status.TurnProgress.DeepCopy(),
		ClientTools: session.Spec.ClientTools,
		Hints:       session.Spec.Hints,
		Harness:     session.Spec.HarnessRef.Name,
		Depth:       subagent.Depth(session),
		Root:        rootOf(session),
		SubmittedBy: turn.Spec.SubmittedBy,
		Origin:      turn.Spec.Origin,
		Continues:   turn.Spec.TraceParent,
		Titled: session.Spec.Title != "" || session.Status.Title != "" ||
			session.Status.Totals.Turns >= title.MaxTurns,
	}
	t.Input, t.Content = MessageOf(turn.Spec)
	if MessageLeftOut(turn.Spec) {
		t.MessageBytes = leftOutBytes(turn)
	}
	if agent := session.Spec.AgentRef; agent != nil {
		t.Agent = agent.Name
	}
	return t
}

// UserOf is the user of all messages of a Turn; empty if there are several, or if the user is not known.
func UserOf(turn *v1alpha1.Turn) string {
	if turn.Status.Users == v1alpha1.TurnUsersSeveral {
		return ""
	}
	return turn.Spec.SubmittedBy
}

// User is that of UserOf.
func (t Turn) User() string {
	if t.Progress.Users == v1alpha1.TurnUsersSeveral {
		return ""
	}
	return t.SubmittedBy
}

// ControlsOf are the settings of the last message of a Turn (CFG-07, CFG-09).
func ControlsOf(turn *v1alpha1.Turn) *v1alpha1.TurnControls {
	if latest := turn.Status.Controls; latest != nil {
		return latest
	}
	return turn.Spec.Controls
}

// JournalOf identifies the journal of a Session.
func JournalOf(session *v1alpha1.Session) format.Session {
	j := format.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	if limit := session.Spec.JournalLimit; limit != nil {
		j.Limit = limit.Value()
	}
	return j
}

// Step is the number of the open step.
func (t Turn) Step() int32 {
	return t.Progress.Plan.Step
}

// MessageID returns the id of the user's message: a Turn has exactly one, so that it is the Turn's own UID, whichever
// process writes it and however often.
func (t Turn) MessageID() string {
	return string(t.Ref.UID)
}

// ResponseID is the id of the response, or of the message about an error, that closes the open step.
func (t Turn) ResponseID() string {
	return event.MessageID(t.Ref.UID, t.Step())
}

// Identity is that of the events of the Turn.
func (t Turn) Identity() event.Identity {
	return event.Identity{
		Session: t.Session.UID, Turn: t.Ref.UID, InputMessage: t.MessageID(), TraceParent: t.Continues,
	}
}

// TraceParent returns the W3C trace context of a call of the open step, so that the spans of the tool are children of
// the Turn's spans (TOOL-11).
func (t Turn) TraceParent(call string) string {
	return event.NewFactory(t.Identity(), nil).Step(t.Step(), 1).TraceParent(call)
}

// ModelTraceParent returns the W3C trace context of the n-th model call of the open step, counted from 0.
func (t Turn) ModelTraceParent(n int) string {
	return event.NewFactory(t.Identity(), nil).Step(t.Step(), 1).ModelTraceParent(n)
}

// Trace is the trace that the Turn belongs to.
func (t Turn) Trace() event.Trace {
	return event.TraceOf(t.Ref.UID, t.Continues)
}

// Waits reports whether the Turn waits for client tools (TURN-11, GAP-06).
func Waits(t Turn) bool {
	return plan.Waits(t.ClientTools, t.Hints)
}

// maxHintBytes is the size of the largest hint that is read.
const maxHintBytes = 64

// LeaveOutHints drops the hints of a Session that nothing reads: they are the client's own and may be of any size.
func LeaveOutHints(session *v1alpha1.Session) {
	maps.DeleteFunc(session.Spec.Hints, func(name string, value v1alpha1.JSON) bool {
		return name != v1alpha1.HintSetupConnection || len(value.Raw) > maxHintBytes
	})
}
