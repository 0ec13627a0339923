package tool

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Delivery is how the launcher gets into the tool's container.
type Delivery string

const (
	// DeliveryImageVolume mounts the launcher's image read-only. The cluster must support image volumes.
	DeliveryImageVolume Delivery = "ImageVolume"
	// DeliveryInitContainer lets an init container copy the launcher. It works on any cluster.
	DeliveryInitContainer Delivery = "InitContainer"
)

// Launcher is the source of the launcher.
type Launcher struct {
	// Image with the launcher.
	Image string
	// PullPolicy of that image; empty for Kubernetes' own default.
	PullPolicy corev1.PullPolicy
	// Delivery is ImageVolume (default) or InitContainer.
	Delivery Delivery
	// RuntimeClass that tool pods run with; empty for the cluster's default.
	RuntimeClass string
	// PriorityClass that tool pods run with; empty for the cluster's default.
	PriorityClass string
	// UserNamespaces gives every tool pod its own user namespace: its users are not users of the node.
	UserNamespaces bool
}

// JobParams are the inputs of the Job of one call.
type JobParams struct {
	// Turn that owns the call, and its Job.
	Turn *v1alpha1.Turn
	// Session is the name of the Turn's Session.
	Session string
	// Step of the Turn's plan that made the call.
	Step int32
	// Call as it was pinned. Its Attempt is part of the Job's name.
	Call v1alpha1.ToolCall
	// Tool to run. Its job must be set.
	Tool *v1alpha1.ToolSpec
	// ToolName is the name of the Tool.
	ToolName string
	// Arguments for the tool, byte for byte, at most MaxArgumentsBytes. Blank arguments reach the tool as {}.
	Arguments string
	// Launcher that runs the tool's command.
	Launcher Launcher
	// Locale that the user is to be answered in; empty for none.
	Locale string
	// TraceParent is the W3C trace context of the call. An invalid one is omitted.
	TraceParent string
}

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

// Outcome is the outcome of a call.
type Outcome struct {
	// State is Succeeded, Failed, NotExecuted or Unknown once the call is done; Pending or Running before.
	State v1alpha1.ToolCallState
	// Reason of the state: one of the Reason constants of this package. Before the end, why the call does not start.
	Reason string
	// Result of the tool, with State Succeeded and NeedsLog false. It may be empty.
	Result *string
	// Error is the text for the model, with every other final State.
	Error string
	// Started reports whether the tool's container is known to have started.
	Started bool
	// StartedAt and FinishedAt are when the container started and ended, by the node's clock; zero when not known.
	StartedAt, FinishedAt time.Time
	// Image that the tool's container ran, as its runtime names it, with its digest; empty when it did not start.
	Image string
	// NeedsLog reports whether the call succeeded and its result is in the container's log: read it with ReadResult,
	// and turn a failure to do so into LostOutput.
	NeedsLog bool
	// Retryable reports whether the call may be started again under a new attempt. It is never set for AtMostOnce.
	Retryable bool
}

// Observation is the state of a call according to its Job and pod.
type Observation struct {
	// Phase of the call.
	Phase Phase
	// Outcome, final with PhaseDone.
	Outcome Outcome
	// Deadline is when the caller must look again although nothing has changed; zero when it need not.
	Deadline time.Time
	// Gated reports whether the pod still has its scheduling gate: record its UID, then release it. Only for
	// AtMostOnce.
	Gated bool
	// Stop reports whether the pod must be deleted because its container may still start or still runs. With PhaseDone
	// the outcome is final. With another phase it is not known before the pod has ended: delete the pod (not the Job,
	// so that its last status can be observed) and observe again.
	Stop bool
	// GaveUp is, with Stop before the end, the outcome of the call if it turns out that its container has not started.
	// By then the cause cannot be observed any more.
	GaveUp *Outcome
}
