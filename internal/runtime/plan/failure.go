package plan

import (
	"maps"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Failure is why a Turn failed, in a form that a user interface can translate.
type Failure struct {
	// Code of the Turn's error.
	Code v1alpha1.ErrorCode
	// Fields are the details, by the names of v1alpha1.ErrorField; nil for none.
	Fields map[string]string
}

// With returns the failure with one more field.
func (f Failure) With(name, value string) Failure {
	fields := map[string]string{}
	maps.Copy(fields, f.Fields)
	fields[name] = value
	f.Fields = fields
	return f
}

var sentences = map[v1alpha1.ErrorCode]string{
	v1alpha1.ErrorCodeModelUnavailable: "The model is not available. Choose another one.",
	v1alpha1.ErrorCodeRequestTooLarge: "The conversation is too long for the model. Shorten it or start a new " +
		"session.",
	v1alpha1.ErrorCodeProviderRateLimited: "The model provider is rate limiting requests. Try again later.",
	v1alpha1.ErrorCodeProviderMisconfigured: "The model provider is misconfigured. " +
		"Correct the Model and its API key.",
	v1alpha1.ErrorCodeProviderQuotaExhausted: "The quota of the model provider is exhausted. " +
		"Raise it, or choose a Model of another account.",
	v1alpha1.ErrorCodeProviderUnavailable: "The model provider is unavailable. Try again later.",
	v1alpha1.ErrorCodeDependencyUnavailable: "A dependency of the session is no longer available. " +
		"Restore it, or continue without it.",
	v1alpha1.ErrorCodeBlockedByUserPromptHook: "The message was blocked by a hook. Change it and send it again.",
	v1alpha1.ErrorCodeCancelled:               "The turn was cancelled.",
	v1alpha1.ErrorCodeBudgetExhausted:         "A budget is exhausted. Raise its limit, or continue later.",
}

const (
	// refusedSentence is for a request that the provider rejected for a reason of its own.
	refusedSentence = "The model provider rejected the request."
	// otherSentence is for every other failure without a sentence of its own.
	otherSentence = "The turn could not be processed. Create another Turn to try again; if it fails too, see the " +
		"manager's log."
)

// IsSentence reports whether a text is the sentence of a failure, and nothing more (LLM-07).
func IsSentence(text string) bool {
	if text == refusedSentence || text == otherSentence {
		return true
	}
	for _, sentence := range sentences {
		if text == sentence {
			return true
		}
	}
	return false
}

// Sentence returns a plain text for the user without internal details; a generic one for a failure that has none of its
// own (GAP-07).
func (f Failure) Sentence() string {
	if sentence, known := sentences[f.Code]; known {
		return sentence
	}
	if f.Fields[v1alpha1.ErrorFieldProblem] != "" {
		return refusedSentence
	}
	return otherSentence
}
