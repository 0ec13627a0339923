package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DesiredState is what the user wants of a Turn.
// +kubebuilder:validation:Enum=Running;Cancelled
type DesiredState string

const (
	// DesiredRunning lets the Turn run to its end.
	DesiredRunning DesiredState = "Running"
	// DesiredCancelled ends the Turn as soon as possible.
	DesiredCancelled DesiredState = "Cancelled"
)

// Delivery is when a message is given to the model.
// +kubebuilder:validation:Enum=Queue;Steer
type Delivery string

const (
	// DeliverQueue makes the message wait for the Turns before it and answers it by a Turn of its own. It is the default.
	DeliverQueue Delivery = "Queue"
	// DeliverSteer gives the message to the Turn that is running (STEER-01).
	DeliverSteer Delivery = "Steer"
)

// TurnControls are settings of one message (CFG-09).
type TurnControls struct {
	// modelRef names the Model that answers this Turn, before any that the configuration layers name (CFG-07). A Model
	// that does not exist is passed over.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// locale is the language, as a BCP 47 tag such as de-CH, that this message is to be answered in, before that of the
	// Session (CFG-08). The model is told so, and tools find it in CAPSTAN_LOCALE.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`
	Locale string `json:"locale,omitempty"`
}

// TurnSpec is one user message. It cannot be changed, but for desiredState, which can be set to Cancelled, suspend, and
// ttlSecondsAfterFinished.
// +kubebuilder:validation:XValidation:rule="has(self.input) != has(self.message)",message="exactly one of input, for text, and message, for text and images, must be set."
// +kubebuilder:validation:XValidation:rule="self.sessionRef == oldSelf.sessionRef && has(self.input) == has(oldSelf.input) && (!has(self.input) || self.input == oldSelf.input) && has(self.message) == has(oldSelf.message) && (!has(self.message) || self.message == oldSelf.message) && has(self.controls) == has(oldSelf.controls) && (!has(self.controls) || self.controls == oldSelf.controls) && self.delivery == oldSelf.delivery && has(self.submittedBy) == has(oldSelf.submittedBy) && (!has(self.submittedBy) || self.submittedBy == oldSelf.submittedBy)",message="a Turn cannot be changed once it is created, but for desiredState, suspend and ttlSecondsAfterFinished. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.activeDeadlineSeconds) == has(oldSelf.activeDeadlineSeconds) && (!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds == oldSelf.activeDeadlineSeconds) && has(self.waitTimeoutSeconds) == has(oldSelf.waitTimeoutSeconds) && (!has(self.waitTimeoutSeconds) || self.waitTimeoutSeconds == oldSelf.waitTimeoutSeconds)",message="the deadlines of a Turn cannot be changed once it is created. Set desiredState to Cancelled to end it now, or create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.desiredState) || oldSelf.desiredState != 'Cancelled' || (has(self.desiredState) && self.desiredState == 'Cancelled')",message="a cancelled Turn cannot run again. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="!has(self.suspend) || !self.suspend || self.delivery != 'Steer'",message="a message with delivery Steer cannot be suspended. Use delivery Queue, or send it when it is due."
type TurnSpec struct {
	// sessionRef names the Session that the message belongs to.
	// +required
	SessionRef LocalReference `json:"sessionRef"`

	// input is the user's message, as text of at most 64 KiB. Exactly one of input and message is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Input string `json:"input,omitempty"`

	// message is the user's message in parts, for texts and images. A message of one text is the same message as that
	// text as input.
	// +optional
	Message *TurnMessage `json:"message,omitempty"`

	// controls are settings of this message.
	// +optional
	Controls *TurnControls `json:"controls,omitempty"`

	// delivery is Queue (default) or Steer. With Steer the message goes into the Turn that is running: its next model
	// call reads it, and what it still waits for, results of client tools and approvals, is given up. This Turn then
	// ends with reason Steered, and the answer is the other one's. Where no Turn is running, or the running one ends
	// without another model call, the message is queued like any other.
	// +optional
	// +kubebuilder:default=Queue
	Delivery Delivery `json:"delivery,omitempty"`

	// desiredState is Running (default) or Cancelled. A Turn that is Cancelled cannot be set to run again.
	// +optional
	// +kubebuilder:default=Running
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// suspend keeps a Turn that has not begun from being admitted until it is false or removed. It holds its place in
	// the order of the Session, which admits the Turns behind it meanwhile. It has no effect once the Turn was
	// admitted: set desiredState to Cancelled to end that. Default: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// submittedBy is the user who sends the message. It must be the name of the user who creates the Turn. The
	// four-eyes policy for approvals needs it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SubmittedBy string `json:"submittedBy,omitempty"`

	// activeDeadlineSeconds is how long the Turn may take from its admission to its end, in seconds, up to a year,
	// waits included. A Turn that takes longer is ended: its tools are stopped, and it fails with reason
	// DeadlineExceeded. The time in the queue does not count. Default: no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// waitTimeoutSeconds is how long the Turn may wait for tool results that others must give, in seconds, up to a
	// year, each time that it waits. A Turn that waits longer fails with reason WaitTimeout. Default: it waits for as
	// long as activeDeadlineSeconds allows.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	WaitTimeoutSeconds *int64 `json:"waitTimeoutSeconds,omitempty"`

	// ttlSecondsAfterFinished is when the Turn is deleted, in seconds after its end, up to ten years. What was said
	// stays in the Session's log. It can be changed. Default: the turnTTL of the Session; without that, the Turn stays.
	// Do not set it where a GitOps tool would create the Turn again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// TurnStatus is what the manager says about a Turn: a projection of the Session's log.
type TurnStatus struct {
	// conditions: Succeeded (Unknown, then True with the stop reason or False with the error's reason), Finished (True
	// on both outcomes), WaitingForToolResults, and for kstatus Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// sessionUID is the Session that has admitted the Turn. The Turn is deleted with it: a Session that is created
	// again under the name is another conversation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	SessionUID types.UID `json:"sessionUID,omitempty"`

	// steeredInto is the Turn that the message of this one went into.
	// +optional
	SteeredInto *TurnReference `json:"steeredInto,omitempty"`

	TurnProgress `json:",inline"`
}

// Turn is one user message and everything that follows from it until the agent is idle again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.sessionRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Iteration",type=integer,JSONPath=`.status.iteration`
// +kubebuilder:printcolumn:name="Calls",type=string,JSONPath=`.status.summary.calls`
// +kubebuilder:printcolumn:name="Tokens",type=integer,JSONPath=`.status.summary.usage.totalTokens`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.model`,priority=1
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.summary.cost`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Turn has at most 63 characters."
type Turn struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the message that the user sends.
	// +required
	Spec TurnSpec `json:"spec"`
	// status is what the manager says about it.
	// +optional
	// +kubebuilder:default={phase: "Queued", conditions: {{type: "Succeeded", status: "Unknown", reason: "Queued", message: "Waiting to be admitted by the Session, which runs its Turns in the order of their creation.", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Finished", status: "False", reason: "Queued", message: "Waiting to be admitted by the Session, which runs its Turns in the order of their creation.", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reconciling", status: "True", reason: "Queued", message: "Waiting to be admitted by the Session, which runs its Turns in the order of their creation.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status TurnStatus `json:"status,omitempty"`
}

// TurnList is a list of Turns.
//
// +kubebuilder:object:root=true
type TurnList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Turn `json:"items"`
}
