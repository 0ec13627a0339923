package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DesiredState is the state that the user requests for a Turn.
// +kubebuilder:validation:Enum=Running;Cancelled
type DesiredState string

const (
	// DesiredStateRunning lets the Turn run to its end.
	DesiredStateRunning DesiredState = "Running"
	// DesiredStateCancelled ends the Turn as soon as possible.
	DesiredStateCancelled DesiredState = "Cancelled"
)

// Delivery is how a message reaches the model.
// +kubebuilder:validation:Enum=Queue;Steer
type Delivery string

const (
	// DeliveryQueue makes the message wait for the Turns before it and run as a Turn of its own. It is the default.
	DeliveryQueue Delivery = "Queue"
	// DeliverySteer adds the message to the running Turn.
	DeliverySteer Delivery = "Steer"
)

// TurnControls are settings of one message.
type TurnControls struct {
	// modelRef names the Model for this Turn. It takes precedence over the configuration layers. A Model that
	// does not exist is skipped.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// locale is the response language for this message, as a BCP 47 tag such as de-CH. It takes precedence over that of
	// the Session. The model is told about it, and tools find it in CAPSTAN_LOCALE.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`
	Locale string `json:"locale,omitempty"`

	// reasoningEffort is how much the model thinks before it responds to this message: None, Low, Medium or High. It
	// takes precedence over spec.parameters of the Model and of its fallbacks. Models that cannot be told how much to
	// think ignore it. Default: that of the Model.
	// +optional
	ReasoningEffort ReasoningEffort `json:"reasoningEffort,omitempty"`
}

