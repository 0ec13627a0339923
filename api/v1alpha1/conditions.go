package v1alpha1

// Condition types.
const (
	// ConditionReady on Harness, Agent, Session, Model and Tool: True when the object can be used.
	ConditionReady = "Ready"
	// ConditionAccepted on ToolResult: True when the result is part of its Turn, False when it never will be.
	ConditionAccepted = "Accepted"
	// ConditionSucceeded on Turn: Unknown until the Turn ends, then True with the stop reason or False with the error's
	// reason.
	ConditionSucceeded = "Succeeded"
	// ConditionFinished on Turn: True once the Turn has ended, whatever the outcome.
	ConditionFinished = "Finished"
	// ConditionWaitingForToolResults on Turn: True while the Turn waits for ToolResults from clients or approvers.
	ConditionWaitingForToolResults = "WaitingForToolResults"
	// ConditionRecovered on Turn: True when a response of the Turn is the part that had arrived when the manager
	// stopped. Otherwise it is absent.
	ConditionRecovered = "Recovered"
	// ConditionReconciling on Turn and ToolResult, as kstatus defines it: True while the Turn runs or waits, and while
	// the result waits.
	ConditionReconciling = "Reconciling"
	// ConditionStalled, as kstatus defines it: True when the Turn failed or needs a repair before it can make progress,
	// when the ToolResult was refused, and on Harness, Model and Tool when only a change of the spec can make the
	// object usable.
	ConditionStalled = "Stalled"
)

// Reasons of ConditionReady.
const (
	// ReasonReady: the object can be used.
	ReasonReady = "Ready"
	// ReasonPending: the manager has not processed the object yet. Objects of earlier builds have it, as a default of the
	// API.
	ReasonPending = "Pending"
	// ReasonHarnessNotFound: a referenced Harness does not exist yet.
	ReasonHarnessNotFound = "HarnessNotFound"
	// ReasonAgentNotFound: a referenced Agent does not exist yet.
	ReasonAgentNotFound = "AgentNotFound"
	// ReasonModelNotFound: a referenced Model does not exist yet, or there is no reference and the namespace has no
	// default Model.
	ReasonModelNotFound = "ModelNotFound"
	// ReasonModelNotReady: the Model exists and is not Ready.
	ReasonModelNotReady = "ModelNotReady"
	// ReasonSecretMissing: the Secret with the API key of the Model does not exist. Also used for a Turn that waits for
	// it.
	ReasonSecretMissing = "SecretMissing"
	// ReasonSecretKeyMissing: the Secret with the API key of the Model lacks the key that the Model names. Also used
	// for a Turn that waits for it.
	ReasonSecretKeyMissing = "SecretKeyMissing"
	// ReasonSecretUnusable: the Secret of the Model holds no valid API key, or is bound to other hosts. Also used for a
	// Turn that waits for it.
	ReasonSecretUnusable = "SecretUnusable"
	// ReasonRoleMissing: the manager may not read the Secret of the Model. Also used for a Turn that waits for it.
	ReasonRoleMissing = "RoleMissing"
	// ReasonToolNotFound: a referenced Tool does not exist yet.
	ReasonToolNotFound = "ToolNotFound"
	// ReasonToolNotReady: a referenced Tool exists and is not Ready.
	ReasonToolNotReady = "ToolNotReady"
	// ReasonNetworkAccessUnenforceable: a referenced Tool runs as a Job with network access, which the network access
	// list cannot restrict.
	ReasonNetworkAccessUnenforceable = "NetworkAccessUnenforceable"
	// ReasonArchived: the object, or one it needs, is archived.
	ReasonArchived = "Archived"
	// ReasonChainTooLong: a chain of Harnesses is longer than 16, or a Harness is its own ancestor.
	ReasonChainTooLong = "ChainTooLong"
	// ReasonInvalidSchema: a Tool's inputSchema is not a JSON Schema of an object, or declares arguments that the Tool
	// cannot send.
	ReasonInvalidSchema = "InvalidSchema"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the result is part of its Turn.
	ReasonAccepted = "Accepted"
	// ReasonTurnNotFound: no Turn of that name exists. A result without a UID is kept until the Turn exists; any other
	// is refused.
	ReasonTurnNotFound = "TurnNotFound"
	// ReasonTurnReplaced: the Turn of that name has another UID than the ToolResult names.
	ReasonTurnReplaced = "TurnReplaced"
	// ReasonCallPending: the Turn has not planned this call yet; the result is kept until it does.
	ReasonCallPending = "CallPending"
	// ReasonUnknownCall: the Turn does not wait for this call.
	ReasonUnknownCall = "UnknownCall"
	// ReasonNotAClientTool: the manager runs the call and accepts no result from a client.
	ReasonNotAClientTool = "NotAClientTool"
	// ReasonNoApprovalNeeded: the ToolResult decides about a call that needs no approval.
	ReasonNoApprovalNeeded = "NoApprovalNeeded"
	// ReasonDecisionExpected: the ToolResult has a result or an error for a call that waits for approval.
	ReasonDecisionExpected = "DecisionExpected"
	// ReasonCallDigestMismatch: the decision names another callDigest than the call that waits.
	ReasonCallDigestMismatch = "CallDigestMismatch"
	// ReasonTurnSubmitterMismatch: the decision names another submitter than the Turn.
	ReasonTurnSubmitterMismatch = "TurnSubmitterMismatch"
	// ReasonCallClosed: the Turn no longer waits for this call.
	ReasonCallClosed = "CallClosed"
	// ReasonAlreadyAnswered: another ToolResult for this call was accepted first.
	ReasonAlreadyAnswered = "AlreadyAnswered"
)

