package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TurnPhase is where a Turn stands, for people to read.
// +kubebuilder:validation:Enum=Queued;Reason;Act;WaitingForToolResults;Waiting;Succeeded;Failed;Cancelled
type TurnPhase string

const (
	// TurnQueued: the Turn waits for the Turns before it, for a slot, or for something missing.
	TurnQueued TurnPhase = "Queued"
	// TurnReason: a model call is under way.
	TurnReason TurnPhase = "Reason"
	// TurnAct: tool calls are under way.
	TurnAct TurnPhase = "Act"
	// TurnWaitingForToolResults: only results that others must give are missing.
	TurnWaitingForToolResults TurnPhase = "WaitingForToolResults"
	// TurnWaiting: the Turn waits for what waitsFor says, and holds no place.
	TurnWaiting TurnPhase = "Waiting"
	// TurnSucceeded: the model answered.
	TurnSucceeded TurnPhase = "Succeeded"
	// TurnFailed: the Turn ended with an error.
	TurnFailed TurnPhase = "Failed"
	// TurnCancelled: the Turn was cancelled.
	TurnCancelled TurnPhase = "Cancelled"
)

// PlanPhase is the phase of the plan (SM-01).
// +kubebuilder:validation:Enum=Reason;Act;Complete
type PlanPhase string

const (
	// PlanReason: the open step is a model call. The first one also takes the user's input.
	PlanReason PlanPhase = "Reason"
	// PlanAct: the open step is a set of tool calls.
	PlanAct PlanPhase = "Act"
	// PlanComplete: no step is open.
	PlanComplete PlanPhase = "Complete"
)

// StopReason says why a Turn that succeeded stopped (SM-09).
// +kubebuilder:validation:Enum=EndTurn;MaxTokens;MaxTurnRequests;Refusal;Steered
type StopReason string

const (
	// StopEndTurn: the model finished.
	StopEndTurn StopReason = "EndTurn"
	// StopMaxTokens: the model reached its output limit.
	StopMaxTokens StopReason = "MaxTokens"
	// StopMaxTurnRequests: the Turn reached maxIterations.
	StopMaxTurnRequests StopReason = "MaxTurnRequests"
	// StopRefusal: the model refused.
	StopRefusal StopReason = "Refusal"
	// StopSteered: the message went into another Turn, which answers it.
	StopSteered StopReason = "Steered"
)

// TurnRecovery is how an answer was brought about that was coming in when the manager ended.
// +kubebuilder:validation:Enum=Finalized
type TurnRecovery string

const (
	// TurnFinalized: what had come was taken for the answer.
	TurnFinalized TurnRecovery = "Finalized"
)

// Usage counts tokens.
type Usage struct {
	// inputTokens that the model read.
	// +optional
	InputTokens int64 `json:"inputTokens,omitempty"`
	// outputTokens that the model wrote.
	// +optional
	OutputTokens int64 `json:"outputTokens,omitempty"`
	// totalTokens is the sum of both.
	// +optional
	TotalTokens int64 `json:"totalTokens,omitempty"`
}

// WaitType is what a Turn waits for.
// +kubebuilder:validation:Enum=Backoff;Reference
type WaitType string

const (
	// WaitBackoff: a model could not be called for a reason that may pass. It is called again at the time given.
	WaitBackoff WaitType = "Backoff"
	// WaitReference: something that the Turn refers to is missing, such as the Secret of its Model. The Turn goes on by
	// itself once it exists.
	WaitReference WaitType = "Reference"
)

