package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ConcurrencyPolicy is what a Schedule does at a tick while Turns of earlier ticks have not ended.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// ConcurrencyPolicyAllow creates the Turn. It is the default.
	ConcurrencyPolicyAllow ConcurrencyPolicy = "Allow"
	// ConcurrencyPolicyForbid creates no Turn until the earlier one has ended.
	ConcurrencyPolicyForbid ConcurrencyPolicy = "Forbid"
	// ConcurrencyPolicyReplace cancels the earlier Turns and creates the Turn.
	ConcurrencyPolicyReplace ConcurrencyPolicy = "Replace"
)

// MaxActiveTicks is the maximum number of ticks of a Schedule whose Turns have not ended. Further ticks wait.
const MaxActiveTicks = 32

// MaxScheduleNameLength is the maximum length of the name of a Schedule: the names of its Turns begin with it.
const MaxScheduleNameLength = 45

// ScheduledTurn is the message that a Schedule sends.
// +kubebuilder:validation:XValidation:rule="has(self.input) != has(self.message)",message="exactly one of input, for text, and message, for text and images, must be set."
type ScheduledTurn struct {
	// input is the message, as text of at most 64 KiB. Exactly one of input and message is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Input string `json:"input,omitempty"`

	// message is the message in parts, for texts and images.
	// +optional
	Message *TurnMessage `json:"message,omitempty"`

	// controls are settings of the message, as in a Turn.
	// +optional
	Controls *TurnControls `json:"controls,omitempty"`

	// delivery is Queue (default) or Steer, as in a Turn: with Steer the message goes into the running Turn, if there is
	// one.
	// +optional
	// +kubebuilder:default=Queue
	Delivery Delivery `json:"delivery,omitempty"`

	// activeDeadlineSeconds is how long each Turn may take from its admission to its end, in seconds, up to a year.
	// Default: no deadline.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// waitTimeout is how long each wait of a Turn for ToolResults may take, such as 30m, 1s to 8760h. Default: as long as
	// activeDeadlineSeconds allows.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('8760h'))",message="waitTimeout must be between 1s and 8760h."
	// +kubebuilder:validation:Type=string
	WaitTimeout *metav1.Duration `json:"waitTimeout,omitempty"`
}

