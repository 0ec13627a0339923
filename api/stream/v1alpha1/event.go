package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is one event of a Session.
type Event struct {
	// Type of the event, one of the Type constants or a later one.
	Type string `json:"type"`
	// ID of a durable event, unique in its Session.
	ID string `json:"id,omitempty"`
	// Sequence of a durable event in its Session, from 1, without gaps. It orders the events, and is where a client
	// continues. 0 for a live event.
	Sequence int64 `json:"sequence,omitempty"`
	// Live marks an event that no journal has. It is sent to those who are connected when it happens, and may be left
	// out for a client that reads slowly.
	Live bool `json:"live,omitempty"`
	// Time at which the event happened.
	Time metav1.MicroTime `json:"time"`
	// Session that the event belongs to.
	Session Session `json:"session"`
	// Turn that the event belongs to; nil for an event of the stream itself.
	Turn *Turn `json:"turn,omitempty"`
	// Step of the Turn that the event was recorded with; 0 for a live event.
	Step int32 `json:"step,omitempty"`
	// Context names the run of a step and the trace spans that the event belongs to: exec_id, trace_id, span_id,
	// parent_span_id, turn_id, input_message_id.
	Context map[string]string `json:"context,omitempty"`
	// Data of the event, by its type.
	Data json.RawMessage `json:"data,omitempty"`
}

// Session names a Session.
type Session struct {
	// Namespace and Name of the Session.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID of the Session: one that is created again under the name has other events.
	UID types.UID `json:"uid,omitempty"`
}

// Turn names a Turn.
type Turn struct {
	// Name of the Turn.
	Name string `json:"name"`
	// UID of the Turn.
	UID types.UID `json:"uid"`
}

// Decode reads the data of an event into the struct of its type.
func Decode[T any](e Event) (T, error) {
	var data T
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return data, fmt.Errorf("reading the data of the event %s: %w", e.Type, err)
	}
	return data, nil
}

// Durable types of events. A Session has them in this order: message, start of the Turn, steps, end of the Turn.
const (
	// TypeInputMessage: the message of a user was added to the conversation.
	TypeInputMessage = "input.message"
	// TypeSessionActivated: the Session has an active Turn.
	TypeSessionActivated = "session.activated"
	// TypeSessionIdled: the Session has no active Turn any more.
	TypeSessionIdled = "session.idled"
	// TypeTurnStarted: a Turn began.
	TypeTurnStarted = "turn.started"
	// TypeTurnCompleted: a Turn ended with a response.
	TypeTurnCompleted = "turn.completed"
	// TypeTurnFailed: a Turn ended with an error, or was cancelled.
	TypeTurnFailed = "turn.failed"
	// TypeReasonStarted: a model was about to be called.
	TypeReasonStarted = "reason.started"
	// TypeReasonCompleted: the step of a model call ended, with a response or with an error.
	TypeReasonCompleted = "reason.completed"
	// TypeReasonRecovered: an earlier process had begun to receive the response.
	TypeReasonRecovered = "reason.recovered"
	// TypeOutputMessageStarted: the model began to respond.
	TypeOutputMessageStarted = "output.message.started"
	// TypeOutputMessageCompleted: the response is complete.
	TypeOutputMessageCompleted = "output.message.completed"
	// TypeLLMGeneration: a call of a provider ended, with its usage.
	TypeLLMGeneration = "llm.generation"
	// TypeTranscriptRepaired: a tool call without a result received one for the prompt.
	TypeTranscriptRepaired = "transcript.repaired"
	// TypeContextCompacting: the conversation is about to be compacted.
	TypeContextCompacting = "context.compacting"
	// TypeContextCompacted: the conversation was compacted. Later prompts begin with the summary; the events before stay.
	TypeContextCompacted = "context.compacted"
	// TypeActStarted: the tool calls of a response began.
	TypeActStarted = "act.started"
	// TypeActCompleted: the tool calls of a response ended.
	TypeActCompleted = "act.completed"
	// TypeToolStarted: a tool call was started.
	TypeToolStarted = "tool.started"
	// TypeToolCompleted: a tool call has its result.
	TypeToolCompleted = "tool.completed"
	// TypeToolRateLimited: a tool call was refused by callsPerMinute of its Tool or MCPServer, and has no other event.
	TypeToolRateLimited = "tool.rate_limited"
	// TypeToolCallRequested: results of tool calls are requested from the client of the Session.
	TypeToolCallRequested = "tool.call_requested"
	// TypeSubAgentSpawned: a tool call was started as a sub-agent.
	TypeSubAgentSpawned = "subagent.spawned"
	// TypeSubAgentCompleted: a sub-agent has returned a result.
	TypeSubAgentCompleted = "subagent.completed"
	// TypeSubAgentFailed: a sub-agent has ended without a result.
	TypeSubAgentFailed = "subagent.failed"
	// TypeSubAgentCancelled: a sub-agent was cancelled.
	TypeSubAgentCancelled = "subagent.cancelled"
	// TypeBudgetWarning: a fifth of the limit of a Budget or less is left.
	TypeBudgetWarning = "budget.warning"
	// TypeBudgetPaused: the turn waited for a Budget.
	TypeBudgetPaused = "budget.paused"
	// TypeBudgetExhausted: the next model call did not fit into the rest of a Budget.
	TypeBudgetExhausted = "budget.exhausted"
	// TypeBudgetResumed: the turn continued after it had waited for a Budget.
	TypeBudgetResumed = "budget.resumed"
)

// Live types of events.
const (
	// TypeOutputMessageDelta: more text of a response has arrived.
	TypeOutputMessageDelta = "output.message.delta"
	// TypeOutputMessageReplaced: the text of the deltas so far is not the response. The model is called again.
	TypeOutputMessageReplaced = "output.message.replaced"
	// TypeToolProgress: a running tool call has made progress.
	TypeToolProgress = "tool.progress"
	// TypeToolOutputDelta: a running tool has written output.
	TypeToolOutputDelta = "tool.output.delta"
	// TypeTurnState: the status of a Turn has changed. The first one shows the Turn as it is when a client joins.
	TypeTurnState = "turn.state"
	// TypeStreamSynced: the client has received all durable events that existed when it joined.
	TypeStreamSynced = "stream.synced"
	// TypeStreamEnded: the stream ends after this event.
	TypeStreamEnded = "stream.ended"
)
