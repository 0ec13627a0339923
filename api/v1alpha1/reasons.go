package v1alpha1

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
	// ReasonProbeSucceeded: the provider has accepted a probe of the Model, and lists the model.
	ReasonProbeSucceeded = "ProbeSucceeded"
	// ReasonModelNotListed: the provider has accepted a probe of the Model, but does not list the model.
	ReasonModelNotListed = "ModelNotListed"
	// ReasonKeyRejected: the provider has rejected the API key of the Model.
	ReasonKeyRejected = "KeyRejected"
	// ReasonProbeFailed: a probe of the Model had no response, or an error.
	ReasonProbeFailed = "ProbeFailed"
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
	// ReasonCABundleMissing: the ConfigMap or Secret that a caBundle names, or its key, does not exist. Also used for a
	// Turn that waits for it.
	ReasonCABundleMissing = "CABundleMissing"
	// ReasonCABundleUnusable: what a caBundle names has no certificate, or is too large. Also used for a Turn that waits
	// for it.
	ReasonCABundleUnusable = "CABundleUnusable"
	// ReasonToolsNotDiscovered: the url or the headers of an MCPServer have changed, and its tools have not been
	// discovered since. A call of one of them waits.
	ReasonToolsNotDiscovered = "ToolsNotDiscovered"
	// ReasonIdentityUnavailable: the manager cannot sign the identity token that an MCPServer demands. A call of one
	// of its tools waits.
	ReasonIdentityUnavailable = "IdentityUnavailable"
	// ReasonToolNotFound: a referenced Tool does not exist yet.
	ReasonToolNotFound = "ToolNotFound"
	// ReasonMCPServerNotFound: a referenced MCPServer does not exist yet.
	ReasonMCPServerNotFound = "MCPServerNotFound"
	// ReasonMCPServerNotReady: a referenced MCPServer exists and is not Ready.
	ReasonMCPServerNotReady = "MCPServerNotReady"
	// ReasonTooManyMCPServers: the layers name more MCPServers than a Session may have.
	ReasonTooManyMCPServers = "TooManyMCPServers"
	// ReasonDiscoveryFailed: the server did not list its tools.
	ReasonDiscoveryFailed = "DiscoveryFailed"
	// ReasonDefinitionsTooLarge: the server has more tools, or larger definitions of them, than an MCPServer may have.
	ReasonDefinitionsTooLarge = "DefinitionsTooLarge"
	// ReasonCapabilityNotFound: a Capability that is named does not exist yet, or the manager has no capability of that
	// name.
	ReasonCapabilityNotFound = "CapabilityNotFound"
	// ReasonCapabilityInvalid: a capability cannot be used as it is: its configuration is invalid, a Capability that is
	// named has an invalid configSchema, its dependencies are a cycle, or there are too many.
	ReasonCapabilityInvalid = "CapabilityInvalid"
	// ReasonBlueprintInvalid: the blueprint of a Session does not exist in its Capability, or cannot be used as it is.
	ReasonBlueprintInvalid = "BlueprintInvalid"
	// ReasonCapabilityRisk: a capability has a higher risk than a reference to it accepts.
	ReasonCapabilityRisk = "CapabilityRisk"
	// ReasonHookInvalid: a hook cannot run as it is, or a layer disables a hook of a higher one.
	ReasonHookInvalid = "HookInvalid"
	// ReasonSessionStarting: the hooks at the start of a Session have not ended.
	ReasonSessionStarting = "SessionStarting"
	// ReasonInitialFilesInvalid: the initial files of the layers cannot be the files of one Session.
	ReasonInitialFilesInvalid = "InitialFilesInvalid"
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
	// cannot send. Also, on a Capability, for its own configSchema and those of its blueprints.
	ReasonInvalidSchema = "InvalidSchema"
)

// Reasons of ConditionReady of a Schedule, besides ReasonReady, ReasonSuspended and ReasonSessionNotFound.
const (
	// ReasonCompleted: the one time of a Schedule with at has come, or has passed.
	ReasonCompleted = "Completed"
	// ReasonInvalidSchedule: the schedule is no cron expression, or it has no time within five years.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonUnknownTimeZone: the timeZone is not in the time zone database.
	ReasonUnknownTimeZone = "UnknownTimeZone"
	// ReasonStartFailing: the API server refuses the Turn of a tick, or its Session. It is tried again.
	ReasonStartFailing = "StartFailing"
	// ReasonNameTaken: another object has the name of the Turn of a tick, or of its Session.
	ReasonNameTaken = "NameTaken"
	// ReasonSessionReplaced: the Session of a Schedule with submittedBy was created again since the spec was changed.
	ReasonSessionReplaced = "SessionReplaced"
)