// Reasons of the conditions of a Turn. The reason of ConditionSucceeded is the stop reason of a Turn that succeeded,
// and the CamelCase form of the error code of a Turn that failed.
const (
	// ReasonQueued: the Turn waits for the Turns of its Session that come before it, or for a free slot.
	ReasonQueued = "Queued"
	// ReasonSuspended: the Turn has not begun and is not admitted while spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonSessionNotFound: the Session that the Turn names does not exist yet.
	ReasonSessionNotFound = "SessionNotFound"
	// ReasonSessionNotReady: the Turn is the next one of its Session, which cannot run it; the message has the
	// Session's reason.
	ReasonSessionNotReady = "SessionNotReady"
	// ReasonTurnLimit: the Turn is the next one of its Session, and its namespace has reached its limit of running
	// Turns.
	ReasonTurnLimit = "TurnLimit"
	// ReasonRunning: the Turn makes progress.
	ReasonRunning = "Running"
	// ReasonPoliciesNotInForce: the Turn, or a tool call, needs a Secret or a ServiceAccount, and an admission policy
	// of the installation is missing.
	ReasonPoliciesNotInForce = "PoliciesNotInForce"
	// ReasonClientTools: the Turn waits for the results of client tools, and perhaps for approvals as well.
	ReasonClientTools = "ClientTools"
	// ReasonApproval: the Turn, or the tool call, waits for approval.
	ReasonApproval = "Approval"
	// ReasonNotWaiting: the Turn does not wait for a ToolResult.
	ReasonNotWaiting = "NotWaiting"
	// ReasonFinalized: a response that was cut off when the manager stopped was recorded as complete.
	ReasonFinalized = "Finalized"
	// ReasonFinished: the Turn has ended.
	ReasonFinished = "Finished"
	// ReasonAlreadyRan: a Turn with this name and message ran in the Session before; its outcome is this Turn's.
	ReasonAlreadyRan = "AlreadyRan"
	// ReasonSteered: the message went into the Turn that was running.
	ReasonSteered = "Steered"
	// ReasonFailed: the Turn failed and its error has no code of its own.
	ReasonFailed = "Failed"
	// ReasonJournalDamaged: the journal of the Session lacks entries, or an entry does not fit its position. Nothing
	// can be appended to it.
	ReasonJournalDamaged = "JournalDamaged"
	// ReasonJournalFormatUnsupported: a later version of the manager has written to the journal of the Session, in a
	// format that this one cannot read.
	ReasonJournalFormatUnsupported = "JournalFormatUnsupported"
	// ReasonJournalRefused: the API server accepts no journal entries, for example because of a ResourceQuota.
	ReasonJournalRefused = "JournalRefused"
	// ReasonStepFailing: the step fails repeatedly with a transient error. It is retried.
	ReasonStepFailing = "StepFailing"
)
