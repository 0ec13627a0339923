package host

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

const (
	// MaxTries is how often one Model is asked for one answer.
	MaxTries = 4
	// firstPause is the pause before the second try when the provider does not say how long; it is four times as long before each further one.
	firstPause = time.Second
	// longestPause is the longest that a provider may have a try wait. One that asks for more is not asked again.
	longestPause = time.Minute
)

// asked is one Model that was asked, and how that ended.
type asked struct {
	model    *v1alpha1.Model
	response *model.Response
	err      error
	tries    int32
	began    time.Time
	ended    time.Time
	// message is the id of the answer, the same in the log while it comes in and when it is whole.
	message string
}

// failure is the class of the error.
func (a asked) failure() plan.Failure {
	var known plan.ErrorContext
	var refusal *provider.Error
	if errors.As(a.err, &refusal) {
		known = plan.ErrorContext{Provider: refusal.Provider, ModelID: modelName(a.model), RetryAfterSeconds: int64(refusal.RetryAfter.Seconds())}
	}
	failure := plan.ClassifyWith(a.err.Error(), known)
	var key *model.KeyError
	if errors.As(a.err, &key) {
		failure.Fields = map[string]any{"model_id": modelName(a.model), "problem": key.Problem}
	}
	return failure
}

// ask asks the Models of a Config for an answer, each as often as it makes sense, the next one when the one before it could not serve anybody. It
// gives them all in order; at most the last one has answered. An error means that nothing can be said of a Model, and that all is to be done again.
func (h *Host) ask(ctx context.Context, t Turn, c Config, r model.Request) ([]asked, error) {
	if c.Model == nil {
		now := h.Clock()
		err := errors.New("Model not available: no model configured") //nolint:staticcheck // The text is matched by ERR-02.
		return []asked{{err: err, began: now, ended: now}}, nil
	}
	var all []asked
	for _, m := range append([]*v1alpha1.Model{c.Model}, c.Fallbacks...) {
		one, err := h.askOne(ctx, t, m, r)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
		if one.err == nil || ctx.Err() != nil || !elsewhere(one.failure().Code) {
			break
		}
	}
	return all, nil
}

// elsewhere says that another Model may answer where one has failed so: the failure is none of the request's own.
func elsewhere(code plan.ErrorCode) bool {
	switch code {
	case plan.CodeModelUnavailable, plan.CodeProviderRateLimited, plan.CodeProviderQuotaExhausted, plan.CodeProviderUnavailable, plan.CodeProviderMisconfigured:
		return true
	default:
		return false
	}
}

// askOne asks one Model, and again after a pause as long as what keeps it from answering may pass.
func (h *Host) askOne(ctx context.Context, t Turn, m *v1alpha1.Model, r model.Request) (asked, error) {
	a := asked{model: m, began: h.Clock()}
	r.Model = modelName(m)
	for a.tries = 1; ; a.tries++ {
		var err error
		a.message = event.NewID()
		if a.response, a.err, err = h.try(ctx, t, m, r, a.message); err != nil {
			return a, err
		}
		pause, again := pauseBefore(a.tries+1, a.err)
		if !again || h.pause(ctx, pause) != nil {
			a.ended = h.Clock()
			return a, nil
		}
	}
}

// try asks one Model once, for a message of an id. A failure of the Model, its key included, is its own; err is about anything else.
func (h *Host) try(ctx context.Context, t Turn, m *v1alpha1.Model, r model.Request, message string) (response *model.Response, failure, err error) {
	access, err := h.access(ctx, t.Session.Namespace, m)
	if err != nil {
		var key *model.KeyError
		var unavailable *model.UnavailableError
		if errors.As(err, &key) || errors.As(err, &unavailable) {
			return nil, err, nil
		}
		return nil, nil, err
	}
	driver, failure := h.Models.Driver(m, access)
	if failure != nil {
		return nil, failure, nil
	}
	if m.Spec.Recovery != v1alpha1.RecoveryFinalize {
		response, failure = generate(ctx, driver, r)
		return response, failure, nil
	}
	asking, abandon := context.WithCancel(ctx)
	defer abandon()
	rec := h.record(ctx, t, m, message, abandon)
	r.OnPartial = rec.hear
	response, failure = generate(asking, driver, r)
	rec.end(ctx, response, failure)
	return response, failure, nil
}

// generate asks for an answer, which is there when there is no error.
func generate(ctx context.Context, driver model.Driver, r model.Request) (*model.Response, error) {
	response, err := driver.Generate(ctx, r)
	if err == nil && response == nil {
		return nil, errors.New("the model gave no response")
	}
	return response, err
}

// pauseBefore is how long to wait before a try, counted from 1, and whether there is one after an error.
func pauseBefore(try int32, err error) (time.Duration, bool) {
	var refusal *provider.Error
	if !errors.As(err, &refusal) || !refusal.Transient() || try > MaxTries || refusal.RetryAfter > longestPause {
		return 0, false
	}
	if refusal.RetryAfter > 0 {
		return refusal.RetryAfter, true
	}
	return firstPause << (2 * (try - 2)), true
}

// pause waits, and gives up with the context.
func (h *Host) pause(ctx context.Context, d time.Duration) error {
	if h.Pause != nil {
		return h.Pause(ctx, d)
	}
	return wait(ctx, d)
}