// Reasons of ConditionReady of a LeasedResource, besides ReasonReady.
const (
	// ReasonCleaning: a leased resource is being cleaned up.
	ReasonCleaning = "Cleaning"
	// ReasonCleanupFailed: a leased resource could not be cleaned up. The clean-up is repeated. Also the reason of an
	// Event.
	ReasonCleanupFailed = "CleanupFailed"
	// ReasonReleased: a leased resource was cleaned up.
	ReasonReleased = "Released"
	// ReasonAbandoned: a leased resource is not cleaned up by the manager.
	ReasonAbandoned = "Abandoned"
)

// Reasons of the conditions of a Budget.
const (
	// ReasonLimitReached: a model call did not fit into the rest of the limit.
	ReasonLimitReached = "LimitReached"
	// ReasonSoftLimitReached: more than softLimit is spent.
	ReasonSoftLimitReached = "SoftLimitReached"
	// ReasonBalanceLow: a fifth of the limit or less is left.
	ReasonBalanceLow = "BalanceLow"
	// ReasonWithinLimit: the Budget has room.
	ReasonWithinLimit = "WithinLimit"
)

// Reasons of ConditionAccepted.
const (
	// ReasonAccepted: the Turn has accepted the result.
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
	// ReasonNoInputExpected: the ToolResult answers a question that the call does not ask, or that has its answer.
	ReasonNoInputExpected = "NoInputExpected"
	// ReasonInputExpected: the ToolResult has a result or an error for a call that waits for input.
	ReasonInputExpected = "InputExpected"
	// ReasonInvalidInput: the content of the answer does not match requestedSchema, or is too large.
	ReasonInvalidInput = "InvalidInput"
	// ReasonCallDigestMismatch: the decision or the answer names another callDigest than the call that waits.
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
	// ReasonInput: the Turn, or the tool call, waits for the answer to a question of a tool.
	ReasonInput = "Input"
	// ReasonConnection: the Turn, or the tool call, waits for a connection that a tool needs.
	ReasonConnection = "Connection"
	// ReasonConnectionUnavailable: a tool call needs the connection of a user, whose token cannot be refreshed at the
	// moment.
	ReasonConnectionUnavailable = "ConnectionUnavailable"
	// ReasonSubAgent: calls of the Turn run as sub-agents.
	ReasonSubAgent = "SubAgent"
	// ReasonBudgetFull: the next model call fits into a Budget once other calls have ended. Also used for a Budget that
	// has as many open reservations as it may have.
	ReasonBudgetFull = "BudgetFull"
	// ReasonBudgetPaused: more than softLimit of a Budget is spent.
	ReasonBudgetPaused = "BudgetPaused"
	// ReasonBudgetNeedsPrice: a Budget in a currency selects the Session, and its Model has no price in that currency, or
	// no maxOutputTokens.
	ReasonBudgetNeedsPrice = "BudgetNeedsPrice"
	// ReasonBudgetInvalid: a Budget of the namespace cannot be used.
	ReasonBudgetInvalid = "BudgetInvalid"
	// ReasonRateLimited: the limits of the Turn's Model have no room for the next call now.
	ReasonRateLimited = "RateLimited"
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
	// ReasonStoreUnavailable: this manager has no access to the store that has the journal of the Session.
	ReasonStoreUnavailable = "StoreUnavailable"
	// ReasonStepFailing: the step fails repeatedly with a transient error. It is retried.
	ReasonStepFailing = "StepFailing"
)

