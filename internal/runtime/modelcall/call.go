package modelcall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
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

// Call calls the Models of a Request until one responds: each with its retries, and the next one if the previous one
// could not serve the request. It returns all called Models in order, at least one; at most the last one has responded.
// After an error nothing is decided, and the caller calls again: after a *Backoff with it as Earlier; after a *Limited
// with its Resume as Earlier, when there may be room within the limits of the Model; after a
// *model.KeyError, that of the first Model, when one of the Models may have its API key; after a *budget.Refusal when
// the Budget may have room, with the Backoff of a *Held as Earlier, and after one with reason BudgetNeedsPrice when the
// Models may have changed. Any other error is not about a Model.
func (c *Caller) Call(ctx context.Context, r Request) ([]Result, error) {
	if len(r.Models) == 0 {
		now := c.Clock()
		err := &model.Error{Code: v1alpha1.ErrorCodeModelUnavailable, Text: "no Model is configured"}
		return []Result{{Err: err, Began: now, Ended: now}}, nil
	}
	all, first, models := r.Earlier.resume(r.Models)
	for _, m := range models {
		if r.TraceParent != nil {
			first.traceParent = r.TraceParent(len(all))
		}
		one, err := c.callOne(ctx, r, m, first)
		if err != nil {
			var backoff *Backoff
			var limited *Limited
			switch {
			case errors.As(err, &limited):
				limited.Resume.before = all
			case errors.As(err, &backoff):
				backoff.before = all
			}
			var refusal *budget.Refusal
			if !errors.As(err, &refusal) {
				return nil, err
			}
			if one.Tries > 0 || refusal.Reason != v1alpha1.ReasonBudgetExhausted || !anyCalled(all) {
				return nil, hold(refusal, all, one)
			}
			// The failure of a Model that was called stands, as without this fallback.
			one.Err, one.Ended = refusal, one.Began
			all, first = append(all, one), Result{}
			continue
		}
		if ctx.Err() == nil {
			c.observeEnd(one)
		}
		all, first = append(all, one), Result{}
		if one.Err == nil || ctx.Err() != nil || !one.elsewhere() {
			break
		}
	}
	if keyless := withoutKey(all); keyless != nil {
		return nil, keyless
	}
	if unpriced := withoutPrice(all); unpriced != nil {
		return nil, unpriced
	}
	return all, nil
}

// withoutKey returns the error of the first Model if all called Models lack their API key; nil if one of them was
// called. A fallback without a key does not change the result of another Model.
func withoutKey(all []Result) *model.KeyError {
	var first *model.KeyError
	for _, a := range all {
		var key *model.KeyError
		if !errors.As(a.Err, &key) {
			return nil
		}
		if first == nil {
			first = key
		}
	}
	return first
}

