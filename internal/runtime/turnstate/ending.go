package turnstate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
)

// MaxMessageBytes is the length of an error's message in status, as JSON.
const MaxMessageBytes = 2 << 10

const (
	// maxFieldBytes bounds a field of an error in the status, and maxProblemBytes the field with a
	// provider's own text, and the one with the remedy.
	maxFieldBytes   = 256
	maxProblemBytes = 1040
)

// Ending is how a Turn ends without success.
type Ending struct {
	// Failure is why, Sentence is for the user.
	Failure  plan.Failure
	Sentence string

	// end is the decision of the planner.
	end func(v1alpha1.TurnProgress) v1alpha1.TurnProgress
}

// Failed is the end of a Turn because of a failure.
func Failed(failure plan.Failure, sentence string) Ending {
	return Ending{end: plan.Fail, Failure: failure, Sentence: sentence}
}

// Cancelled is the end of a Turn that was cancelled.
func Cancelled(sentence string) Ending {
	return Ending{end: plan.Cancel, Failure: plan.Failure{Code: v1alpha1.ErrorCodeCancelled}, Sentence: sentence}
}

// Deleted is the end of a Turn that was deleted.
func Deleted() Ending {
	return Cancelled("The Turn was deleted while it ran.")
}

// Progress returns the status of the Turn after its end.
func (e Ending) Progress(t Turn, now metav1.MicroTime) v1alpha1.TurnProgress {
	p := e.end(t.Progress)
	if plan := t.Progress.Plan; plan != nil && plan.Phase == v1alpha1.PlanPhaseAct {
		subagent.AddEnded(&p, t.Progress.ToolCalls)
	}
	p.Summary.FinishedAt = &now
	p.Error = turnError(e.Failure, e.Sentence)
	return p
}

// CancelledBeforeStart is the status of a Turn that was cancelled while it was queued.
func CancelledBeforeStart(now metav1.MicroTime) v1alpha1.TurnProgress {
	p := plan.NeverBegan(v1alpha1.TurnPhaseCancelled, now)
	p.Error = &v1alpha1.TurnError{
		Code: v1alpha1.ErrorCodeCancelled, Message: "The turn was cancelled before it began.",
	}
	return p
}

// Refused returns the status of a Turn that ends before it has begun: no step was open, so that there is nothing for
// the journal to close.
func Refused(failure plan.Failure, sentence string, now metav1.MicroTime) v1alpha1.TurnProgress {
	p := plan.NeverBegan(v1alpha1.TurnPhaseFailed, now)
	p.Error = turnError(failure, sentence)
	return p
}

// Steered is the status of a Turn whose message went into another one: no step of its own was ever open.
func Steered(now metav1.MicroTime) v1alpha1.TurnProgress {
	p := plan.NeverBegan(v1alpha1.TurnPhaseSucceeded, now)
	p.Plan.StopReason = v1alpha1.StopReasonSteered
	return p
}

// DeterminismViolation is an error about a Job with the call's name that differs from the plan (DUR-05).
func DeterminismViolation(call v1alpha1.ToolCall, job string) plan.Failure {
	return plan.Failure{
		Code:   v1alpha1.ErrorCodeProcessingError,
		Fields: map[string]string{"call": call.ID, "job": job, "violation": "determinism"},
	}
}

// turnError returns why the Turn failed, in a form that users may read.
func turnError(failure plan.Failure, sentence string) *v1alpha1.TurnError {
	e := &v1alpha1.TurnError{Code: failure.Code, Message: excerpt.Encoded(sentence, MaxMessageBytes)}
	for name, value := range failure.Fields {
		if e.Fields == nil {
			e.Fields = map[string]string{}
		}
		limit := maxFieldBytes
		if name == v1alpha1.ErrorFieldProblem || name == v1alpha1.ErrorFieldRemedy {
			limit = maxProblemBytes
		}
		e.Fields[name] = excerpt.Encoded(value, limit)
	}
	return e
}
