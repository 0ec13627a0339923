package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// ErrorCode is a stable, user-facing error code (ERR-01). Hosts may add codes of their own.
type ErrorCode string

// The error codes of ERR-01, and CodeCancelled.
const (
	CodeBudgetExhausted        ErrorCode = "budget_exhausted"
	CodeBudgetPaused           ErrorCode = "budget_paused"
	CodeSoftLimitReached       ErrorCode = "soft_limit_reached"
	CodeModelUnavailable       ErrorCode = "model_unavailable"
	CodeRequestTooLarge        ErrorCode = "request_too_large"
	CodeProviderRateLimited    ErrorCode = "provider_rate_limited"
	CodeProviderMisconfigured  ErrorCode = "provider_misconfigured"
	CodeProviderQuotaExhausted ErrorCode = "provider_quota_exhausted"
	CodeProviderUnavailable    ErrorCode = "provider_unavailable"
	CodeDependencyUnavailable  ErrorCode = "dependency_unavailable"
	CodeProcessingError        ErrorCode = "processing_error"
	CodeBlockedByHook          ErrorCode = "blocked_by_hook"
	CodeMaxIterations          ErrorCode = "max_iterations"
	CodeCancelled              ErrorCode = "cancelled"
)

// GenericError is the error text of a failure that came without one (GAP-07).
const GenericError = "the turn failed without giving an error"

// Failure classifies why a turn failed, in a form that a user interface can translate.
type Failure struct {
	// Code is one of the codes above, or one of the host's.
	Code ErrorCode `json:"code"`
	// Fields are the details of the code, such as model_id; nil when there are none. Values are strings and numbers.
	Fields map[string]any `json:"fields,omitempty"`
}

// UnmarshalJSON leaves out fields that are null, which are not stored (ERR-03).
func (f *Failure) UnmarshalJSON(data []byte) error {
	type fields Failure
	var decoded fields
	if err := json.Unmarshal(data, &decoded); err != nil {
		return fmt.Errorf("decoding the failure: %w", err)
	}
	maps.DeleteFunc(decoded.Fields, func(_ string, value any) bool { return value == nil })
	if len(decoded.Fields) == 0 {
		decoded.Fields = nil
	}
	*f = Failure(decoded)
	return nil
}

var sentences = map[ErrorCode]string{
	CodeBudgetExhausted:     "The budget is used up. Raise it to go on.",
	CodeBudgetPaused:        "The budget is paused. Raise or resume it to go on.",
	CodeSoftLimitReached:    "A soft limit of the budget has been reached. Raise it to go on.",
	CodeModelUnavailable:    "The model is not available. Choose another one.",
	CodeRequestTooLarge:     "The conversation is too long for the model. Shorten it or start a new session.",
	CodeProviderRateLimited: "The model provider is limiting requests. Try again in a moment.",
	CodeProviderMisconfigured: "The access to the model provider is not set up correctly. " +
		"Correct the Model and its API key.",
	CodeProviderQuotaExhausted: "The quota at the model provider is used up. " +
		"Raise it there, or choose a Model with another one.",
	CodeProviderUnavailable: "The model provider has a problem. Try again later.",
	CodeDependencyUnavailable: "The session depends on something that is no longer available. " +
		"Make it available again, or go on without it.",
	CodeBlockedByHook: "A hook has refused the message. Change the message.",
	CodeMaxIterations: "The turn has used all its iterations. Raise maxIterations to permit more.",
	CodeCancelled:     "The turn was cancelled.",
}

const (
	// FieldProblem is the field that explains what is wrong, and what to do if that is known.
	FieldProblem = "problem"
	// FieldRemedy is the field that says what to do, with the names of the objects to change.
	FieldRemedy = "remedy"
)

// With returns the failure with one more field.
func (f Failure) With(name string, value any) Failure {
	fields := map[string]any{name: value}
	for other, given := range f.Fields {
		if other != name {
			fields[other] = given
		}
	}
	f.Fields = fields
	return f
}

// Sentence is a plain text for the user without internal details.
func (f Failure) Sentence() string {
	if sentence, known := sentences[f.Code]; known {
		return sentence
	}
	if f.Fields[FieldProblem] != nil {
		return "The model provider refused the request."
	}
	return "The turn could not be processed. Create another Turn to try again; if that fails too, the manager's log has " +
		"the cause."
}

// ErrorContext is the caller's knowledge about a failed model call. Empty values add no field.
type ErrorContext struct {
	// Provider and ModelID name the provider and the model of the call.
	Provider, ModelID string
	// RetryAfterSeconds is the pause that the provider requested.
	RetryAfterSeconds int64
}

// ClassifyFailure classifies a failed reason step by the text for the user and the technical error, which may be empty
// (TURN-10). The error decides, unless it says nothing, is of no known class, or is of the same class as the text but
// without its details.
func ClassifyFailure(text, errorText string) Failure {
	fromText := Classify(text)
	if errorText == "" {
		return fromText
	}
	fromError := Classify(errorText)
	if fromError.Code == CodeProcessingError {
		return fromText
	}
	if fromError.Code == fromText.Code && len(fromError.Fields) == 0 && len(fromText.Fields) > 0 {
		return fromText
	}
	return fromError
}

// Classify finds the class of an error text without any context (ERR-02).
func Classify(text string) Failure {
	return ClassifyWith(text, ErrorContext{})
}

