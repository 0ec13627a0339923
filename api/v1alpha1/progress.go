package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TurnPhase is a summary of a Turn's progress, for people to read.
// +kubebuilder:validation:Enum=Queued;Reason;Act;WaitingForToolResults;Waiting;Succeeded;Failed;Cancelled
type TurnPhase string

const (
	// TurnPhaseQueued: the Turn waits for the Turns before it, for a slot, or for something missing.
	TurnPhaseQueued TurnPhase = "Queued"
	// TurnPhaseReason: a model call is in progress.
	TurnPhaseReason TurnPhase = "Reason"
	// TurnPhaseAct: tool calls are in progress.
	TurnPhaseAct TurnPhase = "Act"
	// TurnPhaseWaitingForToolResults: only ToolResults from clients, approvers or users are missing.
	TurnPhaseWaitingForToolResults TurnPhase = "WaitingForToolResults"
	// TurnPhaseWaiting: the Turn waits for the things listed in waitsFor, and holds no slot.
	TurnPhaseWaiting TurnPhase = "Waiting"
	// TurnPhaseSucceeded: the model responded.
	TurnPhaseSucceeded TurnPhase = "Succeeded"
	// TurnPhaseFailed: the Turn ended with an error.
	TurnPhaseFailed TurnPhase = "Failed"
	// TurnPhaseCancelled: the Turn was cancelled.
	TurnPhaseCancelled TurnPhase = "Cancelled"
)

// PlanPhase is the phase of the plan.
// +kubebuilder:validation:Enum=Reason;Act;Complete
type PlanPhase string

const (
	// PlanPhaseReason: the open step is a model call. The first one also takes the user's input.
	PlanPhaseReason PlanPhase = "Reason"
	// PlanPhaseAct: the open step is a set of tool calls.
	PlanPhaseAct PlanPhase = "Act"
	// PlanPhaseComplete: no step is open.
	PlanPhaseComplete PlanPhase = "Complete"
)

// StopReason is why a Turn that succeeded stopped.
// +kubebuilder:validation:Enum=EndTurn;MaxTokens;MaxTurnRequests;Refusal;Steered
type StopReason string

const (
	// StopReasonEndTurn: the model finished.
	StopReasonEndTurn StopReason = "EndTurn"
	// StopReasonMaxTokens: the model reached its output limit.
	StopReasonMaxTokens StopReason = "MaxTokens"
	// StopReasonMaxTurnRequests: the Turn reached maxIterations.
	StopReasonMaxTurnRequests StopReason = "MaxTurnRequests"
	// StopReasonRefusal: the model refused.
	StopReasonRefusal StopReason = "Refusal"
	// StopReasonSteered: the message went into another Turn, which answers it.
	StopReasonSteered StopReason = "Steered"
)

// CompactionTrigger is why a conversation was compacted.
// +kubebuilder:validation:Enum=Threshold;RequestTooLarge
type CompactionTrigger string

const (
	// CompactionTriggerThreshold: the prompt had reached the threshold of the capability compaction.
	CompactionTriggerThreshold CompactionTrigger = "Threshold"
	// CompactionTriggerRequestTooLarge: the provider had refused the prompt as too large.
	CompactionTriggerRequestTooLarge CompactionTrigger = "RequestTooLarge"
)

// TurnRecovery is how a response was completed that was streaming when the manager stopped.
// +kubebuilder:validation:Enum=Finalized
type TurnRecovery string

const (
	// TurnRecoveryFinalized: the partial response was recorded as complete.
	TurnRecoveryFinalized TurnRecovery = "Finalized"
)

// TurnUsers is who has sent the messages of a Turn.
// +kubebuilder:validation:Enum=Several
type TurnUsers string

const (
	// TurnUsersSeveral: not all messages are from the user who has submitted the Turn.
	TurnUsersSeveral TurnUsers = "Several"
)

// MaxSteeringUsers is the maximum number of users whose messages were steered into a Turn that its status names.
const MaxSteeringUsers = 15

// Usage counts tokens.
type Usage struct {
	// inputTokens is the number of tokens that the model read.
	// +optional
	InputTokens int64 `json:"inputTokens,omitempty"`
	// outputTokens is the number of tokens that the model wrote.
	// +optional
	OutputTokens int64 `json:"outputTokens,omitempty"`
	// totalTokens is the sum of both.
	// +optional
	TotalTokens int64 `json:"totalTokens,omitempty"`
}