// SessionTemplate is the Session that a Schedule creates for each tick. Its configuration is that of its Harness and
// its Agent.
type SessionTemplate struct {
	// labels of the Session, besides those that the manager adds. Keys of capstan.dev and of app.kubernetes.io are
	// reserved.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && !k.startsWith('capstan.dev/') && !k.startsWith('app.kubernetes.io/'))",message="labels of capstan.dev and of app.kubernetes.io are reserved."
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$') && self[k].matches('^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$'))",message="labels must have valid keys and values."
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// harnessRef names the Harness that the Session is built on.
	// +required
	HarnessRef LocalReference `json:"harnessRef"`

	// agentRef names the Agent whose layer lies between the Harness and the Session.
	// +optional
	AgentRef *LocalReference `json:"agentRef,omitempty"`

	// blueprint selects an agent of a Capability that the Session is, in place of the one that its layers make up.
	// +optional
	Blueprint *BlueprintReference `json:"blueprint,omitempty"`

	// title tells people what the conversation is about, in up to 200 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Title string `json:"title,omitempty"`

	// locale is the response language, as a BCP 47 tag such as de-CH.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`
	Locale string `json:"locale,omitempty"`

	// networkAccess lists the network destinations that the tools may reach. It can only narrow that of the Harness and
	// the Agent.
	// +optional
	NetworkAccess *NetworkAccess `json:"networkAccess,omitempty"`

	// maxIterations is the maximum number of model calls of the Turn. Default: that of the Agent and the Harness.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// journalLimit is the maximum size of the Session's journal. Default 16Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="journalLimit must be between 64Ki and 1Gi."
	JournalLimit *resource.Quantity `json:"journalLimit,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ScheduleSpec is when Turns are created, and which.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) != has(self.at)",message="exactly one of schedule, for repeated times, and at, for a single time, must be set."
// +kubebuilder:validation:XValidation:rule="has(self.at) == has(oldSelf.at) && (!has(self.at) || self.at == oldSelf.at)",message="at cannot be changed: a Schedule with at creates one Turn. Create a Schedule with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.sessionRef) != has(self.sessionTemplate)",message="exactly one of sessionRef, for a Session that exists, and sessionTemplate, for a Session per tick, must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.schedule)",message="timeZone is for schedule. Write at with its offset from UTC."
// +kubebuilder:validation:XValidation:rule="!has(self.sessionTemplate) || self.turn.delivery == 'Queue'",message="delivery Steer is for the Session of a sessionRef: a new Session has no running Turn."
type ScheduleSpec struct {
	// schedule is the times of the Turns, as a cron expression with five fields (minute, hour, day of the month, month,
	// day of the week), such as "0 9 * * 1-5", or @hourly, @daily, @weekly, @monthly or @yearly.
	// When clocks are put forward, a Turn whose time is skipped is created at the end of the gap. When they are put back,
	// a Turn whose time is repeated is created the first time only. A schedule of every hour follows elapsed time.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[0-9*?/,A-Za-z-]+( +[0-9*?/,A-Za-z-]+){4})$')",message="schedule must have five fields, such as 0 9 * * 1-5, or be @hourly, @daily, @weekly, @monthly or @yearly. Set the time zone in timeZone."
	Schedule string `json:"schedule,omitempty"`

	// at is the single time of the Schedule, in RFC 3339. It cannot be changed. A time before the creation of the
	// Schedule has passed: no Turn is created.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Type=string
	At *metav1.Time `json:"at,omitempty"`

	// timeZone is that of schedule, by its name in the IANA time zone database, such as Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	TimeZone string `json:"timeZone,omitempty"`

	// concurrencyPolicy is what happens at a tick while Turns of earlier ticks have not ended: Allow (default) creates the
	// Turn, Forbid creates none until the earlier one has ended, and Replace cancels the earlier ones and creates the
	// Turn. With Allow, ticks wait while 32 Turns have not ended.
	// +optional
	// +kubebuilder:default=Allow
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// startingDeadlineSeconds is how late the Turn of a tick may be created, in seconds, up to ten years. Of several
	// ticks that were missed, because the manager was down for example, only the latest one is made up for. Default:
	// however late.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// suspend keeps the Schedule from creating Turns. Those that exist continue. Default: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// successfulTurnsHistoryLimit is the number of Turns that have succeeded to keep, with their Sessions if there is a
	// sessionTemplate. Default 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	SuccessfulTurnsHistoryLimit *int32 `json:"successfulTurnsHistoryLimit,omitempty"`

	// failedTurnsHistoryLimit is the number of Turns that have failed or were cancelled to keep, with their Sessions if
	// there is a sessionTemplate. Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	FailedTurnsHistoryLimit *int32 `json:"failedTurnsHistoryLimit,omitempty"`

	// sessionRef names the Session that the Turns belong to. While it does not exist, ticks wait.
	// +optional
	SessionRef *LocalReference `json:"sessionRef,omitempty"`

	// sessionTemplate is the Session that is created for each tick. It is deleted when the history limits drop its Turn.
	// +optional
	SessionTemplate *SessionTemplate `json:"sessionTemplate,omitempty"`

	// turn is the message of each Turn.
	// +required
	Turn ScheduledTurn `json:"turn"` //nolint:kubeapilinter // A rule requires one of two of its fields.

	// submittedBy is the user whose messages these are. It must be the name of the user who creates the Schedule or
	// changes its spec, unless the change is that suspend becomes true. The Turns have it: the four-eyes policy for
	// approvals requires it. With it, the Session of a sessionRef is the one that had the name when the spec was changed:
	// ticks wait if another Session is created under the name, until the spec is changed again, other than in suspend.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SubmittedBy string `json:"submittedBy,omitempty"`
}

// ActiveTick is a tick whose Turn has not ended.
type ActiveTick struct {
	// tick is the time that the Schedule had set.
	// +required
	Tick metav1.Time `json:"tick"`
	// name of the Turn, and of its Session if the Schedule has a sessionTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// uid of the Turn. It is absent until the Turn was created.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid,omitempty"`
}

// ScheduleStatus is the observed state of a Schedule.
type ScheduleStatus struct {
	// conditions of the object. Ready is True while Turns are created at the times of the schedule, and also while the
	// Schedule is suspended or has completed, which its reason shows. Stalled is True if only a new spec helps.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// lastScheduleTime is the newest tick. It is written before its Turn is created. Ticks at or before this time are
	// never created again, whatever the clock shows.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextScheduleTime is the first tick after the one at lastScheduleTime, or after the last change of the spec. It is
	// absent while the Schedule is suspended, and when it has completed.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// ticks is the number of ticks so far.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ticks int64 `json:"ticks,omitempty"`
	// active are the ticks whose Turns have not ended, in their order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Active []ActiveTick `json:"active,omitempty"`
	// sessionUID is the UID of the Session that sessionRef named when the spec was last changed otherwise than by suspend,
	// of a Schedule with submittedBy: no other Session is sent its messages.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	SessionUID types.UID `json:"sessionUID,omitempty"`
	// sessionSpec is the hexadecimal SHA-256 of the spec without suspend that sessionUID belongs to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SessionSpec string `json:"sessionSpec,omitempty"`
}

// Schedule creates Turns at the times of a cron expression, or one Turn at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="At",type=string,JSONPath=`.spec.at`
// +kubebuilder:printcolumn:name="Time Zone",type=string,JSONPath=`.spec.timeZone`,priority=1
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.sessionRef.name`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active[*].name`,priority=1
// +kubebuilder:printcolumn:name="Last Schedule",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Next Schedule",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 45",message="the names of Turns begin with that of their Schedule: it has at most 45 characters."
type Schedule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is when Turns are created, and which.
	// +required
	Spec ScheduleSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ScheduleStatus `json:"status,omitempty"`
}

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Schedule `json:"items"`
}
