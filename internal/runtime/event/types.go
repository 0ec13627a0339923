package event

// Types of events (EVT-03). Types are added, never changed.
const (
	// TypeInputMessage: the user's message was added to the conversation.
	TypeInputMessage = "input.message"
	// TypeSessionActivated: the Session has an active turn (LIFE-01).
	TypeSessionActivated = "session.activated"
	// TypeSessionIdled: the Session has no active turn any more (LIFE-04).
	TypeSessionIdled = "session.idled"
	// TypeTurnStarted: a turn began (LIFE-01).
	TypeTurnStarted = "turn.started"
	// TypeTurnCompleted: a turn ended with a response (LIFE-02).
	TypeTurnCompleted = "turn.completed"
	// TypeTurnFailed: a turn ended with an error (LIFE-06).
	TypeTurnFailed = "turn.failed"
	// TypeReasonStarted: a reason step began (LLM-02).
	TypeReasonStarted = "reason.started"
	// TypeReasonCompleted: a reason step ended, with a response or with an error (LLM-02, LLM-03).
	TypeReasonCompleted = "reason.completed"
	// TypeOutputMessageStarted: the model began to respond.
	TypeOutputMessageStarted = "output.message.started"
	// TypeOutputMessageCompleted: the response is complete.
	TypeOutputMessageCompleted = "output.message.completed"
	// TypeReasonRecovered: an earlier process had begun to receive the response (PART-02).
	TypeReasonRecovered = "reason.recovered"
	// TypeLLMGeneration: a call of a provider ended, with its usage.
	TypeLLMGeneration = "llm.generation"
	// TypeTranscriptRepaired: a tool call without a result received one for the prompt (DUR-08).
	TypeTranscriptRepaired = "transcript.repaired"
	// TypeContextCompacting: the conversation is about to be compacted (LLM-08).
	TypeContextCompacting = "context.compacting"
	// TypeContextCompacted: the conversation was compacted (LLM-08).
	TypeContextCompacted = "context.compacted"
	// TypeActStarted: an act step began (TOOL-11).
	TypeActStarted = "act.started"
	// TypeActCompleted: an act step ended (TOOL-11).
	TypeActCompleted = "act.completed"
	// TypeToolStarted: a tool call was started (TOOL-11).
	TypeToolStarted = "tool.started"
	// TypeToolProgress: a running tool call has made progress (CTX-03). It is only live: no journal has it, and it has no
	// id.
	TypeToolProgress = "tool.progress"
	// TypeToolCompleted: a tool call has its result (TOOL-11, TOOL-15).
	TypeToolCompleted = "tool.completed"
	// TypeToolRateLimited: a tool call was refused by a rate limit, and has no other event (TOOL-14).
	TypeToolRateLimited = "tool.rate_limited"
	// TypeToolCallRequested: results are requested from the client of the Session (TOOL-17).
	TypeToolCallRequested = "tool.call_requested"
	// TypeSubAgentSpawned: a tool call was started as a sub-agent (SPAWN-05).
	TypeSubAgentSpawned = "subagent.spawned"
	// TypeSubAgentCompleted: a sub-agent has returned a result.
	TypeSubAgentCompleted = "subagent.completed"
	// TypeSubAgentFailed: a sub-agent has ended without a result.
	TypeSubAgentFailed = "subagent.failed"
	// TypeSubAgentCancelled: a sub-agent was cancelled, by a user or by the end of the turn.
	TypeSubAgentCancelled = "subagent.cancelled"
	// TypeBudgetWarning: a fifth of the limit of a Budget or less is left (BUDGET-03).
	TypeBudgetWarning = "budget.warning"
	// TypeBudgetPaused: the turn waited for a Budget (BUDGET-03).
	TypeBudgetPaused = "budget.paused"
	// TypeBudgetExhausted: the next model call did not fit into the rest of a Budget (BUDGET-03).
	TypeBudgetExhausted = "budget.exhausted"
	// TypeBudgetResumed: the turn continued after it had waited for a Budget (BUDGET-03).
	TypeBudgetResumed = "budget.resumed"
)

// Keys of an event's context (EVT-02).
const (
	// ContextTurn is the UID of the Turn.
	ContextTurn = "turn_id"
	// ContextInputMessage is the id of the user's message of the turn.
	ContextInputMessage = "input_message_id"
	// ContextExec is the id of one run of a phase (PHASE-09).
	ContextExec = "exec_id"
	// ContextTrace is the id of the trace: the UID of the Turn.
	ContextTrace = "trace_id"
	// ContextSpan is the id of the span that the event belongs to: 16 hexadecimal digits.
	ContextSpan = "span_id"
	// ContextParentSpan is the id of the span around that one.
	ContextParentSpan = "parent_span_id"
)

// Status strings of tool.completed (TOOL-13).
const (
	// StatusSuccess: the tool returned a result.
	StatusSuccess = "success"
	// StatusError: the tool, or the client, returned an error.
	StatusError = "error"
	// StatusTimeout: the tool ran out of time.
	StatusTimeout = "timeout"
	// StatusCancelled: the call was abandoned.
	StatusCancelled = "cancelled"
	// StatusInterrupted: the tool started, and its outcome cannot be determined.
	StatusInterrupted = "interrupted"
)

// Actions of transcript.repaired (DUR-08).
const (
	// ActionReplay: the recorded outcome was put into the prompt.
	ActionReplay = "replay"
	// ActionSynthesize: a sentence replaced the missing outcome.
	ActionSynthesize = "synthesize"
)