// Reasons of the condition Succeeded of a Turn that failed, one for each ErrorCode.
const (
	// ReasonModelUnavailable: see ErrorCodeModelUnavailable.
	ReasonModelUnavailable = "ModelUnavailable"
	// ReasonRequestTooLarge: see ErrorCodeRequestTooLarge.
	ReasonRequestTooLarge = "RequestTooLarge"
	// ReasonProviderRateLimited: see ErrorCodeProviderRateLimited.
	ReasonProviderRateLimited = "ProviderRateLimited"
	// ReasonProviderMisconfigured: see ErrorCodeProviderMisconfigured.
	ReasonProviderMisconfigured = "ProviderMisconfigured"
	// ReasonProviderQuotaExhausted: see ErrorCodeProviderQuotaExhausted.
	ReasonProviderQuotaExhausted = "ProviderQuotaExhausted"
	// ReasonProviderUnavailable: see ErrorCodeProviderUnavailable.
	ReasonProviderUnavailable = "ProviderUnavailable"
	// ReasonDependencyUnavailable: see ErrorCodeDependencyUnavailable.
	ReasonDependencyUnavailable = "DependencyUnavailable"
	// ReasonProcessingError: see ErrorCodeProcessingError.
	ReasonProcessingError = "ProcessingError"
	// ReasonCancelled: the Turn was cancelled.
	ReasonCancelled = "Cancelled"
	// ReasonBlockedByUserPromptHook: a hook has blocked the message.
	ReasonBlockedByUserPromptHook = "BlockedByUserPromptHook"
	// ReasonDeadlineExceeded: the Turn took longer than activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonWaitTimeout: the Turn waited for tool results longer than waitTimeout.
	ReasonWaitTimeout = "WaitTimeout"
	// ReasonJournalFull: the Session's journal has reached spec.journalLimit.
	ReasonJournalFull = "JournalFull"
	// ReasonNameReused: the name belongs to another Turn of the Session, which had another message.
	ReasonNameReused = "NameReused"
	// ReasonInterrupted: see ErrorCodeInterrupted.
	ReasonInterrupted = "Interrupted"
	// ReasonBudgetExhausted: the next model call does not fit into the rest of a Budget. Also used for a Turn that waits
	// for it.
	ReasonBudgetExhausted = "BudgetExhausted"
)

