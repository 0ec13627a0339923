package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// OutputMessageDelta is the data of output.message.delta. A client that joins while a response streams gets the text so
// far as one delta with the offset 0, and then only what is new. A client that reads slowly gets fewer and longer
// deltas.
type OutputMessageDelta struct {
	// MessageID is the id that the message has when it is complete.
	MessageID string `json:"message_id"`
	// Offset of the text in the message, in bytes. With 0 the text before, if any, is not the response.
	Offset int64 `json:"offset"`
	// Text that has arrived.
	Text string `json:"text"`
}

// OutputMessageReplaced is the data of output.message.replaced.
type OutputMessageReplaced struct {
	// MessageID is that of the deltas.
	MessageID string `json:"message_id"`
}

// ToolProgress is the data of tool.progress.
type ToolProgress struct {
	ToolCallID  string `json:"tool_call_id"`
	ToolName    string `json:"tool_name"`
	DisplayName string `json:"display_name,omitempty"`
	// Message of the tool. It is text of the tool, which may be empty.
	Message string `json:"message,omitempty"`
	// Progress increases from event to event of a call. Total is its value at the end; 0 if it is unknown.
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
}

// StreamStderr is the stream of a ToolOutputDelta that a tool writes to while it runs.
const StreamStderr = "stderr"

// ToolOutputDelta is the data of tool.output.delta: output of a tool that is not its result. A client that joins, or
// reads slowly, gets the end of it.
type ToolOutputDelta struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	// Attempt of the call, from 1. Another attempt writes other output.
	Attempt int32 `json:"attempt,omitempty"`
	// Stream is where the tool has written it: stderr.
	Stream string `json:"stream"`
	// Offset of the delta in the output of the attempt, in bytes. Behind the end of the delta before, some was left out.
	Offset int64 `json:"offset"`
	// Delta is the text: the bytes of the tool, in which U+FFFD replaces invalid UTF-8.
	Delta string `json:"delta"`
}

// TurnState is the data of turn.state: what the status of the Turn shows.
type TurnState struct {
	// Phase of the Turn, as in its status; empty before the manager has seen it.
	Phase v1alpha1.TurnPhase `json:"phase,omitempty"`
	// Step that is open.
	Step int32 `json:"step,omitempty"`
	// Waits are the things that the Turn waits for.
	Waits []TurnWait `json:"waits,omitempty"`
	// ToolCalls of the newest step with tool calls.
	ToolCalls []ToolCallState `json:"tool_calls,omitempty"`
}

// TurnWait is one thing that a Turn waits for.
type TurnWait struct {
	// Type and Reason of the wait, as in the status of the Turn.
	Type   v1alpha1.WaitType `json:"type"`
	Reason string            `json:"reason,omitempty"`
	// Message explains the wait.
	Message string `json:"message,omitempty"`
	// Until is when the wait ends by itself; nil if it does not.
	Until *metav1.MicroTime `json:"until,omitempty"`
}

// ToolCallState is the state of a tool call.
type ToolCallState struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// State of the call and its reason, as in the status of the Turn.
	State   v1alpha1.ToolCallState `json:"state"`
	Reason  string                 `json:"reason,omitempty"`
	Attempt int32                  `json:"attempt,omitempty"`
}

// StreamSynced is the data of stream.synced.
type StreamSynced struct {
	// UID of the Session.
	UID types.UID `json:"uid"`
	// Sequence of the last durable event that was sent; 0 if the Session has none.
	Sequence int64 `json:"sequence"`
}

// Reasons of StreamEnded.
const (
	// EndedSessionDeleted: the Session was deleted. There are no more events.
	EndedSessionDeleted = "SessionDeleted"
	// EndedUnauthorized: the credentials are not valid any more. Connect again with new ones.
	EndedUnauthorized = "Unauthorized"
	// EndedForbidden: the right to get sessions/events was taken away.
	EndedForbidden = "Forbidden"
	// EndedShutdown: the manager ends, or is not the leader any more. Connect again.
	EndedShutdown = "Shutdown"
	// EndedSequenceUnknown: the Session has no event of the sequence number after which the client continues. It may be
	// another Session of the same name.
	EndedSequenceUnknown = "SequenceUnknown"
	// EndedJournal: the journal of the Session cannot be read.
	EndedJournal = "JournalUnreadable"
)

// StreamEnded is the data of stream.ended.
type StreamEnded struct {
	// Reason is one of the Ended constants or a later one.
	Reason string `json:"reason"`
	// Message for people.
	Message string `json:"message,omitempty"`
}
