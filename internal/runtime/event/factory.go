package event

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Identity identifies the owners of a turn's events.
type Identity struct {
	// Session is the UID of the Session.
	Session types.UID
	// Turn is the UID of the Turn.
	Turn types.UID
	// InputMessage is the id of the user's message of the turn.
	InputMessage string
	// TraceParent is the W3C trace context that the turn continues; empty for a trace of its own.
	TraceParent string
}

// Factory builds the events of one turn: each has the time of the clock, and the context of its step or call.
// Identify gives it an id when the step that it is recorded with is known. It is a value: the methods that change it
// return another one.
type Factory struct {
	identity Identity
	clock    func() time.Time
}

// NewFactory builds events by the clock; without one, by time.Now.
func NewFactory(identity Identity, clock func() time.Time) Factory {
	if clock == nil {
		clock = time.Now
	}
	return Factory{identity: identity, clock: clock}
}

// At builds events of one given time, for events that are recorded later.
func (f Factory) At(t time.Time) Factory {
	f.clock = func() time.Time { return t }
	return f
}

// InputMessage returns an event: the user's message was added to the conversation. Metadata without a JSON form is
// replaced by a sentence.
func (f Factory) InputMessage(m Message) Event {
	m.Metadata = encodable(m.Metadata)
	return f.turn(TypeInputMessage, InputMessage{Message: m})
}

// RewrittenMessage returns the event of a message that hooks have made of the user's, which is kept beside it.
func (f Factory) RewrittenMessage(m, original Message) Event {
	m.Metadata, original.Metadata = encodable(m.Metadata), encodable(original.Metadata)
	return f.turn(TypeInputMessage, InputMessage{Message: m, Original: &original})
}

// SessionActivated returns an event: the Session has an active turn (LIFE-01).
func (f Factory) SessionActivated() Event {
	return f.turn(
		TypeSessionActivated,
		SessionActivated{TurnID: string(f.identity.Turn), InputMessageID: f.identity.InputMessage},
	)
}

// TurnStarted returns an event: the turn began, with the user's text (LIFE-01).
func (f Factory) TurnStarted(input string) Event {
	return f.turn(
		TypeTurnStarted,
		TurnStarted{TurnID: string(f.identity.Turn), InputMessageID: f.identity.InputMessage, InputContent: input},
	)
}

// TurnCompleted returns an event: the turn ended with a response (LIFE-02).
func (f Factory) TurnCompleted(data TurnCompleted) Event {
	data.TurnID = string(f.identity.Turn)
	if data.Status == "" {
		data.Status = "completed"
	}
	return f.turn(TypeTurnCompleted, data)
}

// TurnFailed returns an event: the turn ended with an error (LIFE-06).
func (f Factory) TurnFailed(data TurnFailed) Event {
	data.TurnID = string(f.identity.Turn)
	return f.turn(TypeTurnFailed, data)
}

// Budget returns an event: a change of a Budget that concerns the turn (BUDGET-03).
func (f Factory) Budget(kind, name, message string) Event {
	return f.turn(kind, Budget{TurnID: string(f.identity.Turn), Budget: name, Message: message})
}

// SessionIdled returns an event: the Session has no active turn any more (LIFE-04, LIFE-06).
func (f Factory) SessionIdled(data SessionIdled) Event {
	data.TurnID = string(f.identity.Turn)
	return f.turn(TypeSessionIdled, data)
}

// OutputMessage returns an event: the user received a message outside of any model call: a prompt that was blocked, a
// missing dependency (LIFE-09, LIFE-10).
func (f Factory) OutputMessage(data OutputMessageCompleted) Event {
	data.Message.Metadata = encodable(data.Message.Metadata)
	return f.turn(TypeOutputMessageCompleted, data)
}

// Step builds the events of one run of a reason or act step (PHASE-09). The run's id is the step's number and the
// attempt's, so that two processes that report one run use the same spans.
func (f Factory) Step(step, attempt int32) Step {
	exec := ExecID(step, attempt)
	return Step{factory: f, exec: exec, span: StepSpan(f.identity.Turn, exec)}
}

// ExecID is the id of one run of a step of a turn: `<step>-<attempt>`.
func ExecID(step, attempt int32) string {
	return strconv.Itoa(int(step)) + "-" + strconv.Itoa(int(attempt))
}

// Step builds the events of one run of a reason or act step. Their trace is the turn, their span a child of the turn's;
// the span of a tool call is a child of its act step's (TOOL-11).
type Step struct {
	factory Factory
	exec    string
	span    string
}

// At builds events of one given time.
func (s Step) At(t time.Time) Step {
	s.factory = s.factory.At(t)
	return s
}

// ReasonStarted returns an event: a reason step began.
func (s Step) ReasonStarted(data ReasonStarted) Event {
	return s.step(TypeReasonStarted, data)
}

// TranscriptRepaired returns an event: a tool call received a result for the prompt (DUR-08).
func (s Step) TranscriptRepaired(data TranscriptRepaired) Event {
	return s.step(TypeTranscriptRepaired, data)
}

// OutputMessageStarted returns an event: the model began to respond.
func (s Step) OutputMessageStarted(data OutputMessageStarted) Event {
	data.TurnID = string(s.factory.identity.Turn)
	return s.step(TypeOutputMessageStarted, data)
}

// LLMGeneration returns an event: a call of a provider ended.
func (s Step) LLMGeneration(data LLMGeneration) Event {
	return s.step(TypeLLMGeneration, data)
}