// Reasons of the end of a tool call, in status.toolCalls[].reason of a Turn and as the value of a metric label. The
// list is closed.
const (
	// ToolCallReasonCompleted: the call has its result; a command exited with 0.
	ToolCallReasonCompleted = "Completed"
	// ToolCallReasonExitCode: the tool exited with a code other than 0, or terminated itself by a signal. It is never
	// retried.
	ToolCallReasonExitCode = "ExitCode"
	// ToolCallReasonTimeout: the tool ran longer than its timeout.
	ToolCallReasonTimeout = "Timeout"
	// ToolCallReasonStartTimeout: the tool's container did not start within its start timeout, and the cause is unknown.
	ToolCallReasonStartTimeout = "StartTimeout"
	// ToolCallReasonStartError: the container or the command in it could not be started.
	ToolCallReasonStartError = "StartError"
	// ToolCallReasonImagePull: the image of the tool, or of the launcher, could not be pulled.
	ToolCallReasonImagePull = "ImagePull"
	// ToolCallReasonUnschedulable: the pod could not be scheduled.
	ToolCallReasonUnschedulable = "Unschedulable"
	// ToolCallReasonQuotaExceeded: the Job or its pod exceeds a quota of the namespace.
	ToolCallReasonQuotaExceeded = "QuotaExceeded"
	// ToolCallReasonRefused: the API server, or an admission policy, rejected the Job or its pod.
	ToolCallReasonRefused = "Refused"
	// ToolCallReasonNetworkOpen: the tool must run without network access, and the NetworkPolicies of the namespace
	// permit traffic.
	ToolCallReasonNetworkOpen = "NetworkOpen"
	// ToolCallReasonNetworkAccessUnenforceable: networkAccess is in effect and cannot be enforced for the
	// pod of the tool.
	ToolCallReasonNetworkAccessUnenforceable = "NetworkAccessUnenforceable"
	// ToolCallReasonNoPod: the Job got no pod, and the cause is unknown.
	ToolCallReasonNoPod = "NoPod"
	// ToolCallReasonToolChanged: the Tool was changed or deleted after the call was planned, or an MCPServer has changed
	// the tool since the model was shown it.
	ToolCallReasonToolChanged = "ToolChanged"
	// ToolCallReasonRateLimited: callsPerMinute of the Tool or the MCPServer had no room for the call.
	ToolCallReasonRateLimited = "RateLimited"
	// ToolCallReasonLeaseUnavailable: a tool with a lease was not called, because what it creates could not be cleaned up,
	// or because too many resources are not cleaned up yet.
	ToolCallReasonLeaseUnavailable = "LeaseUnavailable"
	// ToolCallReasonLeaseNotKept: a tool with a lease has run, and there is no lease on what it has created: the response
	// has no id, or the lease was refused.
	ToolCallReasonLeaseNotKept = "LeaseNotKept"
	// ToolCallReasonConnectionRequired: the tool needs a connection to a provider, which was not set up, or which the Turn
	// has no user for.
	ToolCallReasonConnectionRequired = "ConnectionRequired"
	// ToolCallReasonRejected: the call needs approval, and was rejected.
	ToolCallReasonRejected = "Rejected"
	// ToolCallReasonApprovalTimeout: the call needs approval, and was not approved in time.
	ToolCallReasonApprovalTimeout = "ApprovalTimeout"
	// ToolCallReasonOOMKilled: the tool was killed because it used more memory than its limit.
	ToolCallReasonOOMKilled = "OOMKilled"
	// ToolCallReasonDisruption: the pod was evicted, preempted or deleted before the tool had ended.
	ToolCallReasonDisruption = "Disruption"
	// ToolCallReasonKilled: the tool's container was killed from outside, by an unknown party.
	ToolCallReasonKilled = "Killed"
	// ToolCallReasonNodeLost: the node stopped reporting, or lost the container.
	ToolCallReasonNodeLost = "NodeLost"
	// ToolCallReasonOutputLost: the tool ended, and its output cannot be read.
	ToolCallReasonOutputLost = "OutputLost"
	// ToolCallReasonSecondStart: a pod or a container other than the first one ran or would have run; the first one's end
	// is not known.
	ToolCallReasonSecondStart = "SecondStart"
	// ToolCallReasonPodGone: the pod for the call no longer exists, and its end was not observed.
	ToolCallReasonPodGone = "PodGone"
	// ToolCallReasonHTTPStatus: the server responded with a status other than 200 to 299. It is never retried.
	ToolCallReasonHTTPStatus = "HTTPStatus"
	// ToolCallReasonInvalidRequest: the request of the Tool is invalid.
	ToolCallReasonInvalidRequest = "InvalidRequest"
	// ToolCallReasonInvalidArguments: the arguments cannot be sent the way that the Tool sends them.
	ToolCallReasonInvalidArguments = "InvalidArguments"
	// ToolCallReasonArgumentsTooLarge: the arguments are larger than a request's URL can be.
	ToolCallReasonArgumentsTooLarge = "ArgumentsTooLarge"
	// ToolCallReasonFilesTooLarge: the files that the tool gets are larger than a call can have.
	ToolCallReasonFilesTooLarge = "FilesTooLarge"
	// ToolCallReasonSecretUnusable: a Secret for a header does not exist, lacks the key, holds no valid header, or is
	// bound to other hosts.
	ToolCallReasonSecretUnusable = "SecretUnusable"
	// ToolCallReasonAddressRefused: the manager may not reach the host.
	ToolCallReasonAddressRefused = "AddressRefused"
	// ToolCallReasonNetworkAccessDenied: the network access list does not permit the URL.
	ToolCallReasonNetworkAccessDenied = "NetworkAccessDenied"
	// ToolCallReasonConnectionFailed: no connection to the host was established, or none that can be trusted.
	ToolCallReasonConnectionFailed = "ConnectionFailed"
	// ToolCallReasonTaskLost: the server does not know the task any more that the call has become.
	ToolCallReasonTaskLost = "TaskLost"
	// ToolCallReasonConnectionLost: the connection was closed before the response was complete.
	ToolCallReasonConnectionLost = "ConnectionLost"
	// ToolCallReasonPaymentRefused: the server asks for a payment, and nothing was paid: the Tool, its wallet or their
	// limits do not permit it.
	ToolCallReasonPaymentRefused = "PaymentRefused"
	// ToolCallReasonPaymentFailed: the payment could not be recorded, so that it was not made.
	ToolCallReasonPaymentFailed = "PaymentFailed"
	// ToolCallReasonRedirectRefused: the server redirected the request to a forbidden destination.
	ToolCallReasonRedirectRefused = "RedirectRefused"
	// ToolCallReasonPanicked: the function that replaces the tool's container panicked. Such functions exist only in the
	// in-process runtime.
	ToolCallReasonPanicked = "Panicked"
	// ToolCallReasonNoFunction: no function replaces the tool's container in the in-process runtime.
	ToolCallReasonNoFunction = "NoFunction"
	// ToolCallReasonServerError: the server of the Model Context Protocol rejected the call.
	ToolCallReasonServerError = "ServerError"
	// ToolCallReasonToolError: a tool that is part of the manager, or the tool of an MCPServer, returned an error.
	ToolCallReasonToolError = "ToolError"
	// ToolCallReasonInternalError: a tool that is part of the manager failed because of a defect. The manager's log has
	// the cause.
	ToolCallReasonInternalError = "InternalError"
	// ToolCallReasonManagerLost: the manager ended, or lost leadership, while the request was in progress.
	ToolCallReasonManagerLost = "ManagerLost"
	// ToolCallReasonLogFull: the Session's journal had no room for the claim of the call.
	ToolCallReasonLogFull = "LogFull"
	// ToolCallReasonJobGone: the Job of the call no longer exists, and its end was not observed.
	ToolCallReasonJobGone = "JobGone"
	// ToolCallReasonNameTaken: the Session or the Turn that the call needs exists already, and is not that of the call.
	ToolCallReasonNameTaken = "NameTaken"
	// ToolCallReasonSubAgentFailed: the Turn of the sub-agent has failed.
	ToolCallReasonSubAgentFailed = "SubAgentFailed"
	// ToolCallReasonSubAgentCancelled: the Turn of the sub-agent was cancelled.
	ToolCallReasonSubAgentCancelled = "SubAgentCancelled"
	// ToolCallReasonSubAgentGone: the Session or the Turn of the sub-agent was deleted before the Turn had ended.
	ToolCallReasonSubAgentGone = "SubAgentGone"
	// ToolCallReasonSubAgentLimit: the Turn has used up its sub-agents, the tree of sub-agents is too deep, or the
	// namespace has too many Turns.
	ToolCallReasonSubAgentLimit = "SubAgentLimit"
	// ToolCallReasonBackgroundForbidden: the tool cannot run as a background task here.
	ToolCallReasonBackgroundForbidden = "BackgroundForbidden"
	// ToolCallReasonBackgroundLimit: the Session or the namespace has too many background tasks, or too many have
	// followed from one message.
	ToolCallReasonBackgroundLimit = "BackgroundLimit"
	// ToolCallReasonTaskCancelled: the background task was cancelled.
	ToolCallReasonTaskCancelled = "TaskCancelled"
)

