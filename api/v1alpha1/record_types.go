package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecordType is what a Record is in its store.
// +kubebuilder:validation:Enum=Index;Blob
type RecordType string

const (
	// RecordTypeIndex is the list of the keys of a store, with small values. A store has one, which changes.
	RecordTypeIndex RecordType = "Index"
	// RecordTypeBlob is one larger value, or a page of the index of a store with many keys. It never changes.
	RecordTypeBlob RecordType = "Blob"
)

// RecordSpec is a part of a store.
// +kubebuilder:validation:XValidation:rule="self == oldSelf || (oldSelf.type == 'Index' && self.type == 'Index' && has(self.session) == has(oldSelf.session) && (!has(self.session) || self.session == oldSelf.session) && (!has(self.mcpServer) || (has(oldSelf.mcpServer) && self.mcpServer == oldSelf.mcpServer)) && (!has(self.secret) || (has(oldSelf.secret) && self.secret == oldSelf.secret)) && self.store == oldSelf.store && self.revision == oldSelf.revision + 1)",message="a blob cannot be changed, and an index only to its next revision."
// +kubebuilder:validation:XValidation:rule="(self.type == 'Index') == has(self.revision)",message="an index has a revision, and a blob has none."
// +kubebuilder:validation:XValidation:rule="[has(self.session), has(self.mcpServer), has(self.secret)].exists_one(set, set)",message="exactly one of session, mcpServer and secret must be set."
type RecordSpec struct {
	// session is the name of the Session that the store belongs to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Session string `json:"session,omitempty"`
	// mcpServer is the name of the MCPServer that the store belongs to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MCPServer string `json:"mcpServer,omitempty"`
	// secret is the name of the Secret that the store belongs to, such as a wallet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
	// store is the name of the store, such as files.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Store string `json:"store"`
	// type is what the Record is in its store: Index or Blob.
	// +required
	Type RecordType `json:"type"`
	// revision counts the changes of the store, from 1. Only an index has it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`
	// format is the version of the payload's form. A manager that does not support the format does not use the store.
	// +required
	// +kubebuilder:validation:Minimum=1
	Format int32 `json:"format"`
	// payload is the keys of an index or of a page of it, as JSON, or the value of a blob. It is compressed with gzip and
	// encoded in base64.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=720896
	Payload string `json:"payload"`
}

// Record is a part of what a service of a Session stores: the index of a store, or a value of it. The files of a
// Session are Records, for example, and so are the definitions of the tools of an MCPServer. Only the manager writes
// Records, and they are deleted with their Session, MCPServer or Secret.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.session`
// +kubebuilder:printcolumn:name="MCPServer",type=string,JSONPath=`.spec.mcpServer`,priority=1
// +kubebuilder:printcolumn:name="Store",type=string,JSONPath=`.spec.store`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Record struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the content of the Record.
	// +required
	Spec RecordSpec `json:"spec"`
}

// RecordList is a list of Records.
//
// +kubebuilder:object:root=true
type RecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Record `json:"items"`
}
