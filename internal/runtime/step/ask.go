package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// MaxTries is how often one Model is called for one response.
	MaxTries = 4
	// firstPause is the pause before the second attempt if the provider does not request one; each further pause is
	// four times as long.
	firstPause = time.Second
	// longestPause is the longest pause that a provider may request. A Model that requests a longer one is not called
	// again.
	longestPause = time.Minute
)

// asked is one Model that was called, and the result.
type asked struct {
	model    *v1alpha1.Model
	response *model.Response
	err      error
	tries    int32
	began    time.Time
	ended    time.Time
	// tried is when the newest attempt began, and first when its first content arrived; zero if it came at once.
	tried, first time.Time
	// message identifies the attempt in the journal: the recorded parts of its response have it.
	message string
	// reasoningDropped reports whether the Model was called without reasoning, because the provider had refused it.
	reasoningDropped bool
	// imagesLeftOut are the digests of the images that the Model was called without, because the provider had refused
	// them imageRefusals times. imageTried reports whether it was called again with all of them.
	imagesLeftOut []string
	imageRefusals int
	imageTried    bool
}

// failure returns the error in a form for users. Its code comes from the error's type, not from its text.
func (a asked) failure() plan.Failure {
	failure := plan.Failure{Code: model.CodeOf(a.err)}
	if a.model != nil && failure.Code != v1alpha1.ErrorCodeProcessingError {
		failure = failure.With(v1alpha1.ErrorFieldModelID, modelName(a.model))
	}
	var key *model.KeyError
	if errors.As(a.err, &key) {
		return failure.With(v1alpha1.ErrorFieldProblem, key.Problem)
	}
	var refusal *provider.Error
	if errors.As(a.err, &refusal) {
		failure = refusedBy(failure, refusal, modelName(a.model))
	}
	if remedy := remedy(failure.Code, a.model, refusal); remedy != "" {
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

// ask calls the Models of a Config until one responds: each with its retries, and the next one if the previous one
// could not serve the request. It returns all called Models in order; at most the last one has responded. An error is
// not about a Model, and the whole step must be repeated. earlier is the Backoff after which they are called; nil for
// none.
func (run *Runner) ask(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, r model.Request, earlier *Backoff,
) ([]asked, error) {
	if c.Model == nil {
		now := run.Clock()
		err := &model.Error{Code: v1alpha1.ErrorCodeModelUnavailable, Text: "no Model is configured"}
		return []asked{{err: err, began: now, ended: now}}, nil
	}
	all, first, models := resumed(t, lastFirst(t, c.Models()), earlier)
	for _, m := range models {
		one, err := run.askOne(ctx, t, c, m, r, first)
		if err != nil {
			var backoff *Backoff
			if errors.As(err, &backoff) {
				backoff.before = all
			}
			return nil, err
		}
		all, first = append(all, one), asked{}
		if one.err == nil || ctx.Err() != nil || !one.elsewhere() {
			break
		}
	}
	if keyless := withoutKey(all); keyless != nil {
		return nil, keyless
	}
	return all, nil
}

// lastFirst moves the Model that responded last in the Turn to the front, so that a tool loop continues with the
// reasoning and the prompt cache of one model. The next Turn begins with the configured Model again.
func lastFirst(t turnstate.Turn, models []*v1alpha1.Model) []*v1alpha1.Model {
	if t.Step() == 1 {
		return models
	}
	for i, m := range models {
		if m.Name == t.Progress.Model {
			return append([]*v1alpha1.Model{m}, slices.Delete(models, i, i+1)...)
		}
	}
	return models
}

// elsewhere reports whether another Model may succeed: the cause is not the request itself, or another provider may
// take it.
func (a asked) elsewhere() bool {
	var refusal *provider.Error
	return errors.As(a.err, &refusal) && refusal.Elsewhere() || elsewhere(a.failure().Code)
}

// elsewhere reports whether another Model may succeed after such a failure: the cause is not the request itself.
func elsewhere(code v1alpha1.ErrorCode) bool {
	switch code {
	case v1alpha1.ErrorCodeModelUnavailable,
		v1alpha1.ErrorCodeProviderRateLimited,
		v1alpha1.ErrorCodeProviderQuotaExhausted,
		v1alpha1.ErrorCodeProviderUnavailable,
		v1alpha1.ErrorCodeProviderMisconfigured:
		return true
	default:
		return false
	}
}

// askOne calls one Model, and again after a pause while the failure may be transient. The caller has to wait for a
// pause that is not short. a has the results of earlier attempts.
func (run *Runner) askOne(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, m *v1alpha1.Model, r model.Request, a asked,
) (asked, error) {
	a.model = m
	r.Model = modelName(m)
	r.OnPartial = func(model.Partial) {
		if a.first.IsZero() {
			a.first = run.Clock()
		}
	}
	m, err := wholeModel(ctx, c, m)
	if err != nil {
		return a, err
	}
	messages := r.Messages
	for a.tries++; ; a.tries++ {
		var err error
		var reasoning bool
		sent := event.WithoutImages(messages, a.imagesLeftOut)
		r.Messages, reasoning = a.prompt(sent)
		a.message = event.NewID()
		a.tried, a.first = run.Clock(), time.Time{}
		if a.began.IsZero() {
			a.began = a.tried
		}
		if a.response, a.err, err = run.try(ctx, t, m, r, a.message); err != nil {
			return a, err
		}
		if a.err == nil {
			a.ended = run.Clock()
			run.observe(a)
			return a, nil
		}
		if reasoning && refusesReasoning(a.err) && ctx.Err() == nil {
			a.reasoningDropped = true
			continue
		}
		if run.imageRefused(ctx, &a, sent, t.MessageID()) {
			continue
		}
		pause, again := pauseBefore(a.tries+1, a.err)
		if again && pause > shortPause && ctx.Err() == nil {
			a.ended = run.Clock()
			return a, &Backoff{Model: m.Name, Tries: a.tries, NotBefore: a.ended.Add(pause), Cause: a.err, current: a}
		}
		if !again || run.pause(ctx, pause) != nil {
			a.ended = run.Clock()
			return a, nil
		}
	}
}

// try calls one Model once, for a message with an id. A failure of the Model, including its key, is in the result; err
// is about anything else.
func (run *Runner) try(
	ctx context.Context,
	t turnstate.Turn,
	m *v1alpha1.Model,
	r model.Request,
	message string,
) (response *model.Response, failure, err error) {
	access, err := run.access(ctx, t.Session.Namespace, m)
	if err != nil {
		var key *model.KeyError
		var unavailable *model.UnavailableError
		if errors.As(err, &key) && run.OnNoKey != nil {
			run.OnNoKey(types.NamespacedName{Namespace: t.Session.Namespace, Name: m.Name})
		}
		if key != nil || errors.As(err, &unavailable) {
			return nil, err, nil
		}
		return nil, nil, err
	}
	driver, failure := run.Models.Driver(m, access)
	if failure != nil {
		return nil, failure, nil
	}
	if m.Spec.Recovery != v1alpha1.ModelRecoveryFinalize {
		response, failure = run.call(ctx, driver, m, r)
		return response, failure, nil
	}
	asking, abandon := context.WithCancel(ctx)
	defer abandon()
	rec := run.record(ctx, t, m, message, abandon)
	told := r.OnPartial
	r.OnPartial = func(p model.Partial) {
		told(p)
		rec.Observe(p)
	}
	response, failure = run.call(asking, driver, m, r)
	err = rec.end(ctx, response, failure)
	return response, failure, err
}

// call calls the model. There is a response when there is no error.
func (run *Runner) call(
	ctx context.Context, driver model.Driver, m *v1alpha1.Model, r model.Request,
) (*model.Response, error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if run.CallLimit > 0 {
		limited, cancel = context.WithTimeout(ctx, run.CallLimit)
	}
	defer cancel()
	response, err := callWithin(limited, driver, m, r)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, provider.Late(
			string(m.Spec.Provider),
			fmt.Sprintf("the response was not complete after %s (the manager's limit)", run.CallLimit),
		)
	}
	if err == nil && response == nil {
		return nil, errors.New("the model returned no response")
	}
	return response, err
}

// callWithin calls the model within the timeouts of its Model.
func callWithin(ctx context.Context, driver model.Driver, m *v1alpha1.Model, r model.Request) (*model.Response, error) {
	bounds, bounded := model.TimeoutsOf(m, driver, r)
	if !bounded {
		return driver.Generate(ctx, r)
	}
	return provider.WithTimeouts(ctx, driver, string(m.Spec.Provider), bounds, r)
}

// pauseBefore returns the pause before an attempt, counted from 1, and whether there is another attempt after an error.
func pauseBefore(try int32, err error) (time.Duration, bool) {
	var refusal *provider.Error
	if !errors.As(err, &refusal) || try > refusal.Tries(MaxTries) || refusal.RetryAfter > longestPause {
		return 0, false
	}
	if refusal.RetryAfter > 0 {
		return refusal.RetryAfter, true
	}
	return firstPause << (2 * (try - 2)), true
}

// pause waits, and returns early when the context ends.
func (run *Runner) pause(ctx context.Context, d time.Duration) error {
	if run.Pause != nil {
		return run.Pause(ctx, d)
	}
	return wait(ctx, d)
}
