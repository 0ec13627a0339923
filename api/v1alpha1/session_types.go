package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HintSetupConnection is the hint of a Session that clientTools FollowHints reads: whether a client provides results.
const HintSetupConnection = "setup_connection"

// ClientToolsPolicy is whether a Turn waits for results from clients.
// +kubebuilder:validation:Enum=Wait;FollowHints
type ClientToolsPolicy string

const (
	// ClientToolsPolicyWait makes the Turn wait until every call has its result.
	ClientToolsPolicyWait ClientToolsPolicy = "Wait"
	// ClientToolsPolicyFollowHints makes the Turn wait only if the Session's hint setup_connection is true.
	ClientToolsPolicyFollowHints ClientToolsPolicy = "FollowHints"
)

// SessionPhase is a summary of a Session's state.
// +kubebuilder:validation:Enum=Pending;Started;Active;Idle;WaitingForToolResults;Paused
type SessionPhase string

const (
	// SessionPhasePending: a reference of the Session is not resolved.
	SessionPhasePending SessionPhase = "Pending"
	// SessionPhaseStarted: the Session can be used and has had no Turn yet.
	SessionPhaseStarted SessionPhase = "Started"
	// SessionPhaseActive: a Turn runs.
	SessionPhaseActive SessionPhase = "Active"
	// SessionPhaseIdle: the last Turn has ended.
	SessionPhaseIdle SessionPhase = "Idle"
	// SessionPhaseWaitingForToolResults: the running Turn waits for tool results.
	SessionPhaseWaitingForToolResults SessionPhase = "WaitingForToolResults"
	// SessionPhasePaused: the running Turn waits for a Budget.
	SessionPhasePaused SessionPhase = "Paused"
)

// SessionStore is where the journal and the records of a Session are.
// +kubebuilder:validation:Enum=Kubernetes;Postgres
type SessionStore string

const (
	// SessionStoreKubernetes: they are objects of the API server.
	SessionStoreKubernetes SessionStore = "Kubernetes"
	// SessionStorePostgres: they are rows of a PostgreSQL database.
	SessionStorePostgres SessionStore = "Postgres"
)

// SessionSpec is one conversation.
// +kubebuilder:validation:XValidation:rule="self.harnessRef == oldSelf.harnessRef",message="harnessRef cannot be changed: a conversation keeps its Harness. Create a Session with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.blueprint) == has(oldSelf.blueprint) && (!has(self.blueprint) || self.blueprint == oldSelf.blueprint)",message="blueprint cannot be changed: a conversation keeps its agent. Create a Session with a new name."
// +kubebuilder:validation:XValidation:rule="has(self.origin) == has(oldSelf.origin) && (!has(self.origin) || self.origin == oldSelf.origin)",message="origin cannot be changed."
type SessionSpec struct {
	// harnessRef names the Harness that the Session is built on. It cannot be changed.
	// +required
	HarnessRef LocalReference `json:"harnessRef"`

	// agentRef names the Agent whose layer lies between the Harness and the Session.
	// +optional
	AgentRef *LocalReference `json:"agentRef,omitempty"`

	ConfigLayer `json:",inline"`

	// blueprint selects an agent of a Capability that the Session is, in place of the one that its layers make up. It
	// cannot be changed.
	// +optional
	Blueprint *BlueprintReference `json:"blueprint,omitempty"`

	// origin is why the manager has created the Session. Only the manager sets it.
	// +optional
	Origin *Origin `json:"origin,omitempty"`

	// title tells people what the conversation is about, in up to 200 characters: kubectl shows it. The model does not
	// read it. Without it, the capability session_title writes a title into the status.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Title string `json:"title,omitempty"`

	// locale is the response language of Turns whose controls have no locale, as a BCP 47 tag such as de-CH.
	// The model is told about it, and tools find it in CAPSTAN_LOCALE. Default: no locale, and the model decides.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`
	Locale string `json:"locale,omitempty"`

	// clientTools is whether a Turn waits for the results of client tools: Wait (default), or FollowHints, which waits
	// only if the hint setup_connection is true and otherwise tells the model that the call was not executed.
	// +optional
	// +kubebuilder:default=Wait
	ClientTools ClientToolsPolicy `json:"clientTools,omitempty"`

	// hints describe the client of this Session. Any key is allowed; clientTools: FollowHints reads setup_connection.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Hints map[string]JSON `json:"hints,omitempty"`

	// journalLimit is the maximum size of the Session's journal, before its entries are compressed. A Turn that would
	// exceed it ends with JournalFull. Default 16Mi.
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="journalLimit must be between 64Ki and 1Gi."
	JournalLimit *resource.Quantity `json:"journalLimit,omitempty"`

	// turnTTL is how long a Turn of this Session is kept after its end, such as 24h, up to 87600h. A Turn's own
	// ttlSecondsAfterFinished takes precedence. The conversation stays in the journal. Default: Turns are kept.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self) <= duration('87600h')",message="turnTTL must be at most 87600h."
	// +kubebuilder:validation:Type=string
	TurnTTL *metav1.Duration `json:"turnTTL,omitempty"`
}