// WaitType is the kind of thing that a Turn waits for.
// +kubebuilder:validation:Enum=Backoff;Reference;Cluster;SubAgent;Input;Connection;Budget;RateLimit
type WaitType string

const (
	// WaitTypeBackoff: a model call failed with a transient error. The model is called again at the time in until.
	WaitTypeBackoff WaitType = "Backoff"
	// WaitTypeReference: a referenced object is missing, such as the Secret of the Turn's Model. The Turn continues by
	// itself once the object exists.
	WaitTypeReference WaitType = "Reference"
	// WaitTypeCluster: the API server rejects an object that a tool call needs to start. The manager retries until the
	// call's startTimeout.
	WaitTypeCluster WaitType = "Cluster"
	// WaitTypeSubAgent: calls of the Turn run as sub-agents. The Turn continues when they have ended.
	WaitTypeSubAgent WaitType = "SubAgent"
	// WaitTypeInput: a tool has asked a question. The call continues once a ToolResult has answered it.
	WaitTypeInput WaitType = "Input"
	// WaitTypeConnection: a tool needs a connection to a provider. The call is sent again once a ToolResult reports that
	// the connection exists.
	WaitTypeConnection WaitType = "Connection"
	// WaitTypeBudget: the next model call does not fit into a Budget. The Turn continues by itself once it does.
	WaitTypeBudget WaitType = "Budget"
	// WaitTypeRateLimit: the limits of the Turn's Model have no room for the next call now. The Turn continues by itself.
	WaitTypeRateLimit WaitType = "RateLimit"
)

