package step

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
)

// Backoff is a model call that failed with a transient error and is retried later. The caller runs the step again then,
// with ReasonAfter if it still has the Backoff. Otherwise the plan has the fields of it that are needed.
type Backoff struct {
	*modelcall.Backoff

	// refused are the calls of the step whose prompt was too large, if the call that waits is for a summary of the
	// conversation; nil for any other call.
	refused []modelcall.Result
	// summary reports whether the call that waits is for a summary of the conversation.
	summary bool
}

// Held is a model call that waits for room in a Budget. The caller runs the step again with Earlier then.
type Held struct {
	*budget.Refusal
	Earlier *Backoff
}

// Unwrap returns the refusal.
func (h *Held) Unwrap() error { return h.Refusal }

// Describe records the wait in the status of the Turn.
func (b *Backoff) Describe(p *v1alpha1.TurnProgress) {
	at := metav1.NewMicroTime(b.NotBefore)
	p.Phase = v1alpha1.TurnPhaseWaiting
	p.Plan.Attempt, p.Plan.Model, p.Plan.NotBefore = b.Tries, b.Model, &at
	message := fmt.Sprintf("The call of Model %q failed; retrying (attempt %d of %d): %v", b.Model,
		b.Tries+1, modelcall.MaxTries, b.Cause)
	p.WaitsFor = []v1alpha1.TurnWait{{Type: v1alpha1.WaitTypeBackoff, Until: &at, Message: excerpt.Of(message, 1024)}}
}

// Described reports whether the plan has the wait.
func (b *Backoff) Described(p *v1alpha1.TurnPlan) bool {
	return p.Attempt == b.Tries && p.Model == b.Model && p.NotBefore != nil
}