// TurnWait is one thing that a Turn waits for.
type TurnWait struct {
	// type of what is waited for: Backoff or Reference.
	// +required
	Type WaitType `json:"type"`
	// reason of the wait, in CamelCase. It is the reason of the condition Succeeded while the Turn waits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// until is when the wait ends by itself.
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`
	// message reports why the Turn waits, and what to do, in up to 1024 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TurnPlan is what happens next. It is written before it happens.
type TurnPlan struct {
	// step is the number of the open step, from 1. Every step is closed by exactly one entry of the Session's log.
	// +required
	Step int32 `json:"step"`
	// phase of the open step: Reason or Act; Complete when none is open.
	// +required
	Phase PlanPhase `json:"phase"`
	// openedAt is the first ordinal of the Session's log at which the entry that closes this step may be.
	// +required
	OpenedAt int64 `json:"openedAt"`
	// previousResponseID is the provider's id of the last response, where the provider keeps the conversation.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PreviousResponseID string `json:"previousResponseID,omitempty"`
	// locale that the open step's tools are told: that of the model call that asked for them.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	Locale string `json:"locale,omitempty"`
	// attempt is how often the Model below was called for the open step without a response, where that was written
	// down: before a pause of more than a second.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// model is the name of the Model that is called again.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// notBefore is the earliest time of the next attempt.
	// +optional
	NotBefore *metav1.MicroTime `json:"notBefore,omitempty"`
	// stopReason is set with phase Complete when the Turn succeeded.
	// +optional
	StopReason StopReason `json:"stopReason,omitempty"`
}

// ToolExecutor is how a tool runs.
// +kubebuilder:validation:Enum=Job;HTTP;Client;None
type ToolExecutor string

const (
	// ExecutorJob runs the tool as a Job.
	ExecutorJob ToolExecutor = "Job"
	// ExecutorHTTP runs the tool as an HTTP request.
	ExecutorHTTP ToolExecutor = "HTTP"
	// ExecutorClient leaves the tool to the client of the Session, which gives a ToolResult.
	ExecutorClient ToolExecutor = "Client"
	// ExecutorNone marks a call that was refused before anything started.
	ExecutorNone ToolExecutor = "None"
)

// ToolCallState is where a tool call stands.
// +kubebuilder:validation:Enum=Pending;Running;Waiting;Succeeded;Failed;NotExecuted;Unknown
type ToolCallState string

const (
	// CallPending: the call has not started.
	CallPending ToolCallState = "Pending"
	// CallRunning: the tool's container runs, or its request is under way.
	CallRunning ToolCallState = "Running"
	// CallWaiting: a ToolResult is missing, with a client's result or, with reason Approval, with a decision.
	CallWaiting ToolCallState = "Waiting"
	// CallSucceeded: the tool gave a result.
	CallSucceeded ToolCallState = "Succeeded"
	// CallFailed: the tool, or the client, gave an error.
	CallFailed ToolCallState = "Failed"
	// CallNotExecuted: the tool never started.
	CallNotExecuted ToolCallState = "NotExecuted"
	// CallUnknown: the tool started, and nobody can know what became of it.
	CallUnknown ToolCallState = "Unknown"
)

// Settled says that the call has its final state.
func (s ToolCallState) Settled() bool {
	switch s {
	case CallSucceeded, CallFailed, CallNotExecuted, CallUnknown:
		return true
	default:
		return false
	}
}

// ToolCall is one tool call of the newest act step, pinned when it was planned.
type ToolCall struct {
	// id of the call, minted by the runtime: <iteration>-<index>.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`
	// name of the tool, as the model gave it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// executor that runs the call: Job, HTTP, Client, or None for a call that was refused.
	// +required
	Executor ToolExecutor `json:"executor"`
	// sideEffect is the class of the Tool: Pure, Idempotent or AtMostOnce.
	// +optional
	SideEffect SideEffect `json:"sideEffect,omitempty"`
	// policy of the Tool: RequiresApproval for a call that somebody must approve before it starts. Without it, it
	// starts at once.
	// +optional
	Policy ToolPolicy `json:"policy,omitempty"`
	// approveBy is until when a call that waits for approval can be approved.
	// +optional
	ApproveBy *metav1.Time `json:"approveBy,omitempty"`
	// concurrencyClass of the Tool. Calls of one class run in turn.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ConcurrencyClass string `json:"concurrencyClass,omitempty"`
	// toolUID is the UID of the Tool that the call was planned with. A Tool that is deleted and created again is
	// another one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	ToolUID types.UID `json:"toolUID,omitempty"`
	// toolDigest is the start of the SHA-256 of what the Tool runs, as it was when the call was planned: its spec
	// without description, approvalTimeout and the text of inputSchema. A call whose Tool has another digest when it is
	// to start is not executed, with reason ToolChanged.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ToolDigest string `json:"toolDigest,omitempty"`
	// toolGeneration is the generation of the Tool, of calls that a version of the manager planned which does not know
	// toolUID and toolDigest.
	// +optional
	ToolGeneration int64 `json:"toolGeneration,omitempty"`
	// timeout of the call, counted from the start of the tool's container or request.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// fingerprint is the SHA-256 over the tool's name and the model's arguments (DUR-06).
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`
	// callDigest of a call that waits for approval is the SHA-256 over the UID of the Turn, the step, the id of the
	// call, toolUID, toolDigest and the arguments. A decision names it, so that it counts for exactly this call.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CallDigest string `json:"callDigest,omitempty"`
	// attempt counts the starts of the call, from 1. A call that was not approved has none.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// notBefore is the earliest time at which the attempt may start: an earlier one was disrupted, and the next follows
	// after a pause that grows from attempt to attempt.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// podUID is the one pod that may run an AtMostOnce call. It is recorded before the pod may start.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	PodUID types.UID `json:"podUID,omitempty"`
	// podName is the pod of the call's newest attempt, for kubectl logs. It is written with the next change of state,
	// and the pod may be gone.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	PodName string `json:"podName,omitempty"`
	// state of the call.
	// +required
	State ToolCallState `json:"state"`
	// reason of the state, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// arguments of a call that waits for approval or for a client, up to 2 KiB. The first 16 calls of a step that wait
	// show them, fewer where the status has no room. Where some are left out, preview says so and where the journal has
	// them. They are removed once the call waits no more.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Arguments string `json:"arguments,omitempty"`
	// preview is the start of the result or of the error, for people to read. The whole is in the Session's journal.
	// +optional
	// +kubebuilder:validation:MaxLength=160
	Preview string `json:"preview,omitempty"`
}

// TurnSummary adds up a Turn (TURN-15).
type TurnSummary struct {
	// usage of all model calls of the Turn.
	// +optional
	Usage Usage `json:"usage,omitempty"`
	// modelCalls that ended.
	// +optional
	ModelCalls int32 `json:"modelCalls,omitempty"`
	// cost of the model calls, one item for each currency. Absent while no call has had a price.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Cost []Cost `json:"cost,omitempty"`
	// unpricedModelCalls are those of modelCalls that cost leaves out: their Model has no price, the provider has not
	// said how many tokens they took, or they are in a fifth currency.
	// +optional
	UnpricedModelCalls int32 `json:"unpricedModelCalls,omitempty"`
	// toolCalls that were planned.
	// +optional
	ToolCalls int32 `json:"toolCalls,omitempty"`
	// settledToolCalls have their result.
	// +optional
	SettledToolCalls int32 `json:"settledToolCalls,omitempty"`
	// calls is settledToolCalls/toolCalls, for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Calls string `json:"calls,omitempty"`
	// startedAt is when the Turn began.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// finishedAt is when the Turn's last step was closed.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
}

// TurnError says why a Turn failed (ERR-01).
type TurnError struct {
	// code is one of a closed list, for programs to read.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`
	// message is for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// fields say more, by code.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Fields map[string]string `json:"fields,omitempty"`
}

