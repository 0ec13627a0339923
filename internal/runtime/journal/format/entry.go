package format

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Entry is one journal entry as this build works with it, whichever format it is stored in.
type Entry struct {
	// Session is the name of the Session.
	Session string `json:"session"`
	// Ordinal is the position in the journal, from 1, without gaps.
	Ordinal int64 `json:"ordinal"`
	// Time at which the entry was written.
	Time metav1.MicroTime `json:"time"`
	// Turn that the entry belongs to. A checkpoint has none.
	Turn *v1alpha1.JournalTurn `json:"turn,omitempty"`
	// Step of the Turn that the entry belongs to.
	Step int32 `json:"step,omitempty"`
	// Part numbers the entries of one writer for one step, from 0.
	Part int32 `json:"part,omitempty"`
	// Final marks the one entry that closes the step.
	Final bool `json:"final,omitempty"`

	// Parts are the ordinals of the earlier entries that belong to a final one, in order. Parts that no final entry names
	// do not count.
	Parts []int64 `json:"parts,omitempty"`
	// Digest is the SHA-256 of the Turn's message, in the entry that closes its first step.
	Digest string `json:"digest,omitempty"`
	// Events in order.
	Events []event.Event `json:"events,omitempty"`
	// Calls that the step planned.
	Calls []PlannedCall `json:"calls,omitempty"`
	// Steered are the Turns whose messages are steered into this one after the step. The messages are among the events.
	Steered []RecordedTurn `json:"steered,omitempty"`
	// Claimed is a call that is about to start.
	Claimed *ClaimedCall `json:"claimed,omitempty"`
	// Settled is the outcome of a call before the step was complete: its result, or the decision about it. It may also be
	// a question of a tool, or the answer to one.
	Settled *SettledCall `json:"settled,omitempty"`
	// Outcomes are the outcomes of calls that the manager carried out, recorded together before the step was complete.
	Outcomes []SettledCall `json:"outcomes,omitempty"`
	// Partial is a part of a response that is still streaming.
	Partial *PartialAnswer `json:"partial,omitempty"`
	// Prompt is the Turn's message after its hooks.
	Prompt *HookedPrompt `json:"prompt,omitempty"`
	// Response is a part of a response whose calls hooks look at.
	Response *HookedResponse `json:"response,omitempty"`
	// Ended has the outcomes of the hooks at the end of the Turn. The entry comes after the one that closes its last step.
	Ended *HookedEnd `json:"ended,omitempty"`
	// Context is the part of the Turn's prompts beside the messages, in the entry of a model call that is not the Turn's
	// last one.
	Context *PinnedContext `json:"context,omitempty"`
	// Compaction replaces older messages of the conversation. Only a final entry has one.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Transition is the new progress of the Turn. Only a final entry has one.
	Transition *v1alpha1.TurnProgress `json:"transition,omitempty"`
	// Checkpoint summarizes the earlier entries.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// HookRun is the outcome of one hook.
type HookRun = event.HookRun

// HookedPrompt is a message after its hooks. It is never computed again.
type HookedPrompt struct {
	// Text that stands in for that of the message; nil if the hooks have left it as it was.
	Text *string `json:"text,omitempty"`
	// Blocked is the id of the hook that has blocked the Turn; empty if none has.
	Blocked string `json:"blocked,omitempty"`
	// UserMessage is that hook's text for the user.
	UserMessage string `json:"userMessage,omitempty"`
	// Hooks that ran.
	Hooks []HookRun `json:"hooks,omitempty"`
}

// HookedEnd shows that the hooks at the end of a Turn have run. They do not run again.
type HookedEnd struct {
	// Hooks that did not allow, or have failed.
	Hooks []HookRun `json:"hooks,omitempty"`
}

// HookedResponse is a part of a response whose calls hooks look at: after a crash they look at it again, and the model
// is not called again.
type HookedResponse struct {
	// Offset of the content in bytes.
	Offset int64 `json:"offset,omitempty"`
	// Total is the size of the whole content in bytes.
	Total int64 `json:"total"`
	// Content is that of the writer of the response.
	Content []byte `json:"content,omitempty"`
}

// PinnedContext is the part of a Turn's prompts beside the messages, the same in all its steps.
type PinnedContext struct {
	// Digest identifies the content.
	Digest string `json:"digest"`
	// Content is absent if it is the one that the journal had before.
	Content []byte `json:"content,omitempty"`
}

// Compaction shortens the conversation that later prompts are made of (LLM-08). The entries before it stay as they are.
// It counts for the messages before those of its own entry.
type Compaction struct {
	// KeptFrom is the id of the first message that is kept; empty if none is.
	KeptFrom string `json:"keptFrom,omitempty"`
	// Pinned is the id of an older message that is kept as well: that of the open Turn. Empty for none.
	Pinned string `json:"pinned,omitempty"`
	// MaskedBefore is the id of a message: the tool results before it are replaced by a short note. Empty for none.
	MaskedBefore string `json:"maskedBefore,omitempty"`
	// Summary stands for the messages before KeptFrom; nil if they are left out without one, or if all are kept.
	Summary *event.Message `json:"summary,omitempty"`
}

// ContextRef is where a journal has the context that it had last.
type ContextRef struct {
	// Turn that used it last.
	Turn types.UID `json:"turn"`
	// Digest identifies the content.
	Digest string `json:"digest"`
	// Ordinal of the entry with the content.
	Ordinal int64 `json:"ordinal"`
}

// PlannedCall holds the large fields of a tool call that a reason step planned.
type PlannedCall struct {
	// ID of the call, minted by the runtime.
	ID string `json:"id"`
	// ProviderID is the model's own id of the call.
	ProviderID string `json:"providerID,omitempty"`
	// Name of the tool, as in the model's response.
	Name string `json:"name"`
	// Arguments of the model's response, byte for byte, or as hooks have rewritten them.
	Arguments string `json:"arguments,omitempty"`
	// Refusal is the error that the model receives for a call that must not start.
	Refusal string `json:"refusal,omitempty"`
	// Display is the name of the tool for people.
	Display string `json:"displayName,omitempty"`
	// Hooks that have changed, blocked or failed at the call. The model's own arguments are in its message.
	Hooks []HookRun `json:"hooks,omitempty"`
}

// ClaimedCall is the intent to start a call that must start at most once (DUR-01). Only its writer may start the call.
type ClaimedCall struct {
	// ID of the call.
	ID string `json:"id"`
	// Holder identifies the writer.
	Holder string `json:"holder"`
	// Round is the number of times that the call has asked for input before this request; 0 for its first one.
	Round int32 `json:"round,omitempty"`
	// Task is the id of the task that the call has become at its server, in a further entry of the same writer, and
	// TaskUntil the time at which it is given up.
	Task      string            `json:"task,omitempty"`
	TaskUntil *metav1.MicroTime `json:"taskUntil,omitempty"`
}

// SettledCall is the outcome of one call, recorded before the step closes: the result of a client tool (CLIENT-04), the
// outcome of a call that the manager carried out (DUR-02), or the decision about a call that needs approval.
type SettledCall struct {
	// ID of the call.
	ID string `json:"id"`
	// Source is the UID of the ToolResult with the outcome.
	Source types.UID `json:"source,omitempty"`
	// Result of the call.
	Result *string `json:"result,omitempty"`
	// Error of the call, or why the decision is to reject it.
	Error *string `json:"error,omitempty"`
	// Decision about the call.
	Decision v1alpha1.Decision `json:"decision,omitempty"`
	// By is the user who decided.
	By string `json:"by,omitempty"`
	// State is the final state of a call that the manager carried out. The call of a client tool has none.
	State v1alpha1.ToolCallState `json:"state,omitempty"`
	// Reason of the state.
	Reason string `json:"reason,omitempty"`
	// StartedAt is the time at which the call started, if it did.
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// FinishedAt is the time at which the call ended.
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// Image that the container of the call ran, with its digest.
	Image string `json:"image,omitempty"`
	// PodUID is the UID of the pod that the call ran in, as the Turn's status had it.
	PodUID types.UID `json:"podUID,omitempty"`
	// Hooks after the call that have changed the outcome, or did not allow it.
	Hooks []HookRun `json:"hooks,omitempty"`
	// Original is the beginning of what the tool returned, if hooks have changed that.
	Original string `json:"original,omitempty"`
	// SubAgent has the totals of the sub-agent that the call ran as.
	SubAgent *v1alpha1.SubAgentTotals `json:"subAgent,omitempty"`
	// Payment that was made for the call.
	Payment *event.Payment `json:"payment,omitempty"`
	// Asked is what the tool has asked. The part is not the outcome of the call then.
	Asked *AskedInput `json:"asked,omitempty"`
	// Answered is the answer to a question of the tool. The part is not the outcome of the call then.
	Answered *AnsweredInput `json:"answered,omitempty"`
}

// PartialContent is the kind of a part of a response.
type PartialContent string

const (
	// PartialContentText: more text of the response has arrived.
	PartialContentText PartialContent = "Text"
	// PartialContentDiscarded: the text of the earlier parts is not the response. The model has begun to call tools, or
	// the attempt has failed.
	PartialContentDiscarded PartialContent = "Discarded"
)

// PartialAnswer is a part of a response that is still streaming, recorded so that it survives the manager (PART-01).
type PartialAnswer struct {
	// Message identifies the attempt. Parts of one attempt belong together.
	Message string `json:"message"`
	// Model is the name of the Model that responds.
	Model string `json:"model,omitempty"`
	// Holder identifies the process that receives the response.
	Holder string `json:"holder,omitempty"`
	// Content is Text, or Discarded when the earlier text is not the response.
	Content PartialContent `json:"content"`
	// Offset is where the part begins in the response, in bytes.
	Offset int64 `json:"offset,omitempty"`
	// Text of the part, at most 64 KiB.
	Text string `json:"text,omitempty"`
}

// RecordedTurn is the journal's record of a Turn, so that its message does not run again.
type RecordedTurn struct {
	// Name of the Turn.
	Name string `json:"name"`
	// UID of the Turn.
	UID types.UID `json:"uid"`
	// Digest of the message.
	Digest string `json:"digest"`
	// SteeredInto is the Turn that the message was steered into. It is absent for a Turn that ran by itself.
	SteeredInto *v1alpha1.JournalTurn `json:"steeredInto,omitempty"`
}

// Checkpoint summarizes the entries from an ordinal to the checkpoint itself, so that a reader without a cache need not
// read them.
type Checkpoint struct {
	// From is the first ordinal that the checkpoint summarizes.
	From int64 `json:"from"`
	// Events is the number of events in the journal before the checkpoint.
	Events int64 `json:"events"`
	// Bytes is the size of the journal before the checkpoint.
	Bytes int64 `json:"bytes"`
	// Transcript holds the messages of the summarized entries: JSON, compressed with gzip.
	Transcript []byte `json:"transcript,omitempty"`
	// Turns that began in the summarized entries.
	Turns []RecordedTurn `json:"turns,omitempty"`
	// Context is where the journal before the checkpoint has the context that it had last.
	Context *ContextRef `json:"context,omitempty"`
	// Compacted reports whether a compaction is among the summarized entries. The messages are the whole conversation
	// then: none before them counts.
	Compacted bool `json:"compacted,omitempty"`
	// Conversation is the number of bytes before the checkpoint that the conversation takes; 0 for all of them.
	Conversation int64 `json:"conversation,omitempty"`
	// Images reports whether messages of the transcript name stored images.
	Images bool `json:"images,omitempty"`
}
