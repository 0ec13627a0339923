package jobstatus

import (
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Phase is the state of a call.
type Phase string

const (
	// PhasePending: the tool's container was not observed to start.
	PhasePending Phase = "Pending"
	// PhaseRunning: the tool's container runs.
	PhaseRunning Phase = "Running"
	// PhaseDone: the call has its outcome.
	PhaseDone Phase = "Done"
)

// Observation is the state of a call according to its Job and pod.
type Observation struct {
	// Phase of the call.
	Phase Phase
	// Outcome, final with PhaseDone.
	Outcome tool.Outcome
	// Deadline is when the caller must look again although nothing has changed; zero when it need not.
	Deadline time.Time
	// Gated reports whether the pod still has its scheduling gate: record its UID, then release it. Only for
	// AtMostOnce.
	Gated bool
	// Stop reports whether the pod must be deleted because its container may still start or still runs. With PhaseDone
	// the outcome is final. With another phase it is not known before the pod has ended: delete the pod (not the Job,
	// so that its last status can be observed) and observe again.
	Stop bool
	// StartFailure is, with Stop before the end, the outcome of the call if it turns out that its container has not
	// started. By then the cause cannot be observed any more.
	StartFailure *tool.Outcome
}
