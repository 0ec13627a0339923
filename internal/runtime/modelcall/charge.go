package modelcall

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// charge is the reservation of one attempt, and what is known of the request.
type charge struct {
	*keeper.Charge
	model *v1alpha1.Model
	// dialled and connected report whether the attempt has asked for a connection, and whether it has got one. status
	// is that of the HTTP response, 0 before one.
	dialled, connected atomic.Bool
	status             atomic.Int32
}

// reserve reserves the worst case of an attempt in the Budgets that count. failure is why the Model cannot be used
// under one, err why there is no room, or why that is unknown.
func (c *Caller) reserve(
	ctx context.Context, r Request, m *v1alpha1.Model, content model.Request, reserved *charge,
) (failure, err error) {
	if c.Budgets == nil {
		return nil, nil
	}
	if r.Payer.Turn == "" {
		return nil, errors.New("the model call has no payer for its Budgets")
	}
	one, err := c.Budgets.Reserve(ctx, r.Payer, m, content)
	var unpriced *budget.NeedsPriceError
	if errors.As(err, &unpriced) {
		return unpriced, nil
	}
	if err != nil {
		return nil, err
	}
	reserved.Charge = one
	if one != nil && r.OnLowBudget != nil {
		for _, name := range one.Low {
			r.OnLowBudget(name)
		}
	}
	return nil, nil
}

// observe returns a client by whose responses the charge learns their status.
func (c *charge) observe(client *http.Client) *http.Client {
	if client == nil {
		return nil
	}
	with := *client
	with.Transport = &observing{next: client.Transport, status: &c.status}
	return &with
}

// observing is an http.RoundTripper that keeps the status of the last response.
type observing struct {
	next   http.RoundTripper
	status *atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (o *observing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if err == nil {
		o.status.Store(int32(response.StatusCode)) //nolint:gosec // A status has three digits.
	}
	return response, err
}

// watch returns a context under which the charge learns whether a request was sent.
func (c *charge) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.dialled.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.connected.Store(true) },
	})
}

// settle replaces the reservation by what the attempt has cost. Whatever is not known counts in full.
func (c *charge) settle(response *model.Response, failure error) {
	switch {
	case c.Charge == nil:
	case failure == nil && response != nil:
		// Elsewhere than at its provider, a Model is served by whom its users have chosen.
		c.Settle(keeper.Outcome{Usage: &response.Usage, Claimed: model.BaseURL(c.model) != ""})
	default:
		c.Settle(keeper.Outcome{Free: failure != nil && c.free(failure)})
	}
}

// free reports whether a failed attempt cost nothing: no connection was made, or the provider has refused the request
// before a model read it.
func (c *charge) free(failure error) bool {
	if c.dialled.Load() && !c.connected.Load() {
		return true
	}
	var refused *provider.Error
	known := errors.As(failure, &refused)
	status, word := int(c.status.Load()), ""
	if known {
		word = refused.Kind
	}
	if !c.dialled.Load() {
		if !known {
			return false
		}
		status = refused.Status // A model in this process, or a driver that has sent nothing.
	}
	return slices.Contains(refusals, status) || c.overloaded(status, word)
}

// refusals are the statuses of a response that is sent instead of having a model read the request. 408, and 424, which
// servers send for a generation that has failed, are not. A response that began well has another status, whatever it
// ends with.
var refusals = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
	http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
	http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
}

// statusOverloaded is the status of Anthropic for an overload.
const statusOverloaded = 529

// overload is how a provider refuses a request while it is overloaded.
type overload struct {
	status int
	words  []string
}

// overloads are those that the error pages of the providers document (2026-11). Google bills no failed request at all:
// ai.google.dev/gemini-api/docs/billing.
var overloads = map[v1alpha1.ModelProvider]overload{
	v1alpha1.ModelProviderAnthropic: {statusOverloaded, []string{"overloaded_error"}},
	v1alpha1.ModelProviderOpenAI: {http.StatusServiceUnavailable, []string{
		"server_is_overloaded", "service_unavailable_error", "server_overload_error", "slow_down",
	}},
	v1alpha1.ModelProviderGoogle: {http.StatusServiceUnavailable, []string{"UNAVAILABLE"}},
}

// overloaded reports whether the provider has refused the request because it is overloaded. Behind another address than
// the provider's own, which may be a gateway, a model may have read the request.
func (c *charge) overloaded(status int, word string) bool {
	known := overloads[c.model.Spec.Provider]
	return known.status == status && slices.Contains(known.words, word) && model.BaseURL(c.model) == ""
}

// anyCalled reports whether one of the Models was called: it has its API key, and what a Budget requires.
func anyCalled(all []Result) bool {
	return slices.ContainsFunc(all, func(a Result) bool {
		var unpriced *budget.NeedsPriceError
		var key *model.KeyError
		var refusal *budget.Refusal
		return !errors.As(a.Err, &unpriced) && !errors.As(a.Err, &key) && !errors.As(a.Err, &refusal)
	})
}

// withoutPrice returns the refusal if no called Model can be used under a Budget; nil if one of them was called. A
// fallback without a price does not change the result of another Model.
func withoutPrice(all []Result) *budget.Refusal {
	var first *budget.NeedsPriceError
	for _, a := range all {
		var unpriced *budget.NeedsPriceError
		var key *model.KeyError
		switch {
		case errors.As(a.Err, &unpriced):
			if first == nil {
				first = unpriced
			}
		case !errors.As(a.Err, &key):
			return nil
		}
	}
	if first == nil {
		return nil
	}
	return first.Refusal()
}
