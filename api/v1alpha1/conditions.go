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
	// ConditionWaitingForToolResults on Turn: True while the Turn waits for results that others must give (CLIENT-03).
	ConditionWaitingForToolResults = "WaitingForToolResults"
	// ConditionRecovered on Turn: True when an answer of the Turn is what had come of it when the manager ended
	// (GAP-14). Otherwise it is not there.
	ConditionRecovered = "Recovered"
	// ConditionReconciling on Turn and ToolResult, as kstatus wants it: True while the Turn runs or waits, and while
	// the result waits.
	ConditionReconciling = "Reconciling"
	// ConditionStalled, as kstatus wants it: True when the Turn failed or cannot make progress before something is
	// repaired, when the ToolResult was refused, and on Harness, Model and Tool when only another spec can make the
	// object usable.
	ConditionStalled = "Stalled"
)

// Reasons of ConditionReady.
const (
	// ReasonReady: the object can be used.
	ReasonReady = "Ready"
	// ReasonPending: the manager has not looked at the object yet. It is the default in the API.
	ReasonPending = "Pending"
	// ReasonHarnessNotFound: a Harness that is named does not exist yet.
	ReasonHarnessNotFound = "HarnessNotFound"
	// ReasonAgentNotFound: an Agent that is named does not exist yet.
	ReasonAgentNotFound = "AgentNotFound"
	// ReasonModelNotFound: a Model that is named does not exist yet, or none is named and the namespace has no default.
	ReasonModelNotFound = "ModelNotFound"
	// ReasonModelNotReady: the Model exists and says that it cannot be used.
	ReasonModelNotReady = "ModelNotReady"
	// ReasonSecretMissing: the Secret with the API key of the Model does not exist. Also of a Turn that waits for it.
	ReasonSecretMissing = "SecretMissing"
	// ReasonSecretKeyMissing: the Secret with the API key of the Model lacks the key that the Model names. Also of a
	// Turn that waits for it.
	ReasonSecretKeyMissing = "SecretKeyMissing"
	// ReasonSecretUnusable: the Secret of the Model holds no valid API key, or is bound to other hosts. Also of a Turn
	// that waits for it.
	ReasonSecretUnusable = "SecretUnusable"
	// ReasonRoleMissing: the manager may not read the Secret of the Model. Also of a Turn that waits for it.
	ReasonRoleMissing = "RoleMissing"
	// ReasonToolNotFound: a Tool that is named does not exist yet.
	ReasonToolNotFound = "ToolNotFound"
	// ReasonToolNotReady: a Tool that is named says that it cannot be used.
	ReasonToolNotReady = "ToolNotReady"
	// ReasonNetworkAccessUnenforceable: a Tool that is named runs as a Job with a network, and the network access list
	// cannot hold it.
	ReasonNetworkAccessUnenforceable = "NetworkAccessUnenforceable"
	// ReasonArchived: the object, or one it needs, is archived.
	ReasonArchived = "Archived"
	// ReasonChainTooLong: a chain of Harnesses is longer than 16, or a Harness is its own ancestor.
	ReasonChainTooLong = "ChainTooLong"
	// ReasonInvalidSchema: a Tool's inputSchema is not a JSON Schema of an object, or declares what the Tool cannot send.
	ReasonInvalidSchema = "InvalidSchema"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the result is part of its Turn.
	ReasonAccepted = "Accepted"
	// ReasonTurnNotFound: no Turn of that name exists. A result that names no UID is kept until there is one, any other
	// is refused.
	ReasonTurnNotFound = "TurnNotFound"
	// ReasonTurnReplaced: the Turn of that name is not the one whose UID is given.
	ReasonTurnReplaced = "TurnReplaced"
	// ReasonCallPending: the Turn has not asked for this call yet; the result is kept for when it does.
	ReasonCallPending = "CallPending"
	// ReasonUnknownCall: the Turn does not wait for this call.
	ReasonUnknownCall = "UnknownCall"
	// ReasonNotAClientTool: the call is run by the manager and takes no result from outside.
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
	// ReasonAlreadyAnswered: another ToolResult answered this call, or decided about it, first.
	ReasonAlreadyAnswered = "AlreadyAnswered"
)

// Reasons of the conditions of a Turn. A Turn that succeeded has its stop reason as the reason of ConditionSucceeded,
// one that failed the CamelCase form of its error code.
const (
	// ReasonQueued: the Turn waits for the Turns of its Session that come before it, or for a free slot.
	ReasonQueued = "Queued"
	// ReasonSuspended: the Turn has not begun and is not admitted while spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonSessionNotFound: the Session that the Turn names does not exist yet.
	ReasonSessionNotFound = "SessionNotFound"
	// ReasonSessionNotReady: the Turn is the next one of its Session, which cannot run it; the message repeats why.
	ReasonSessionNotReady = "SessionNotReady"
	// ReasonTurnLimit: the Turn is the next one of its Session, and its namespace has as many Turns that have begun and
	// not ended as it may have.
	ReasonTurnLimit = "TurnLimit"
	// ReasonRunning: the Turn advances.
	ReasonRunning = "Running"
	// ReasonPoliciesNotInForce: the Turn, or a tool call, needs a Secret or an account, and a policy of the install is
	// missing.
	ReasonPoliciesNotInForce = "PoliciesNotInForce"
	// ReasonClientTools: the Turn waits for the results of client tools, and perhaps for approvals as well.
	ReasonClientTools = "ClientTools"
	// ReasonApproval: the Turn waits for approvals. Of a call: it waits for its own.
	ReasonApproval = "Approval"
	// ReasonNotWaiting: the Turn waits for nothing from outside.
	ReasonNotWaiting = "NotWaiting"
	// ReasonFinalized: an answer that was cut off by the end of the manager was taken for the whole.
	ReasonFinalized = "Finalized"
	// ReasonFinished: the Turn has ended.
	ReasonFinished = "Finished"
	// ReasonCancelled: the Turn was cancelled.
	ReasonCancelled = "Cancelled"
	// ReasonDeadlineExceeded: the Turn took longer than its activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonWaitTimeout: the Turn waited for tool results longer than its waitTimeoutSeconds.
	ReasonWaitTimeout = "WaitTimeout"
	// ReasonAlreadyRan: a Turn with this name and message ran in the Session before; its outcome is this Turn's.
	ReasonAlreadyRan = "AlreadyRan"
	// ReasonSteered: the message went into the Turn that was running.
	ReasonSteered = "Steered"
	// ReasonNameReused: a Turn with this name and another message ran in the Session before.
	ReasonNameReused = "NameReused"
	// ReasonFailed: the Turn failed and its error has no code of its own.
	ReasonFailed = "Failed"
	// ReasonJournalDamaged: the journal of the Session lacks entries, or has one that is not what its place promises.
	// Nothing can be appended to it.
	ReasonJournalDamaged = "JournalDamaged"
	// ReasonJournalFormatUnsupported: a later version of the manager has written to the journal of the Session, in a
	// form that this one cannot read.
	ReasonJournalFormatUnsupported = "JournalFormatUnsupported"
	// ReasonJournalRefused: the API server accepts no journal entries, for example because of a ResourceQuota.
	ReasonJournalRefused = "JournalRefused"
	// ReasonStepFailing: the step fails again and again for a reason that may pass. It is tried again.
	ReasonStepFailing = "StepFailing"
	// ReasonJournalFull: the Session's log has reached spec.journalLimit.
	ReasonJournalFull = "JournalFull"
)
