package modelcall

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// Result is the result of calling one Model, with all attempts.
type Result struct {
	// Model that was called; nil if there was none to call.
	Model *v1alpha1.Model
	// Response of the Model; nil after a failure, which is in Err.
	Response *model.Response
	Err      error
	// Tries is how often it was called, from Began to Ended.
	Tries        int32
	Began, Ended time.Time
	// ReasoningDropped reports whether the Model was called without reasoning, because the provider had refused it.
	ReasoningDropped bool
	// ImagesLeftOut are the digests of the images that the Model was called without, because the provider had refused
	// them.
	ImagesLeftOut []string

	// tried is when the newest attempt began, and first when its first content arrived; zero if it came at once.
	tried, first time.Time
	// traceParent is the W3C trace context of the call; empty for none.
	traceParent string
	// imageRefusals is how often images were refused. imageTried reports whether the Model was called again with all of
	// them.
	imageRefusals int
	imageTried    bool
}

// Failure returns the error in a form for users. Its code comes from the error's type, not from its text.
func (a Result) Failure() plan.Failure {
	failure := plan.Failure{Code: model.CodeOf(a.Err)}
	if a.Model != nil && failure.Code != v1alpha1.ErrorCodeProcessingError {
		failure = failure.With(v1alpha1.ErrorFieldModelID, model.Name(a.Model))
	}
	var key *model.KeyError
	if errors.As(a.Err, &key) {
		return failure.With(v1alpha1.ErrorFieldProblem, key.Problem)
	}
	var refusal *provider.Error
	if errors.As(a.Err, &refusal) {
		failure = refusedBy(failure, refusal, model.Name(a.Model))
	}
	if remedy := remedy(failure.Code, a.Model, refusal); remedy != "" {
		failure = failure.With(v1alpha1.ErrorFieldRemedy, remedy)
	}
	return failure
}

// refusedBy adds the details of a provider's error besides its code.
func refusedBy(failure plan.Failure, refusal *provider.Error, modelID string) plan.Failure {
	failure = failure.With(v1alpha1.ErrorFieldProvider, refusal.Provider).With(v1alpha1.ErrorFieldModelID, modelID)
	if seconds := int64(
		refusal.RetryAfter.Seconds(),
	); failure.Code == v1alpha1.ErrorCodeProviderRateLimited &&
		seconds > 0 {
		failure = failure.With(v1alpha1.ErrorFieldRetryAfter, strconv.FormatInt(seconds, 10))
	}
	switch {
	case refusal.Problem != "":
		return failure.With(v1alpha1.ErrorFieldProblem, refusal.Problem)
	case failure.Code == v1alpha1.ErrorCodeProcessingError:
		// The text is our own, and has nothing from the provider.
		return failure.With(v1alpha1.ErrorFieldProblem, refusal.Error())
	default:
		return failure
	}
}

// Cost returns the cost of the response, at the price of its Model; nil if the cost is unknown, or there is no price.
func (a Result) Cost() *v1alpha1.Cost {
	if a.Model == nil || a.Response == nil || a.Err != nil {
		return nil
	}
	return cost.Of(a.Model.Spec.Price, a.Response.Usage)
}

// TimeToFirst is the time from the beginning of the successful attempt to its first content, in whole
// milliseconds; to its end if it came at once. It reports false if no model has responded.
func (a Result) TimeToFirst() (time.Duration, bool) {
	if a.Err != nil || a.tried.IsZero() {
		return 0, false
	}
	first := a.first
	if first.IsZero() {
		first = a.Ended
	}
	return max(first.Sub(a.tried), 0).Truncate(time.Millisecond), true
}

// Message is the response as a message with the runtime's calls.
func (a Result) Message(calls []event.ToolCall) event.Message {
	m := a.Response.Message(calls)
	if m.HasReasoning() {
		origin := originOf(a.Model)
		m.Origin = &origin
	}
	metadata := map[string]any{}
	if a.ReasoningDropped {
		metadata[event.MetadataReasoningDropped] = true
	}
	if len(a.ImagesLeftOut) > 0 {
		metadata[event.MetadataImagesRefused] = strings.Join(a.ImagesLeftOut, " ")
	}
	if r := a.Response; r.FinishReason == model.FinishFiltered && r.Text == "" && len(calls) == 0 {
		metadata[event.MetadataPromptFiltered] = true
	}
	if len(metadata) > 0 {
		m.Metadata = metadata
	}
	return m
}

// observe reports the time to the first content of a response.
func (c *Caller) observe(a Result) {
	if first, ok := a.TimeToFirst(); ok && c.OnFirstToken != nil {
		c.OnFirstToken(a.Model.Spec.Provider, first)
	}
}

// observeEnd reports the end of a call.
func (c *Caller) observeEnd(a Result) {
	if c.OnCall == nil || a.Model == nil {
		return
	}
	ended := Ended{Provider: a.Model.Spec.Provider, Took: max(a.Ended.Sub(a.Began), 0)}
	if ended.Provider == v1alpha1.ModelProviderOpenAI {
		ended.API = model.APIOf(a.Model)
	}
	if a.Err != nil {
		ended.Code = model.CodeOf(a.Err)
	} else {
		ended.Usage = a.Response.Usage
	}
	c.OnCall(ended)
}