// ClassifyWith finds the class of an error text; the first rule that matches decides (ERR-02). Provider and model from
// the context become fields of the provider's failures, of a request that is too large, and of an error of no known
// class.
func ClassifyWith(text string, context ErrorContext) Failure {
	text = trimError(text)
	for _, rule := range []func(string) (Failure, bool){classifyBudget, classifyModel} {
		if failure, matched := rule(text); matched {
			return failure
		}
	}
	return classifyProvider(text, context)
}

// activityPrefixes are the prefixes that activities add to errors.
var activityPrefixes = []string{
	"InputAtom execution failed: ",
	"ReasonAtom execution failed: ",
	"ActAtom execution failed: ",
}

func trimError(text string) string {
	text = strings.TrimSpace(text)
	for again := true; again; {
		again = false
		for _, prefix := range activityPrefixes {
			if rest, found := strings.CutPrefix(text, prefix); found {
				text, again = strings.TrimSpace(rest), true
			}
		}
	}
	return text
}

const (
	amountPattern = `([0-9]+(?:\.[0-9]+)?)`
	spentPattern  = amountPattern + ` (\S+) spent`
)

// Each pattern captures the amount spent, its currency and, if there is one, the limit.
var (
	exhaustedPattern = regexp.MustCompile(
		`^Budget exhausted\. ` + spentPattern + ` (?:reached|exceeded) the ` + amountPattern + ` \S+ limit\.`,
	)
	pausedPattern = regexp.MustCompile(
		`^Budget paused\. ` + spentPattern + ` (?:reached|exceeded) the ` + amountPattern + ` \S+ soft limit\.`,
	)
	pausedWithPattern = regexp.MustCompile(`^Budget paused with ` + spentPattern + `\.`)
)

func classifyBudget(text string) (Failure, bool) {
	switch {
	case hasAnyPrefix(text, "Budget exhausted.", "Budget exhausted ("):
		return budgetFailure(CodeBudgetExhausted, "limit", exhaustedPattern.FindStringSubmatch(text)), true
	case strings.HasPrefix(text, "Budget paused with "):
		return budgetFailure(CodeBudgetPaused, "", pausedWithPattern.FindStringSubmatch(text)), true
	case hasAnyPrefix(text, "Budget paused.", "Budget paused ("):
		return budgetFailure(CodeBudgetPaused, "soft_limit", pausedPattern.FindStringSubmatch(text)), true
	case strings.HasPrefix(text, "Soft limit reached."):
		return Failure{Code: CodeSoftLimitReached, Fields: map[string]any{"message": text}}, true
	default:
		return Failure{}, false
	}
}

// budgetFailure turns the captures of a budget pattern into fields. No captures give no fields; an amount that is no
// finite number is left out.
func budgetFailure(code ErrorCode, limitField string, captures []string) Failure {
	if captures == nil {
		return Failure{Code: code}
	}
	fields := map[string]any{"currency": captures[2]}
	addAmount(fields, "spent", captures[1])
	if limitField != "" {
		addAmount(fields, limitField, captures[3])
	}
	return Failure{Code: code, Fields: fields}
}

func addAmount(fields map[string]any, name, text string) {
	if amount, err := strconv.ParseFloat(text, 64); err == nil {
		fields[name] = amount
	}
}

func classifyModel(text string) (Failure, bool) {
	modelID, found := strings.CutPrefix(text, "Model not available: ")
	if !found {
		return Failure{}, false
	}
	return Failure{Code: CodeModelUnavailable, Fields: map[string]any{"model_id": modelID}}, true
}

// providerRules are tried in this order against the text in lower case. A quota that is used up comes before the rate
// limit: providers report both with status 429, but only the latter passes by waiting.
var providerRules = []struct {
	code    ErrorCode
	phrases []string
}{
	{CodeRequestTooLarge, []string{"context length"}},
	{CodeProviderQuotaExhausted, []string{"insufficient_quota", "insufficient quota", "exceeded your current quota"}},
	{CodeProviderRateLimited, []string{"(429)", "rate limit", "too many requests"}},
	{CodeProviderMisconfigured, []string{"(401)", "(403)"}},
	{CodeProviderMisconfigured, []string{
		"api key is required", "configure the api key", "api key missing", "missing api key", "invalid api key",
	}},
	{CodeProviderUnavailable, []string{"(500)", "(502)", "(503)", "(504)", "(529)"}},
}

func classifyProvider(text string, context ErrorContext) Failure {
	return ClassifyAs(providerCode(text), context)
}

// ClassifyAs returns the failure of a model call whose class is known. Its fields are those of ClassifyWith.
func ClassifyAs(code ErrorCode, context ErrorContext) Failure {
	fields := map[string]any{}
	if context.Provider != "" {
		fields["provider"] = context.Provider
	}
	if context.ModelID != "" {
		fields["model_id"] = context.ModelID
	}
	if code == CodeProviderRateLimited && context.RetryAfterSeconds > 0 {
		fields["retry_after"] = context.RetryAfterSeconds
	}
	if len(fields) == 0 {
		fields = nil
	}
	return Failure{Code: code, Fields: fields}
}

func providerCode(text string) ErrorCode {
	if strings.HasPrefix(text, "Request too large:") {
		return CodeRequestTooLarge
	}
	lower := strings.ToLower(text)
	for _, rule := range providerRules {
		for _, phrase := range rule.phrases {
			if strings.Contains(lower, phrase) {
				return rule.code
			}
		}
	}
	return CodeProcessingError
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