// TurnSpec is one user message. It is immutable, except for desiredState, which can be set to Cancelled, suspend and
// ttlSecondsAfterFinished.
// +kubebuilder:validation:XValidation:rule="has(self.input) != has(self.message)",message="exactly one of input, for text, and message, for text and images, must be set."
// +kubebuilder:validation:XValidation:rule="self.sessionRef == oldSelf.sessionRef",message="sessionRef cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.input) == has(oldSelf.input) && (!has(self.input) || self.input == oldSelf.input)",message="input cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.message) == has(oldSelf.message) && (!has(self.message) || self.message == oldSelf.message)",message="message cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.controls) == has(oldSelf.controls) && (!has(self.controls) || self.controls == oldSelf.controls)",message="controls cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="self.delivery == oldSelf.delivery",message="delivery cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.submittedBy) == has(oldSelf.submittedBy) && (!has(self.submittedBy) || self.submittedBy == oldSelf.submittedBy)",message="submittedBy cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="self.?activeDeadlineSeconds == oldSelf.?activeDeadlineSeconds",message="activeDeadlineSeconds cannot be changed. Set desiredState to Cancelled to end the Turn now."
// +kubebuilder:validation:XValidation:rule="has(self.waitTimeout) == has(oldSelf.waitTimeout) && (!has(self.waitTimeout) || self.waitTimeout == oldSelf.waitTimeout)",message="waitTimeout cannot be changed. Set desiredState to Cancelled to end the Turn now."
// +kubebuilder:validation:XValidation:rule="oldSelf.?desiredState.orValue('unset') != 'Cancelled' || self.?desiredState.orValue('unset') == 'Cancelled'",message="a cancelled Turn cannot run again. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.traceParent) == has(oldSelf.traceParent) && (!has(self.traceParent) || self.traceParent == oldSelf.traceParent)",message="traceParent cannot be changed. Create a Turn with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.origin) == has(oldSelf.origin) && (!has(self.origin) || self.origin == oldSelf.origin)",message="origin cannot be changed."
// +kubebuilder:validation:XValidation:rule="!self.?suspend.orValue(false) || self.delivery != 'Steer'",message="a message with delivery Steer cannot be suspended. Use delivery Queue, or send it when it is due."
type TurnSpec struct {
	// sessionRef names the Session that the message belongs to.
	// +required
	SessionRef LocalReference `json:"sessionRef"`

	// input is the user's message, as text of at most 64 KiB. Exactly one of input and message is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Input string `json:"input,omitempty"`

	// message is the user's message in parts, for texts and images. A message with a single text is equivalent to that
	// text as input.
	// +optional
	Message *TurnMessage `json:"message,omitempty"`

	// controls are settings of this message.
	// +optional
	Controls *TurnControls `json:"controls,omitempty"`

	// delivery is Queue (default) or Steer. With Steer the message goes into the running Turn: its next model call
	// reads it, and its waits for results of client tools and for approvals are abandoned. This Turn then ends with
	// reason Steered, and the running Turn has the response. If no Turn is running, or the running one ends without
	// another model call, the message is queued like any other.
	// +optional
	// +kubebuilder:default=Queue
	Delivery Delivery `json:"delivery,omitempty"`

	// desiredState is Running (default) or Cancelled. A Turn that is Cancelled cannot be set to run again.
	// +optional
	// +kubebuilder:default=Running
	DesiredState DesiredState `json:"desiredState,omitempty"`

	// suspend keeps a Turn that has not begun from being admitted until it is false or removed. It keeps its place in
	// the queue of the Session; later Turns are admitted in the meantime. It has no effect on an admitted Turn: set
	// desiredState to Cancelled to end it. Default: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// submittedBy is the user who sends the message. It must be the name of the user who creates the Turn. The
	// four-eyes policy for approvals requires it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SubmittedBy string `json:"submittedBy,omitempty"`

	// traceParent is the W3C trace context that the trace of the Turn continues, as in the header traceparent, such as
	// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. With the flags 00 no spans of the Turn are exported. It has
	// no effect on a message that is steered into another Turn. Default: the Turn has a trace of its own, whose id is the
	// UID of the Turn without hyphens.
	// +optional
	// +kubebuilder:validation:MaxLength=55
	// +kubebuilder:validation:Pattern=`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('00-00000000000000000000000000000000') && !self.contains('-0000000000000000-')",message="a trace id or a span id of zeros is invalid. Leave traceParent out to start a new trace."
	TraceParent string `json:"traceParent,omitempty"`

	// origin is why the manager has created the Turn. Only the manager sets it.
	// +optional
	Origin *TurnOrigin `json:"origin,omitempty"`

	// activeDeadlineSeconds is how long the Turn may take from its admission to its end, in seconds, up to a year,
	// waits included. A Turn that takes longer is ended: its tools are stopped, and it fails with reason
	// DeadlineExceeded. The time in the queue does not count. Default: no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// waitTimeout is how long each wait of the Turn for ToolResults may take, such as 30m, 1s to 8760h. A Turn that waits
	// longer fails with reason WaitTimeout. Default: it waits for as long as activeDeadlineSeconds allows.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('8760h'))",message="waitTimeout must be between 1s and 8760h."
	// +kubebuilder:validation:Type=string
	WaitTimeout *metav1.Duration `json:"waitTimeout,omitempty"`

	// ttlSecondsAfterFinished is how long the Turn is kept after its end, in seconds, up to ten years. The conversation
	// stays in the Session's journal. It can be changed. Default: the turnTTL of the Session; without that, the Turn is
	// kept. Do not set it where a GitOps tool would create the Turn again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// TurnStatus is the observed state of a Turn: a projection of the Session's journal.
type TurnStatus struct {
	// conditions of the object. Succeeded (Unknown, then True with the stop reason or False with the error's reason),
	// Finished (True on both outcomes), WaitingForToolResults, and for kstatus Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// sessionUID is the UID of the Session that admitted the Turn. The Turn is deleted with that Session: a Session
	// created again under the name is another conversation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	SessionUID types.UID `json:"sessionUID,omitempty"`

	// steeredInto is the Turn that received this Turn's message.
	// +optional
	SteeredInto *TurnReference `json:"steeredInto,omitempty"`

	TurnProgress `json:",inline"`
}

// Turn is one user message and its processing: model calls and tool calls, up to the final response.
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
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.summary.cost[0].amount`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.summary.cost[0].currency`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Turn has at most 63 characters."
type Turn struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the message and how it is processed.
	// +required
	Spec TurnSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1, phase: "Queued"}
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
