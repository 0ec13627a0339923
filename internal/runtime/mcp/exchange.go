package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// exchange is what becomes of the requests of one purpose: of one call, or of what is sent before it.
type exchange struct {
	// header is that of the request with the call.
	header http.Header
	// bulky reports whether the responses may have a result, or a list of tools.
	bulky bool

	mu sync.Mutex
	// called reports whether the call was begun, and answered whether its response has begun.
	called, answered bool
	// failure is the last failed request, and status the last status that was no success: of the call once it was begun.
	failure *egress.Error
	status  int
	// resumed is how often a response was continued.
	resumed int
	// seen is the end of the response to the call; nil if no code looks at it.
	seen *tail
}

type exchangeKey struct{}

// within returns a context whose requests belong to an exchange.
func (x *exchange) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange that a request belongs to. A request of the SDK itself, such as the end of a session,
// has one of its own.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// begin records that the call is sent, and reports whether it was not sent before.
func (x *exchange) begin() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.called
	x.called, x.failure, x.status = true, nil, 0
	return first
}

// see records a part of the response to the call.
func (x *exchange) see(part []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen != nil {
		x.seen.add(part)
	}
}

// creation returns the task that the call has become; false if it has become none.
func (x *exchange) creation() (*Task, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen == nil {
		return nil, false
	}
	return created(x.seen.kept)
}

// resume records that a response is continued, and reports whether it may be.
func (x *exchange) resume() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.resumed++
	return x.resumed <= maxStreams
}

// note records what has become of a request. Once the call was begun, only the call counts: the SDK also sends a notice
// when it is cancelled.
func (x *exchange) note(call bool, answer *http.Response, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.called && !call {
		return
	}
	var failure *egress.Error
	switch {
	case errors.As(err, &failure):
		x.failure = failure
	case answer != nil && answer.StatusCode/100 != 2:
		x.status = answer.StatusCode
	case answer != nil:
		x.failure, x.status, x.answered = nil, 0, call
	}
}

// fate returns what has become of the requests so far.
func (x *exchange) fate() Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Error{Called: x.called, Answered: x.answered, Request: x.failure, Status: x.status}
}