// TurnWait is one thing that a Turn waits for.
type TurnWait struct {
	// type of the wait: Backoff, Reference, Cluster, SubAgent, Input, Connection, Budget or RateLimit.
	// +required
	Type WaitType `json:"type"`
	// reason of the wait, in CamelCase. It is the reason of the condition Succeeded while the Turn waits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// until is when the wait ends by itself.
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`
	// message explains why the Turn waits and what to do, in up to 1024 bytes.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TurnPlan is the next step of the Turn. It is recorded before the step runs.
type TurnPlan struct {
	// step is the number of the open step, from 1. Every step is closed by exactly one entry of the Session's journal.
	// +required
	Step int32 `json:"step"`
	// phase of the open step: Reason or Act; Complete when none is open.
	// +required
	Phase PlanPhase `json:"phase"`
	// openedAtOrdinal is the first ordinal of the Session's journal at which the entry that closes this step may be.
	// +required
	OpenedAtOrdinal int64 `json:"openedAtOrdinal"`
	// locale for the tools of the open step: that of the model call that planned them.
	// +optional
	// +kubebuilder:validation:MaxLength=35
	Locale string `json:"locale,omitempty"`
	// attempt counts the failed calls of model for the open step. It is recorded only before a pause of more than a
	// second.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// model is the name of the Model that is called again.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// notBefore is the earliest time of the next attempt.
	// +optional
	NotBefore *metav1.MicroTime `json:"notBefore,omitempty"`
	// compacted is why the step before the open one has compacted the conversation: Threshold, or RequestTooLarge. It is
	// absent if that step was another one.
	// +optional
	Compacted CompactionTrigger `json:"compacted,omitempty"`
	// stopReason is set with phase Complete when the Turn succeeded.
	// +optional
	StopReason StopReason `json:"stopReason,omitempty"`
}

// ToolExecutor is how a tool runs.
// +kubebuilder:validation:Enum=Job;HTTP;MCP;Builtin;Client;Agent;Task;None
type ToolExecutor string

const (
	// ToolExecutorJob runs the tool as a Job.
	ToolExecutorJob ToolExecutor = "Job"
	// ToolExecutorHTTP runs the tool as an HTTP request.
	ToolExecutorHTTP ToolExecutor = "HTTP"
	// ToolExecutorMCP calls the tool of an MCPServer.
	ToolExecutorMCP ToolExecutor = "MCP"
	// ToolExecutorBuiltin runs a tool that is part of the manager.
	ToolExecutorBuiltin ToolExecutor = "Builtin"
	// ExecutorClient leaves the tool to the client of the Session, which creates a ToolResult.
	ToolExecutorClient ToolExecutor = "Client"
	// ToolExecutorAgent runs the tool as a sub-agent.
	ToolExecutorAgent ToolExecutor = "Agent"
	// ToolExecutorTask starts the tool as a background task of the Session. The call ends when the task is recorded.
	ToolExecutorTask ToolExecutor = "Task"
	// ToolExecutorNone marks a call that was refused before anything started.
	ToolExecutorNone ToolExecutor = "None"
)

// ToolCallState is the state of a tool call.
// +kubebuilder:validation:Enum=Pending;Running;Waiting;Succeeded;Failed;NotExecuted;Unknown
type ToolCallState string

const (
	// ToolCallStatePending: the call has not started.
	ToolCallStatePending ToolCallState = "Pending"
	// ToolCallStateRunning: the tool's container or its sub-agent runs, or its request is in progress.
	ToolCallStateRunning ToolCallState = "Running"
	// ToolCallStateWaiting: a ToolResult is missing, with a client's result or, with reason Approval, with a decision, or,
	// with reason Input or Connection, with an answer to a question of the tool.
	ToolCallStateWaiting ToolCallState = "Waiting"
	// ToolCallStateSucceeded: the tool returned a result.
	ToolCallStateSucceeded ToolCallState = "Succeeded"
	// ToolCallStateFailed: the tool, or the client, returned an error.
	ToolCallStateFailed ToolCallState = "Failed"
	// ToolCallStateNotExecuted: the tool never started.
	ToolCallStateNotExecuted ToolCallState = "NotExecuted"
	// ToolCallStateUnknown: the tool started, and its outcome cannot be determined.
	ToolCallStateUnknown ToolCallState = "Unknown"
)

// Settled reports whether the call has its final state.
func (s ToolCallState) Settled() bool {
	switch s {
	case ToolCallStateSucceeded, ToolCallStateFailed, ToolCallStateNotExecuted, ToolCallStateUnknown:
		return true
	default:
		return false
	}
}

// ToolCall is one tool call of the newest act step, as it was planned.
type ToolCall struct {
	// id of the call, minted by the runtime: <iteration>-<index>.
	// +required
	// +kubebuilder:validation:MaxLength=32
	ID string `json:"id"`
	// name of the tool, as in the model's response.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// executor that runs the call: Job, HTTP, MCP, Builtin, Client, Agent, Task, or None for a call that was refused.
	// +required
	Executor ToolExecutor `json:"executor"`
	// background is the name of the Tool that the call starts as a background task.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Background string `json:"background,omitempty"`
	// sideEffect is the class of the Tool: Pure, Idempotent or AtMostOnce. It is Idempotent for a call that starts a
	// background task: the task itself starts at most once.
	// +optional
	SideEffect SideEffect `json:"sideEffect,omitempty"`
	// policy of the Tool: RequiresApproval for a call that must be approved before it starts. Without it, the call
	// starts at once.
	// +optional
	Policy ToolPolicy `json:"policy,omitempty"`
	// approveBy is the latest time at which a call that waits for approval can be approved.
	// +optional
	ApproveBy *metav1.Time `json:"approveBy,omitempty"`
	// concurrencyClass of the Tool. Calls of one class run in turn.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ConcurrencyClass string `json:"concurrencyClass,omitempty"`
	// toolUID is the UID of the Tool or MCPServer that the call was planned with. One that is deleted and created again
	// is another one. It is absent for a tool that is part of the manager.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	ToolUID types.UID `json:"toolUID,omitempty"`
	// toolDigest is the start of the SHA-256 of the Tool's definition, as it was when the call was planned: its spec
	// without description, approvalTimeout and the text of inputSchema. For a tool of an MCPServer it is of the url, the
	// headers, the rule and the discovered definition. A call whose Tool has another digest at its start is not executed,
	// with reason ToolChanged.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ToolDigest string `json:"toolDigest,omitempty"`
	// toolGeneration is the generation of the Tool, for calls that an earlier version of the manager planned without
	// toolUID and toolDigest.
	// +optional
	ToolGeneration int64 `json:"toolGeneration,omitempty"`
	// timeout of the call, counted from the start of the tool's container or request.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// fingerprint is the SHA-256 over the tool's name and the model's arguments.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`
	// callDigest of a call that waits for approval is the SHA-256 over the UID of the Turn, the step, the id of the
	// call, toolUID, toolDigest and the arguments. A decision names it, so that it counts for exactly this call. While the
	// call waits for input, it is the SHA-256 over the UID of the Turn, the step, the id of the call and the questions,
	// and answers name it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CallDigest string `json:"callDigest,omitempty"`
	// hints of the Tool, as they were when the call was planned, while the call waits for approval or for a client.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Hints []ToolHint `json:"hints,omitempty"`
	// attempt counts the starts of the call, from 1. It is absent for a call that was not approved. A call of an
	// AtMostOnce tool starts again only after its tool has reported that it needs a connection and has done nothing.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// notBefore is the earliest time at which the attempt may start: after a disrupted attempt the next one follows
	// with exponential backoff.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// podUID is the UID of the only pod that may run an AtMostOnce call. It is recorded before the pod may start.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	PodUID types.UID `json:"podUID,omitempty"`
	// podName is the pod of the call's newest attempt, for kubectl logs. It is updated with the next change of state;
	// the pod may no longer exist.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	PodName string `json:"podName,omitempty"`
	// input is what the tool has asked: the questions without an answer, while the call waits for them.
	// +optional
	Input *ToolInput `json:"input,omitempty"`
	// subAgent is the sub-agent of a call with the executor Agent. It is recorded before its Turn is created.
	// +optional
	SubAgent *SubAgentReference `json:"subAgent,omitempty"`
	// state of the call.
	// +required
	State ToolCallState `json:"state"`
	// reason of the state, in CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// arguments of a call that waits for approval or for a client, up to 2 KiB. They are shown for the first 16 waiting
	// calls of a step, fewer if the status has no room. If they are omitted, preview names the journal entry that
	// has them. They are removed when the wait ends.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Arguments string `json:"arguments,omitempty"`
	// preview is the start of the result or of the error, for people to read. The whole text is in the Session's
	// journal.
	// +optional
	// +kubebuilder:validation:MaxLength=160
	Preview string `json:"preview,omitempty"`
}

