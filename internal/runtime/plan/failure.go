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
	v1alpha1.ErrorCodeModelUnavailable:    "The model is not available. Choose another one.",
	v1alpha1.ErrorCodeRequestTooLarge:     "The conversation is too long for the model. Shorten it or start a new session.",
	v1alpha1.ErrorCodeProviderRateLimited: "The model provider is limiting requests. Try again in a moment.",
	v1alpha1.ErrorCodeProviderMisconfigured: "The access to the model provider is not set up correctly. " +
		"Correct the Model and its API key.",
	v1alpha1.ErrorCodeProviderQuotaExhausted: "The quota at the model provider is used up. " +
		"Raise it there, or choose a Model with another one.",
	v1alpha1.ErrorCodeProviderUnavailable: "The model provider has a problem. Try again later.",
	v1alpha1.ErrorCodeDependencyUnavailable: "The session depends on something that is no longer available. " +
		"Make it available again, or go on without it.",
	v1alpha1.ErrorCodeCancelled: "The turn was cancelled.",
}

const (
	// refusedSentence is for a request that the provider refused for a reason of its own.
	refusedSentence = "The model provider refused the request."
	// otherSentence is for every other failure without a sentence of its own.
	otherSentence = "The turn could not be processed. Create another Turn to try again; if that fails too, the " +
		"manager's log has the cause."
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
