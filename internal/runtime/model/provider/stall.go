package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// stall reports which timeout ended a call.
type stall struct {
	text  string
	first bool
}

func (s *stall) Error() string { return s.text }

// WithTimeouts makes one call of a driver, and ends it when a timeout is reached. The error is then an *Error that
// names the timeout: a call without any content may be retried, as another server of the provider may respond; the
// others are not.
func WithTimeouts(
	ctx context.Context, d model.Driver, provider string, bounds model.Timeouts, r model.Request,
) (*model.Response, error) {
	limited, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &watch{end: end, bounds: bounds}
	w.timer = time.AfterFunc(bounds.FirstContent, func() { w.reached(true, bounds.FirstContent) })
	defer w.timer.Stop()
	call := time.AfterFunc(bounds.Call, func() {
		end(&stall{text: fmt.Sprintf("the response was not complete after %s (timeouts.call)", bounds.Call)})
	})
	defer call.Stop()
	onPartial := r.OnPartial
	r.OnPartial = func(p model.Partial) {
		w.content()
		if onPartial != nil {
			onPartial(p)
		}
	}
	response, err := d.Generate(limited, r)
	var reached *stall
	if err == nil || ctx.Err() != nil || !errors.As(context.Cause(limited), &reached) {
		return response, err
	}
	late := Late(provider, reached.text)
	late.transient, late.once = reached.first, true
	return nil, late
}

// watch ends a call when no content has arrived for too long.
type watch struct {
	end    context.CancelCauseFunc
	bounds model.Timeouts

	mu    sync.Mutex
	begun bool
	timer *time.Timer
}

func (w *watch) content() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begun = true
		w.timer.Stop()
		w.timer = time.AfterFunc(w.bounds.Idle, func() { w.reached(false, w.bounds.Idle) })
		return
	}
	w.timer.Reset(w.bounds.Idle)
}

func (w *watch) reached(first bool, bound time.Duration) {
	if first {
		w.end(&stall{first: true, text: fmt.Sprintf("no content came within %s (timeouts.firstContent)", bound)})
		return
	}
	w.end(&stall{text: fmt.Sprintf("no further content came for %s (timeouts.idle)", bound)})
}