// SubAgentReference is the sub-agent of a call, and its totals once the call has its result.
type SubAgentReference struct {
	// name of its Session, and of its Turn.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// sessionUID is the UID of its Session.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	SessionUID types.UID `json:"sessionUID"`
	// totals of its Turn, those of further sub-agents included. They are left out where the status has no room.
	// +optional
	Totals *SubAgentTotals `json:"totals,omitempty"`
}

// TurnError is why a Turn failed.
type TurnError struct {
	// code identifies the failure, for programs to read.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Code ErrorCode `json:"code"`
	// message explains the failure, for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
	// fields hold details, by code.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Fields map[string]string `json:"fields,omitempty"`
}

// TurnProgress is the part of a Turn's status that journal entries determine. Projecting an entry replaces it as a
// whole.
type TurnProgress struct {
	// phase is Queued, Reason, Act, WaitingForToolResults, Waiting, Succeeded, Failed or Cancelled.
	// +optional
	Phase TurnPhase `json:"phase,omitempty"`
	// iteration is the number of the current model call, from 1.
	// +optional
	Iteration int32 `json:"iteration,omitempty"`
	// plan is the next step of the Turn.
	// +optional
	Plan *TurnPlan `json:"plan,omitempty"`
	// waitsFor lists the things that the Turn waits for, other than results and approvals.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	WaitsFor []TurnWait `json:"waitsFor,omitempty"`
	// model is the name of the Model of the newest response. It is absent before the first one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`
	// modelNotFound is the Model that the controls name, if it did not exist when the newest model call began. Another
	// Model was called instead.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ModelNotFound string `json:"modelNotFound,omitempty"`
	// controls are those of the newest message that was steered into the Turn, in place of the Turn's own.
	// +optional
	Controls *TurnControls `json:"controls,omitempty"`
	// users is Several if another user than submittedBy, or an unknown one, has sent a message that was steered into the
	// Turn. Its calls have no connection of a user from then on.
	// +optional
	Users TurnUsers `json:"users,omitempty"`
	// steeredBy are the other users whose messages were steered into the Turn, up to 15. An empty entry stands for a user
	// who is not known, and for further ones. The four-eyes policy lets none of them approve its calls.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	SteeredBy []string `json:"steeredBy,omitempty"`
	// toolCalls are the calls of the newest act step.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	ToolCalls []ToolCall `json:"toolCalls,omitempty"`
	// summary has the totals of the Turn.
	// +optional
	Summary *TurnSummary `json:"summary,omitempty"`
	// recovered is Finalized if a response of the Turn was recorded as complete although the manager stopped while it
	// was streaming.
	// +optional
	Recovered TurnRecovery `json:"recovered,omitempty"`
	// output is the final response, truncated at 8 KiB. The whole text is in the Session's journal.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Output string `json:"output,omitempty"`
	// error is why the Turn failed.
	// +optional
	Error *TurnError `json:"error,omitempty"`
}
