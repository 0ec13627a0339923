package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TurnReference names a Turn in the same namespace, and optionally one exact object of that name.
type TurnReference struct {
	// name of the Turn.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// uid of the Turn. With it, the ToolResult does not apply to a Turn that was deleted and created again under the
	// name. A decision requires it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid,omitempty"`
}

// Decision is the decision about a call that waits for approval.
// +kubebuilder:validation:Enum=Approve;Reject
type Decision string

const (
	// DecisionApprove lets the call start.
	DecisionApprove Decision = "Approve"
	// DecisionReject ends the call before it starts.
	DecisionReject Decision = "Reject"
)

// ToolResultSpec is the result of one call of a client tool, the decision about one call that waits for approval, or
// the answer to one question of a tool. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a ToolResult cannot be changed. Create one with a new name."
// +kubebuilder:validation:XValidation:rule="[has(self.result), has(self.error), has(self.decision), has(self.input)].exists_one(given, given)",message="exactly one of result, error, decision and input must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.decision) || (has(self.turnRef.uid) && size(self.turnRef.uid) > 0 && has(self.callDigest))",message="a decision requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of the call in its status.toolCalls."
// +kubebuilder:validation:XValidation:rule="has(self.decision) || !has(self.turnSubmittedBy)",message="turnSubmittedBy is for decisions."
// +kubebuilder:validation:XValidation:rule="has(self.turnSubmittedBy) || !has(self.turnSteeredBy)",message="turnSteeredBy is for decisions with turnSubmittedBy."
// +kubebuilder:validation:XValidation:rule="!has(self.input) || (has(self.turnRef.uid) && size(self.turnRef.uid) > 0 && has(self.callDigest))",message="input requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of the call in its status.toolCalls."
// +kubebuilder:validation:XValidation:rule="has(self.decision) || has(self.input) || !has(self.callDigest)",message="callDigest is for decisions and input."
// +kubebuilder:validation:XValidation:rule="!has(self.input) || has(self.submittedBy)",message="input requires submittedBy, your own user name (kubectl auth whoami)."
// +kubebuilder:validation:XValidation:rule="!has(self.decision) || has(self.submittedBy)",message="a decision requires submittedBy, your own user name (kubectl auth whoami)."
// +kubebuilder:validation:XValidation:rule="!has(self.reason) || (has(self.decision) && self.decision == 'Reject')",message="reason is for the decision Reject."
type ToolResultSpec struct {
	// turnRef names the Turn that waits.
	// +required
	TurnRef TurnReference `json:"turnRef"`
	// callID is the id of the call, as status.toolCalls of the Turn names it.
	// +required
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,9}-(0|[1-9][0-9]{0,3})$`
	// +kubebuilder:validation:MaxLength=15
	CallID string `json:"callID"`
	// result of the call: text of at most 100 KiB, truncated at 64 KiB before the model reads it. It may be empty. Text
	// that is a JSON array of MCP content blocks with an image is shown to the model as texts and images. It requires
	// the verb answer on toolresults in the namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=102400
	Result *string `json:"result,omitempty"`
	// error tells the model why there is no result.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Error *string `json:"error,omitempty"`
	// decision about a call that waits for approval: Approve lets it start, Reject ends it without execution. It
	// requires the verb approve on toolresults in the namespace.
	// +optional
	Decision Decision `json:"decision,omitempty"`
	// reason tells the model why the call is rejected. It is for the decision Reject.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// input answers a question of a tool, which status.toolCalls of the Turn has in input.requests. It requires the verb
	// answer on toolresults in the namespace.
	// +optional
	Input *InputAnswer `json:"input,omitempty"`
	// callDigest is the digest of the call to decide about, as in status.toolCalls of the Turn. A decision requires it,
	// and so does input. A decision applies only to this call: with these arguments, and with the Tool as it was when
	// the model called it. Input applies only to the questions that the call shows with this digest.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	CallDigest string `json:"callDigest,omitempty"`
	// submittedBy is the user who provides the result, the decision or the input. It must be the name of the user who
	// creates the ToolResult. A decision requires it, and so does input.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SubmittedBy string `json:"submittedBy,omitempty"`
	// turnSubmittedBy is spec.submittedBy of the Turn, for decisions. A decision that names another user than the Turn
	// is refused. The four-eyes policy requires it: a user who submitted a Turn must not approve its calls.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TurnSubmittedBy string `json:"turnSubmittedBy,omitempty"`
	// turnSteeredBy is status.steeredBy of the Turn, for approvals with turnSubmittedBy. An approval that names other
	// users than the Turn is refused. The four-eyes policy requires it of Turns that have it: a user whose message was
	// steered into a Turn must not approve its calls.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	TurnSteeredBy []string `json:"turnSteeredBy,omitempty"`
}

// ToolResultStatus is the observed state of a ToolResult.
type ToolResultStatus struct {
	// conditions of the object. Accepted is True once the Turn has accepted the result, False once the result is
	// refused, and Unknown while it waits for its Turn. For kstatus, Reconciling is True while it waits, and Stalled is
	// True once it is refused.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// turnUID is the UID of the Turn that accepted or refused this ToolResult, which is deleted with that Turn.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	TurnUID types.UID `json:"turnUID,omitempty"`
}

// ToolResult is the result of a call of a client tool, the decision about a call that requires approval, or the answer
// to a question of a tool, for which a Turn waits.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Turn",type=string,JSONPath=`.spec.turnRef.name`
// +kubebuilder:printcolumn:name="Call",type=string,JSONPath=`.spec.callID`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.decision`,priority=1
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Submitted By",type=string,JSONPath=`.spec.submittedBy`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ToolResult struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the result, the decision or the answer.
	// +required
	Spec ToolResultSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ToolResultStatus `json:"status,omitempty"`
}

// ToolResultList is a list of ToolResults.
//
// +kubebuilder:object:root=true
type ToolResultList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ToolResult `json:"items"`
}
