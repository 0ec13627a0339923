package v1alpha1

// ErrorCode is why a Turn failed, for programs to read.
type ErrorCode string

// Error codes of a Turn. The reason of its condition Succeeded is the same in CamelCase: deadline_exceeded is
// DeadlineExceeded.
const (
	// ErrorCodeModelUnavailable: there is no such model, or no driver for it, or the API key may not use it.
	ErrorCodeModelUnavailable ErrorCode = "model_unavailable"
	// ErrorCodeRequestTooLarge: the conversation is longer than the model, the manager or the journal can hold.
	ErrorCodeRequestTooLarge ErrorCode = "request_too_large"
	// ErrorCodeProviderRateLimited: the model provider limits requests.
	ErrorCodeProviderRateLimited ErrorCode = "provider_rate_limited"
	// ErrorCodeProviderMisconfigured: the address or the API key of the Model is wrong.
	ErrorCodeProviderMisconfigured ErrorCode = "provider_misconfigured"
	// ErrorCodeProviderQuotaExhausted: the quota at the model provider is exhausted.
	ErrorCodeProviderQuotaExhausted ErrorCode = "provider_quota_exhausted"
	// ErrorCodeProviderUnavailable: the model provider has a problem or cannot be reached.
	ErrorCodeProviderUnavailable ErrorCode = "provider_unavailable"
	// ErrorCodeDependencyUnavailable: the Harness or the Agent of the Session is archived or does not exist.
	ErrorCodeDependencyUnavailable ErrorCode = "dependency_unavailable"
	// ErrorCodeBlockedByUserPromptHook: a hook has blocked the message.
	ErrorCodeBlockedByUserPromptHook ErrorCode = "blocked_by_user_prompt_hook"
	// ErrorCodeProcessingError: any other failure.
	ErrorCodeProcessingError ErrorCode = "processing_error"
	// ErrorCodeCancelled: the Turn was cancelled or deleted.
	ErrorCodeCancelled ErrorCode = "cancelled"
	// ErrorCodeDeadlineExceeded: the Turn took longer than its activeDeadlineSeconds.
	ErrorCodeDeadlineExceeded ErrorCode = "deadline_exceeded"
	// ErrorCodeWaitTimeout: the Turn waited for tool results longer than its waitTimeout.
	ErrorCodeWaitTimeout ErrorCode = "wait_timeout"
	// ErrorCodeJournalFull: the journal of the Session has no room for the Turn.
	ErrorCodeJournalFull ErrorCode = "journal_full"
	// ErrorCodeNameReused: a Turn of the same name with another message was in the Session before.
	ErrorCodeNameReused ErrorCode = "name_reused"
	// ErrorCodeInterrupted: the Turn ran before, and its end is not in the journal.
	ErrorCodeInterrupted ErrorCode = "interrupted"
	// ErrorCodeBudgetExhausted: the next model call does not fit into a Budget that ends Turns.
	ErrorCodeBudgetExhausted ErrorCode = "budget_exhausted"
)

// Fields of a Turn's error.
const (
	// ErrorFieldProblem explains what is wrong, in the words of the provider if they are known.
	ErrorFieldProblem = "problem"
	// ErrorFieldRemedy explains what to do, with the names of the objects to change.
	ErrorFieldRemedy = "remedy"
	// ErrorFieldProvider is the name of the model provider.
	ErrorFieldProvider = "provider"
	// ErrorFieldModelID is the provider's name of the model.
	ErrorFieldModelID = "model_id"
	// ErrorFieldRetryAfter is the number of seconds that the provider demands before the next request.
	ErrorFieldRetryAfter = "retry_after"
	// ErrorFieldDependency is the kind of the object that blocks the Turn: harness or agent; or hooks.
	ErrorFieldDependency = "dependency"
	// ErrorFieldBudget is the name of the Budget that has ended the Turn.
	ErrorFieldBudget = "budget"
	// ErrorFieldHook is the id of the hook that has blocked the Turn.
	ErrorFieldHook = "hook"
	// ErrorFieldState is the state of that object: archived, deleted, incomplete or invalid.
	ErrorFieldState = "state"
)
