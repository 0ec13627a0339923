package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// JournalTurn identifies the Turn that an entry belongs to.
type JournalTurn struct {
	// name of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
}

// JournalEvent is one event of a Session. Its sequence number follows from its position in the journal.
type JournalEvent struct {
	// id of the event, a UUIDv7.
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// type of the event, in dotted form.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type"`
	// time at which it happened.
	// +required
	Time metav1.MicroTime `json:"time"`
	// context names the turn, message, execution and spans that the event belongs to.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Context map[string]string `json:"context,omitempty"`
	// data of the event, by type.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Data *JSON `json:"data,omitempty"`
}

// PlannedCall holds the large fields of a tool call that a reason step planned.
type PlannedCall struct {
	// id of the call, minted by the runtime.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`
	// providerID is the model's own id of the call.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ProviderID string `json:"providerID,omitempty"`
	// name of the tool, as in the model's response.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// arguments of the model's response, byte for byte.
	// +optional
	Arguments string `json:"arguments,omitempty"`
	// refusal is the error that the model receives for a call that must not start.
	// +optional
	Refusal string `json:"refusal,omitempty"`
}

// ClaimedCall is the intent to start a call that must start at most once. Only its writer may start the call.
type ClaimedCall struct {
	// id of the call.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`
	// holder identifies the writer.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Holder string `json:"holder"`
}

// SettledCall is the outcome of one call, recorded before the step closes: the result of a client tool, the
// outcome of a call that the manager carried out, or the decision about a call that needs approval.
type SettledCall struct {
	// id of the call.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`
	// source is the UID of the ToolResult with the outcome.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	Source types.UID `json:"source,omitempty"`
	// result of the call.
	// +optional
	Result *string `json:"result,omitempty"`
	// error of the call.
	// +optional
	Error *string `json:"error,omitempty"`
	// decision about the call.
	// +optional
	Decision Decision `json:"decision,omitempty"`
	// by is the user who decided.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
	// state is the final state of a call that the manager carried out. The call of a client tool has none.
	// +optional
	State ToolCallState `json:"state,omitempty"`
	// reason of the state.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// startedAt is the time at which the call started, if it did.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// finishedAt is the time at which the call ended.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// image that the container of the call ran, with its digest.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// podUID is the UID of the pod that the call ran in, as the Turn's status had it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	PodUID types.UID `json:"podUID,omitempty"`
}

// PartialContent is the kind of a part of a response.
// +kubebuilder:validation:Enum=Text;Discarded
type PartialContent string

const (
	// PartialText: more text of the response has arrived.
	PartialContentText PartialContent = "Text"
	// PartialDiscarded: the text of the earlier parts is not the response. The model has begun to call tools, or the
	// attempt has failed.
	PartialContentDiscarded PartialContent = "Discarded"
)

// PartialAnswer is a part of a response that is still streaming, recorded so that it survives the manager.
type PartialAnswer struct {
	// message is the id that the complete response will have. Parts of one message belong together.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Message string `json:"message"`
	// model is the name of the Model that responds.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// holder identifies the process that receives the response.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Holder string `json:"holder,omitempty"`
	// content is Text, or Discarded when the earlier text is not the response.
	// +required
	Content PartialContent `json:"content"`
	// offset is where the part begins in the response, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Offset int64 `json:"offset,omitempty"`
	// text of the part, at most 64 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`
}

// RecordedTurn is the journal's record of a Turn, so that its message does not run again.
type RecordedTurn struct {
	// name of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
	// digest of the message.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// steeredInto is the Turn that the message went into. It is absent for a Turn that ran by itself.
	// +optional
	SteeredInto *JournalTurn `json:"steeredInto,omitempty"`
}

