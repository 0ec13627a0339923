package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// shortPause is the longest pause between two attempts that is waited for in place. A longer one is recorded in the
// plan, where it survives a restart, and holds no slot.
const shortPause = time.Second

// Backoff is a model call that failed with a transient error and is retried later. The caller runs the step again then,
// with ReasonAfter if it still has the Backoff. Otherwise the plan has what is needed of it.
type Backoff struct {
	// Model is the name of the Model that is called again, Tries how often it was called.
	Model string
	Tries int32
	// NotBefore is when the next attempt is due.
	NotBefore time.Time
	// Cause is why the last one failed.
	Cause error

	// before are the Models that were called before this one, current is this one.
	before  []asked
	current asked
}

// Error implements error.
func (b *Backoff) Error() string {
	return fmt.Sprintf("model call failed; retrying Model %s at %s: %v", b.Model,
		b.NotBefore.UTC().Format(time.RFC3339), b.Cause)
}

// Unwrap returns the cause.
func (b *Backoff) Unwrap() error { return b.Cause }

// Describe records the wait in the status of the Turn.
func (b *Backoff) Describe(p *v1alpha1.TurnProgress) {
	at := metav1.NewMicroTime(b.NotBefore)
	p.Phase = v1alpha1.TurnPhaseWaiting
	p.Plan.Attempt, p.Plan.Model, p.Plan.NotBefore = b.Tries, b.Model, &at
	message := fmt.Sprintf("The call of Model %q failed; retrying (attempt %d of %d): %v", b.Model,
		b.Tries+1, MaxTries, b.Cause)
	p.WaitsFor = []v1alpha1.TurnWait{{Type: v1alpha1.WaitTypeBackoff, Until: &at, Message: excerpt.Of(message, 1024)}}
}

// Described reports whether the plan has the wait.
func (b *Backoff) Described(p *v1alpha1.TurnPlan) bool {
	return p.Attempt == b.Tries && p.Model == b.Model && p.NotBefore != nil
}

// resumed returns where a failed model call continues: the Models that have failed, the remaining ones, starting with
// the next to call, and the earlier results of that one. A process without the Backoff has only the plan.
func resumed(t turnstate.Turn, models []*v1alpha1.Model, earlier *Backoff) ([]asked, asked, []*v1alpha1.Model) {
	name, tries := t.Progress.Plan.Model, t.Progress.Plan.Attempt
	if earlier != nil {
		name, tries = earlier.Model, earlier.Tries
	}
	for i, m := range models {
		if tries == 0 || m.Name != name {
			continue
		}
		if earlier != nil {
			return earlier.before, earlier.current, models[i:]
		}
		return nil, asked{tries: tries}, models[i:]
	}
	return nil, asked{}, models
}

// waitFor waits until a Backoff is over.
func (run *Runner) waitFor(ctx context.Context, b *Backoff) error {
	return run.pause(ctx, b.NotBefore.Sub(b.current.ended))
}

// withoutKey returns the wait if all called Models lack their API key; nil if one of them was called. A fallback
// without a key does not change the result of another Model.
func withoutKey(all []asked) *turnstate.MissingKey {
	var first *turnstate.MissingKey
	for _, a := range all {
		var key *model.KeyError
		if !errors.As(a.err, &key) {
			return nil
		}
		if first == nil {
			first = &turnstate.MissingKey{Model: key.Model, Reason: key.Reason, Problem: key.Problem}
		}
	}
	return first
}