// Reasons why a call has not started yet.
const (
	// ToolCallReasonSuspended: the Job is suspended; the start timeout does not run.
	ToolCallReasonSuspended = "Suspended"
	// ToolCallReasonGated: the pod waits to be recorded and released.
	ToolCallReasonGated = "Gated"
	// ToolCallReasonServiceAccountRefused: the API server rejects the ServiceAccount of the pod. The manager retries until
	// the start timeout has passed.
	ToolCallReasonServiceAccountRefused = "ServiceAccountRefused"
	// ToolCallReasonStarting: the pod or its container is being created.
	ToolCallReasonStarting = "Starting"
)

// Reasons of the end of a call that the manager did not run.
const (
	// ToolCallReasonClientResult: a client provided the result.
	ToolCallReasonClientResult = "ClientResult"
	// ToolCallReasonClientError: a client provided an error.
	ToolCallReasonClientError = "ClientError"
	// ToolCallReasonNoClient: according to the Session's hints, no client provides results of client tools.
	ToolCallReasonNoClient = "NoClient"
	// ToolCallReasonSteered: a new message came while the Turn waited for a result of the call, or for its approval.
	ToolCallReasonSteered = "Steered"
	// ToolCallReasonTurnEnded: the Turn ended before the call had a result.
	ToolCallReasonTurnEnded = "TurnEnded"
	// ToolCallReasonBlockedByHook: a hook has blocked the call.
	ToolCallReasonBlockedByHook = "BlockedByHook"
	// ToolCallReasonFailedByHook: the call has succeeded, and a hook after it has replaced its result by an error.
	ToolCallReasonFailedByHook = "FailedByHook"
	// ToolCallReasonToolNotFound: the model named a tool that it was not offered.
	ToolCallReasonToolNotFound = "ToolNotFound"
)