// OutputMessageCompleted returns an event: the response is complete. Metadata without a JSON form is replaced by a
// sentence.
func (s Step) OutputMessageCompleted(data OutputMessageCompleted) Event {
	data.Message.Metadata = encodable(data.Message.Metadata)
	return s.step(TypeOutputMessageCompleted, data)
}

// ReasonRecovered returns an event: an earlier process had begun to receive the response (PART-02).
func (s Step) ReasonRecovered(data ReasonRecovered) Event {
	return s.step(TypeReasonRecovered, data)
}

// ReasonCompleted returns an event: a reason step ended.
func (s Step) ReasonCompleted(data ReasonCompleted) Event {
	return s.step(TypeReasonCompleted, data)
}

// ActStarted returns an event: an act step began.
func (s Step) ActStarted(data ActStarted) Event {
	return s.step(TypeActStarted, data)
}

// ActCompleted returns an event: an act step ended.
func (s Step) ActCompleted(data ActCompleted) Event {
	return s.step(TypeActCompleted, data)
}

// ToolCallRequested returns an event: the client's results are requested (TOOL-17).
func (s Step) ToolCallRequested(data ToolCallRequested) Event {
	return s.step(TypeToolCallRequested, data)
}

// ToolStarted returns an event: a tool call was started.
func (s Step) ToolStarted(data ToolStarted) Event {
	return s.tool(TypeToolStarted, data.ToolCall.ID, data)
}

// ToolProgress returns a live event: a running tool call has made progress (CTX-03).
func (s Step) ToolProgress(data ToolProgress) Event {
	return s.tool(TypeToolProgress, data.ToolCallID, data)
}

// ToolContext returns the context of the events of a tool call of this step, for live events that have no data here
// (CTX-04).
func (s Step) ToolContext(call string) map[string]string {
	return s.context(ToolSpan(s.factory.identity.Turn, s.exec, call), s.span)
}

// SubAgent returns an event of the sub-agent that a tool call runs as.
func (s Step) SubAgent(kind string, data SubAgent) Event {
	return s.tool(kind, data.ToolCallID, data)
}

// ToolCompleted returns an event: a tool call has its result. It generates the fence after the tool has written all its
// output.
func (s Step) ToolCompleted(data ToolCompleted) Event {
	data.Fence = NewFence()
	return s.tool(TypeToolCompleted, data.ToolCallID, data)
}

// ToolRateLimited returns an event: a tool call was refused by a rate limit. It generates the fence.
func (s Step) ToolRateLimited(data ToolRateLimited) Event {
	data.Fence = NewFence()
	return s.tool(TypeToolRateLimited, data.ToolCallID, data)
}

// TraceParent returns the W3C traceparent of a tool call of this step, for the tool's own spans.
func (s Step) TraceParent(call string) string {
	turn := s.factory.identity.Turn
	return s.trace().TraceParent(ToolSpan(turn, s.exec, call))
}

// ModelTraceParent returns the W3C traceparent of the n-th model call of this step, counted from 0.
func (s Step) ModelTraceParent(n int) string {
	return s.trace().TraceParent(ModelSpan(s.factory.identity.Turn, s.exec, n))
}

// trace is that of the turn.
func (s Step) trace() Trace {
	return TraceOf(s.factory.identity.Turn, s.factory.identity.TraceParent)
}

func (s Step) step(kind string, data any) Event {
	return s.factory.build(kind, s.context(s.span, TurnSpan(s.factory.identity.Turn)), data)
}

func (s Step) tool(kind, call string, data any) Event {
	e := s.factory.build(kind, s.ToolContext(call), data)
	e.Subject = call
	return e
}

func (s Step) context(span, parent string) map[string]string {
	context := s.factory.context()
	context[ContextExec] = s.exec
	context[ContextTrace] = string(s.factory.identity.Turn)
	context[ContextSpan] = span
	context[ContextParentSpan] = parent
	return context
}

// turn is the context of lifecycle events: turn and input message, no execution, no span (LIFE-01 to LIFE-10).
func (f Factory) turn(kind string, data any) Event {
	return f.build(kind, f.context(), data)
}

func (f Factory) context() map[string]string {
	context := map[string]string{ContextTurn: string(f.identity.Turn)}
	if f.identity.InputMessage != "" {
		context[ContextInputMessage] = f.identity.InputMessage
	}
	return context
}

func (f Factory) build(kind string, context map[string]string, data any) Event {
	return Event{
		Type:    kind,
		Time:    MicroTime(f.clock()),
		Context: context,
		Data:    &v1alpha1.JSON{Raw: encode(data)},
	}
}

// MicroTime returns a time in the form of the journal: UTC, in microseconds.
func MicroTime(t time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(t.UTC().Truncate(time.Microsecond))
}

// Envelope is an event as a reader of a Session's stream sees it (EVT-02).
type Envelope struct {
	ID        string            `json:"id"`
	Type      string            `json:"type"`
	TS        string            `json:"ts"`
	SessionID string            `json:"session_id"`
	Sequence  int64             `json:"sequence"`
	Context   map[string]string `json:"context"`
	Data      *v1alpha1.JSON    `json:"data,omitempty"`
}

// Envelope adds the Session and the sequence number, which follows from its position, to an event of the journal. The
// time is in milliseconds.
func (f Factory) Envelope(e Event, sequence int64) Envelope {
	context := e.Context
	if context == nil {
		context = map[string]string{}
	}
	return Envelope{
		ID:        e.ID,
		Type:      e.Type,
		TS:        e.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		SessionID: string(f.identity.Session),
		Sequence:  sequence,
		Context:   context,
		Data:      e.Data,
	}
}
