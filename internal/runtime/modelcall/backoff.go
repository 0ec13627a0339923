package modelcall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
)

// shortPause is the longest pause between two attempts that is waited for in place. During a longer one the caller need
// not hold a slot, and may record it.
const shortPause = time.Second

// Backoff is a model call that failed with a transient error and is continued later.
type Backoff struct {
	// Model is the name of the Model that is called again, Tries how often it was called.
	Model string
	Tries int32
	// NotBefore is when the next attempt is due.
	NotBefore time.Time
	// Cause is why the last one failed.
	Cause error

	// before are the Models that were called before this one, current is this one.
	before  []Result
	current Result
}

// Error implements error.
func (b *Backoff) Error() string {
	return fmt.Sprintf("model call failed; retrying Model %s at %s: %v", b.Model,
		b.NotBefore.UTC().Format(time.RFC3339), b.Cause)
}

// Unwrap returns the cause.
func (b *Backoff) Unwrap() error { return b.Cause }

// Held is a model call that waits for room in a Budget after other Models, or the same one, have failed. It is
// continued where it stopped, so that no result is paid for twice.
type Held struct {
	*budget.Refusal
	// Earlier is where it continues.
	Earlier *Backoff
}

// Unwrap returns the refusal.
func (h *Held) Unwrap() error { return h.Refusal }

// hold returns the error of a call that a Budget has refused, with the results so far, if there are any.
func hold(refusal *budget.Refusal, before []Result, current Result) error {
	if len(before) == 0 && current.Tries == 0 {
		return refusal
	}
	return &Held{Refusal: refusal, Earlier: &Backoff{
		Model: current.Model.Name, Tries: current.Tries, Cause: refusal, before: before, current: current,
	}}
}

// Resumed returns the Backoff of a process that recorded only how often which Model was called; nil for none.
func Resumed(model string, tries int32) *Backoff {
	if tries == 0 {
		return nil
	}
	return &Backoff{Model: model, Tries: tries, current: Result{Tries: tries}}
}

// resume returns where a call continues: the Models that have failed, the earlier results of the next to call, and the
// remaining ones, starting with that one. If it cannot be called any more, the call starts anew.
func (b *Backoff) resume(models []*v1alpha1.Model) ([]Result, Result, []*v1alpha1.Model) {
	if b == nil {
		return nil, Result{}, models
	}
	for i, m := range models {
		if m.Name == b.Model {
			return b.before, b.current, models[i:]
		}
	}
	return nil, Result{}, models
}

// WaitFor waits until a Backoff is over.
func (c *Caller) WaitFor(ctx context.Context, b *Backoff) error {
	return c.pause(ctx, b.NotBefore.Sub(b.current.Ended))
}

// limited returns how a call continues that had no room within the limits of a Model, as a *Limited; any other error as
// it is. The attempt was not made.
func (a Result) limited(name string, err error) error {
	var refusal *ratelimit.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	if a.Tries == 0 {
		a.Began = time.Time{}
	}
	return &Limited{
		Refusal: refusal,
		Resume:  &Backoff{Model: name, Tries: a.Tries, NotBefore: refusal.Until, Cause: refusal, current: a},
	}
}
