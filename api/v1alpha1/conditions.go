package v1alpha1

// Condition types.
const (
	// ConditionReady on Harness, Agent, Session, Model and Tool: True when the object can be used.
	ConditionReady = "Ready"
	// ConditionAccepted on ToolResult: True once its Turn has accepted the result, False once the result is refused.
	ConditionAccepted = "Accepted"
	// ConditionSucceeded on Turn: Unknown until the Turn ends, then True with the stop reason or False with the error's
	// reason.
	ConditionSucceeded = "Succeeded"
	// ConditionFinished on Turn: True once the Turn has ended, whatever the outcome.
	ConditionFinished = "Finished"
	// ConditionWaitingForToolResults on Turn: True while the Turn waits for ToolResults from clients or approvers.
	ConditionWaitingForToolResults = "WaitingForToolResults"
	// ConditionRecovered on Turn: True when a response of the Turn was recorded as complete although the manager
	// stopped while it was streaming. Otherwise it is absent.
	ConditionRecovered = "Recovered"
	// ConditionReconciling on Turn and ToolResult, as kstatus defines it: True while the Turn runs or waits, and while
	// the result waits.
	ConditionReconciling = "Reconciling"
	// ConditionExhausted on Budget: True once a model call did not fit into the rest of the limit, until the limit is
	// changed or the next window begins.
	ConditionExhausted = "Exhausted"
	// ConditionPaused on Budget: True while more than softLimit is spent.
	ConditionPaused = "Paused"
	// ConditionLowBalance on Budget: True while a fifth of the limit or less is left.
	ConditionLowBalance = "LowBalance"
	// ConditionReachable on Model: True when the provider has accepted the last probe that spec.probe requests.
	ConditionReachable = "Reachable"
	// ConditionStalled, as kstatus defines it: True when the Turn failed or needs a repair before it can make progress,
	// when the ToolResult was refused, and on Harness, Model and Tool when only a change of the spec can make the
	// object usable.
	ConditionStalled = "Stalled"
)