// TurnProgress is the part of a Turn's status that an entry of the log decides. Projecting an entry replaces it as a
// whole.
type TurnProgress struct {
	// phase is Queued, Reason, Act, WaitingForToolResults, Waiting, Succeeded, Failed or Cancelled.
	// +optional
	Phase TurnPhase `json:"phase,omitempty"`
	// iteration is the number of the current model call, from 1 (TURN-13).
	// +optional
	Iteration int32 `json:"iteration,omitempty"`
	// plan is what happens next.
	// +optional
	Plan *TurnPlan `json:"plan,omitempty"`
	// waitsFor is what the Turn waits for in phase Waiting.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	WaitsFor []TurnWait `json:"waitsFor,omitempty"`
	// model is the name of the Model that gave the newest response. Absent before the first one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// modelNotFound is the name of the Model that the controls name, where no such Model existed when the newest model
	// call began. Another one was called instead.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ModelNotFound string `json:"modelNotFound,omitempty"`
	// controls are those of the newest message that was steered into the Turn, in place of the Turn's own (CFG-07).
	// +optional
	Controls *TurnControls `json:"controls,omitempty"`
	// toolCalls are the calls of the newest act step.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`
	// summary adds up the Turn.
	// +optional
	Summary *TurnSummary `json:"summary,omitempty"`
	// recovered is Finalized when an answer of the Turn is what had come of it when the manager ended (GAP-14).
	// +optional
	Recovered TurnRecovery `json:"recovered,omitempty"`
	// output is the answer, cut at 8 KiB. The whole is in the Session's log.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Output string `json:"output,omitempty"`
	// error says why the Turn failed.
	// +optional
	Error *TurnError `json:"error,omitempty"`
}