// QueuePosition is a place in the queue of a Session, which is ordered by creation time and then by name.
type QueuePosition struct {
	// creationTimestamp of the Turn at this place.
	// +required
	CreationTimestamp metav1.Time `json:"creationTimestamp"`
	// name of that Turn.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ActiveTurn names the one Turn that may run in a Session.
type ActiveTurn struct {
	// name of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the Turn.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
	// openedAtOrdinal is the first ordinal of the journal at which the entry that closes the Turn's first step may be.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OpenedAtOrdinal int64 `json:"openedAtOrdinal,omitempty"`
	// admittedAt is when the Turn became the active one. Its first step begins then.
	// +optional
	AdmittedAt *metav1.MicroTime `json:"admittedAt,omitempty"`
	// traceParent is the trace context that the Turn continues, so that its trace can be completed when the Turn has been
	// deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=55
	TraceParent string `json:"traceParent,omitempty"`
	// admittedUID is the UID of the Turn that openedAtOrdinal, admittedAt and traceParent belong to. They have no meaning
	// if it differs from uid: a manager of an earlier version replaces name and uid only.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	AdmittedUID types.UID `json:"admittedUID,omitempty"`
	// queuedSteers are the UIDs of the Turns with delivery Steer that were queued already when this one was admitted,
	// at most 64. They run by themselves later. Only the messages of Steers created later go into this Turn.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Type=string
	QueuedSteers []types.UID `json:"queuedSteers,omitempty"`
	// queueEnd is the place of the last queued Steer, if there were more than queuedSteers can hold.
	// +optional
	QueueEnd *QueuePosition `json:"queueEnd,omitempty"`
}

// JournalStatus is the state of a Session's journal.
type JournalStatus struct {
	// head is the ordinal of the newest entry known when this status was written. Later entries may exist.
	// +optional
	Head int64 `json:"head,omitempty"`
	// bytes is the size of all entries up to head.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// conversationBytes is the size of the part that prompts are made of: the entries since the last compaction, with what
	// it has kept, and the images that they name, in base64. It is absent if it is the same as bytes.
	// +optional
	ConversationBytes int64 `json:"conversationBytes,omitempty"`
}

// SessionTotals has the totals of a Session's Turns.
type SessionTotals struct {
	// turns is the number of Turns that have ended.
	// +optional
	Turns int64 `json:"turns,omitempty"`
	// usage of all Turns that have ended.
	// +optional
	Usage Usage `json:"usage,omitempty"`
	// cost of all Turns that have ended, one item per currency. It is absent if no model call had a price.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Cost []Cost `json:"cost,omitempty"`
	// unpricedModelCalls counts the model calls that cost does not include, as in Turns. A Turn that would add a fifth
	// currency is not included at all.
	// +optional
	UnpricedModelCalls int64 `json:"unpricedModelCalls,omitempty"`
	// payments is what all Turns that have ended, and their sub-agents, have paid for tool calls, one item per currency.
	// It includes payments that may have been made. It is absent if nothing was paid.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Payments []Cost `json:"payments,omitempty"`
	// toolCalls is the number of tool calls of all Turns that have ended.
	// +optional
	ToolCalls int64 `json:"toolCalls,omitempty"`
}

// SessionStatus is the observed state of a Session.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.store) || (has(self.store) && self.store == oldSelf.store)",message="store cannot be changed: the journal and the records of the Session are there."
type SessionStatus struct {
	// conditions of the object. Ready is True when all references of the Session are resolved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Started, Active, Idle, WaitingForToolResults or Paused.
	// +optional
	Phase SessionPhase `json:"phase,omitempty"`

	// activeTurn is the running Turn. It is set and cleared with optimistic locking: no two Turns of a Session run at
	// once.
	// +optional
	ActiveTurn *ActiveTurn `json:"activeTurn,omitempty"`

	// withdrawnUID is the UID of a queued Turn that was cancelled while no other Turn ran. It is written with
	// optimistic locking before the Turn ends: an admission of the Turn that is in progress then fails.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	WithdrawnUID types.UID `json:"withdrawnUID,omitempty"`

	// title is what a model has written about the conversation with the capability session_title, in one line of up to 80
	// characters. It is absent from a Session whose spec has a title from the beginning.
	// +optional
	// +kubebuilder:validation:MaxLength=80
	Title string `json:"title,omitempty"`

	// store is where the journal and the records of the Session are: Kubernetes for objects of the API server, Postgres
	// for the PostgreSQL database of the manager. It is set once, when the manager first sees the Session. If it is
	// absent from a Session that has a phase, they are in Kubernetes.
	// +optional
	Store SessionStore `json:"store,omitempty"`

	// journal is the state of the Session's journal.
	// +optional
	Journal JournalStatus `json:"journal,omitempty"`

	// totals of the Turns that have ended.
	// +optional
	Totals SessionTotals `json:"totals,omitempty"`

	// hooks shows the hooks at the start and at the end of the Session. It is absent if there are none.
	// +optional
	Hooks *SessionHooks `json:"hooks,omitempty"`

	// backgroundTasks are the background tasks of the Session whose ends were not delivered yet, in the order of their
	// start. A task is shown before it starts.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=5
	BackgroundTasks []BackgroundTask `json:"backgroundTasks,omitempty"`
}

// BackgroundTask is a background task of a Session. Its state, arguments and result are records of the Session.
type BackgroundTask struct {
	// id of the task. Its Job and the Turn that delivers its end are named task-<id>.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-z]{16}$`
	// +kubebuilder:validation:MaxLength=16
	ID string `json:"id"`
	// tool is the name of the Tool that runs.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tool string `json:"tool"`
	// turn is the name of the Turn that started the task.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Turn string `json:"turn"`
	// startedAt is when the task was announced, which is before it runs.
	// +required
	StartedAt metav1.Time `json:"startedAt"`
}

// Session is one conversation with an agent. Its Turns run one at a time, in the order of their creation.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Title",type=string,JSONPath=`.spec.title`
// +kubebuilder:printcolumn:name="Harness",type=string,JSONPath=`.spec.harnessRef.name`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.spec.agentRef.name`,priority=1
// +kubebuilder:printcolumn:name="Written Title",type=string,JSONPath=`.status.title`,priority=1
// +kubebuilder:printcolumn:name="Active Turn",type=string,JSONPath=`.status.activeTurn.name`
// +kubebuilder:printcolumn:name="Turns",type=integer,JSONPath=`.status.totals.turns`
// +kubebuilder:printcolumn:name="Tokens",type=integer,JSONPath=`.status.totals.usage.totalTokens`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.status.totals.cost[0].amount`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.totals.cost[0].currency`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Session struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired conversation.
	// +required
	Spec SessionSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status SessionStatus `json:"status,omitempty"`
}

// SessionList is a list of Sessions.
//
// +kubebuilder:object:root=true
type SessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Session `json:"items"`
}
