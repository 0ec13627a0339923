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

// JournalEntrySpec is one immutable entry of a Session's journal.
//
// Fields beside these are kept: entries of format 1 have their content there.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a journal entry cannot be changed."
// +kubebuilder:pruning:PreserveUnknownFields
type JournalEntrySpec struct {
	// session is the name of the Session.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Session string `json:"session"`
	// ordinal is the position in the journal, from 1, without gaps.
	// +required
	// +kubebuilder:validation:Minimum=1
	Ordinal int64 `json:"ordinal"`
	// format is the version of the payload's form; an entry without it has format 1. A manager that does not support the
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
	// payload is the content of the entry, in the form that format names: events, tool calls, results, and the new
	// progress of the Turn. From format 3 on it is a string, compressed with gzip and encoded in base64.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Payload *JSON `json:"payload,omitempty"`
}

// JournalEntry is one immutable entry of a Session's journal. Only the manager writes entries.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
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
