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
	if c.Charge == nil {
		return ctx
	}
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
		c.Settle(keeper.Outcome{Usage: &response.Usage})
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
	if c.dialled.Load() {
		return refusedStatus(int(c.status.Load()))
	}
	// A model in this process, or a driver that has sent nothing.
	var refused *provider.Error
	return errors.As(failure, &refused) && refusedStatus(refused.Status)
}

// refusedStatus reports whether a provider responds with a status instead of having a model read the request. A
// response that began well has another one, whatever it ends with.
func refusedStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout:
		return false
	case http.StatusServiceUnavailable, statusOverloaded:
		return true
	default:
		return status >= http.StatusBadRequest && status < http.StatusInternalServerError
	}
}

// statusOverloaded is a status of some providers for too many concurrent requests.
const statusOverloaded = 529

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