// elsewhere reports whether another Model may succeed: the cause is not the request itself, or another provider may
// take it.
func (a Result) elsewhere() bool {
	var refusal *provider.Error
	return errors.As(a.Err, &refusal) && refusal.Elsewhere() || elsewhere(a.Failure().Code)
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

// callOne calls one Model, and again after a pause while the failure may be transient. The caller has to wait for a
// pause that is not short. a has the results of earlier attempts.
func (c *Caller) callOne(ctx context.Context, r Request, m *v1alpha1.Model, a Result) (Result, error) {
	a.Model = m
	content := r.Content
	content.Model = model.Name(m)
	shown := false
	content.OnPartial = func(p model.Partial) {
		if a.first.IsZero() {
			a.first = c.Clock()
		}
		if r.Live != nil && p.Text != "" {
			shown = true
			r.Live.Write(p.Text)
		}
	}
	m, err := r.Read(ctx, m)
	if err != nil {
		return a, err
	}
	for a.Tries++; ; a.Tries++ {
		var err error
		var reasoning bool
		sent := event.WithoutImages(r.Content.Messages, a.ImagesLeftOut)
		content.Messages, reasoning = a.prompt(sent)
		attempt := event.NewID()
		a.tried, a.first = c.Clock(), time.Time{}
		if a.Began.IsZero() {
			a.Began = a.tried
		}
		before := a.Err
		if a.Response, a.Err, err = c.try(ctx, r, m, content, attempt, a.traceParent); err != nil {
			a.Tries, a.Err = a.Tries-1, before // The Model was not called.
			return a, a.limited(m.Name, err)
		}
		if a.Err == nil {
			a.Ended = c.Clock()
			c.observe(a)
			return a, nil
		}
		if shown {
			shown = false
			r.Live.Replace()
		}
		if reasoning && refusesReasoning(a.Err) && ctx.Err() == nil {
			a.ReasoningDropped = true
			continue
		}
		if c.imageRefused(ctx, &a, sent, r.Input) {
			continue
		}
		pause, again := pauseBefore(a.Tries+1, a.Err)
		if again && pause > shortPause && ctx.Err() == nil {
			a.Ended = c.Clock()
			return a, &Backoff{Model: m.Name, Tries: a.Tries, NotBefore: a.Ended.Add(pause), Cause: a.Err, current: a}
		}
		if !again || c.pause(ctx, pause) != nil {
			a.Ended = c.Clock()
			return a, nil
		}
	}
}

// try calls one Model once, with the content for it. A failure of the Model, including its key, is in the result; err
// is about anything else.
func (c *Caller) try(
	ctx context.Context, r Request, m *v1alpha1.Model, content model.Request, attempt, traceParent string,
) (response *model.Response, failure, err error) {
	access, err := c.access(ctx, r.Namespace, m)
	if err != nil {
		var key *model.KeyError
		var unavailable *model.UnavailableError
		if errors.As(err, &key) && c.OnNoKey != nil {
			c.OnNoKey(types.NamespacedName{Namespace: r.Namespace, Name: m.Name})
		}
		if key != nil || errors.As(err, &unavailable) {
			return nil, err, nil
		}
		return nil, nil, err
	}
	charge := &charge{model: m}
	access.HTTP = charge.observe(traced(access.HTTP, m, traceParent))
	driver, failure := c.Models.Driver(m, access)
	if failure != nil {
		return nil, failure, nil
	}
	room, err := c.room(ctx, r, m, content)
	if err != nil {
		return nil, nil, err
	}
	if failure, err := c.reserve(ctx, r, m, content, charge); failure != nil || err != nil {
		room.Cancel()
		return nil, failure, err
	}
	defer func() {
		charge.settle(response, failure)
		room.Settle(charge.usedTokens(response, failure))
	}()
	ctx = charge.watch(ctx)
	if m.Spec.Recovery != v1alpha1.ModelRecoveryFinalize {
		response, failure = c.call(ctx, driver, m, content)
		return response, failure, nil
	}
	calling, abandon := context.WithCancel(ctx)
	defer abandon()
	recording := r.Record(ctx, m, attempt, abandon)
	observe := content.OnPartial
	content.OnPartial = func(p model.Partial) {
		observe(p)
		recording.Observe(p)
	}
	response, failure = c.call(calling, driver, m, content)
	err = recording.End(ctx, response, failure)
	return response, failure, err
}

// call calls the model. There is a response when there is no error.
func (c *Caller) call(
	ctx context.Context, driver model.Driver, m *v1alpha1.Model, r model.Request,
) (*model.Response, error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if c.CallLimit > 0 {
		limited, cancel = context.WithTimeout(ctx, c.CallLimit)
	}
	defer cancel()
	response, err := callWithin(limited, driver, m, r)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, provider.Late(
			string(m.Spec.Provider),
			fmt.Sprintf("the response was not complete after %s (the manager's limit)", c.CallLimit),
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
	return backoff.Exponential{First: firstPause, Factor: 4, Longest: longestPause}.After(int(try) - 1), true
}

// pause waits, and returns early when the context ends.
func (c *Caller) pause(ctx context.Context, d time.Duration) error {
	if c.Pause != nil {
		return c.Pause(ctx, d)
	}
	return backoff.Wait(ctx, d)
}