// JournalCheckpoint summarizes the entries from an ordinal to the checkpoint itself, so that a reader without a cache
// need not read them.
type JournalCheckpoint struct {
	// from is the first ordinal that the checkpoint summarizes.
	// +required
	From int64 `json:"from"`
	// events is the number of events in the journal before the checkpoint.
	// +required
	Events int64 `json:"events"`
	// bytes is the size of the journal before the checkpoint.
	// +required
	Bytes int64 `json:"bytes"`
	// transcript holds the messages of the summarized entries: JSON, compressed with gzip.
	// +optional
	Transcript []byte `json:"transcript,omitempty"`
	// turns that began in the summarized entries.
	// +optional
	// +listType=atomic
	Turns []RecordedTurn `json:"turns,omitempty"`
}

// JournalEntrySpec is one immutable entry of a Session's journal.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an entry of the log cannot be changed."
type JournalEntrySpec struct {
	// session is the name of the Session.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Session string `json:"session"`
	// ordinal is the position in the journal, from 1, without gaps.
	// +required
	// +kubebuilder:validation:Minimum=1
	Ordinal int64 `json:"ordinal"`
	// format is the format version of the entry; an entry without it has format 1. A manager that does not support the
	// format does not run the Session.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Format int32 `json:"format,omitempty"`
	// time at which the entry was written.
	// +required
	Time metav1.MicroTime `json:"time"`
	// turn that the entry belongs to. A checkpoint has none.
	// +optional
	Turn *JournalTurn `json:"turn,omitempty"`
	// step of the Turn that the entry belongs to.
	// +optional
	Step int32 `json:"step,omitempty"`
	// part numbers the entries of one writer for one step, from 0.
	// +optional
	Part int32 `json:"part,omitempty"`
	// final marks the one entry that closes the step.
	// +optional
	Final bool `json:"final,omitempty"`
	// parts are the ordinals of the earlier entries that belong to a final one, in order. Parts that no final entry
	// names do not count.
	// +optional
	// +listType=atomic
	Parts []int64 `json:"parts,omitempty"`
	// digest is the SHA-256 of the Turn's message, in the entry that closes its first step.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`
	// events in order.
	// +optional
	// +listType=atomic
	Events []JournalEvent `json:"events,omitempty"`
	// calls that the step planned.
	// +optional
	// +listType=atomic
	Calls []PlannedCall `json:"calls,omitempty"`
	// steered are the Turns whose messages go into this one after the step. The messages are among the events.
	// +optional
	// +listType=atomic
	Steered []RecordedTurn `json:"steered,omitempty"`
	// claimed is a call that is about to start.
	// +optional
	Claimed *ClaimedCall `json:"claimed,omitempty"`
	// settled is the outcome of a call before the step was complete: its result, or the decision about it.
	// +optional
	Settled *SettledCall `json:"settled,omitempty"`
	// outcomes are the outcomes of calls that the manager carried out, recorded together before the step was complete.
	// +optional
	// +listType=atomic
	Outcomes []SettledCall `json:"outcomes,omitempty"`
	// partial is a part of a response that is still streaming.
	// +optional
	Partial *PartialAnswer `json:"partial,omitempty"`
	// transition is the new progress of the Turn. Only a final entry has one.
	// +optional
	Transition *TurnProgress `json:"transition,omitempty"`
	// checkpoint summarizes the earlier entries.
	// +optional
	Checkpoint *JournalCheckpoint `json:"checkpoint,omitempty"`
}

// JournalEntry is one immutable entry of a Session's journal. Only the manager writes entries.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=jent
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.session`
// +kubebuilder:printcolumn:name="Ordinal",type=integer,JSONPath=`.spec.ordinal`
// +kubebuilder:printcolumn:name="Turn",type=string,JSONPath=`.spec.turn.name`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.spec.step`
// +kubebuilder:printcolumn:name="Final",type=boolean,JSONPath=`.spec.final`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type JournalEntry struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the entry.
	// +required
	Spec JournalEntrySpec `json:"spec"`
}

// JournalEntryList is a list of JournalEntries.
//
// +kubebuilder:object:root=true
type JournalEntryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []JournalEntry `json:"items"`
}
