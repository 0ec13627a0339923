package jobspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TaskRef is the background task that a Job runs; the zero TaskRef stands for none.
type TaskRef struct {
	// ID of the task, and Job is the name of its Job.
	ID, Job string
	// Owner is the Session that owns the Job.
	Owner metav1.OwnerReference
}

// Params are the inputs of the Job of one call.
type Params struct {
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
	// Arguments for the tool, byte for byte, at most tool.MaxArgumentsBytes. Blank arguments reach the tool as {}.
	Arguments string
	// Files that the tool gets, as the value of an annotation; empty for a Tool that shares no files.
	Files string
	// Outputs are the paths of the files and directories that the tool returns, as they are in the Session.
	Outputs []string
	// KeepsOutput reports whether an output that is longer than a result is returned.
	KeepsOutput bool
	// Launcher that runs the tool's command.
	Launcher Launcher
	// Locale of the response to the user; empty for none.
	Locale string
	// Task that the Job runs; zero for the Job of a call. The Job of a task belongs to the Session, is named by the task
	// and has no labels of a Turn.
	Task TaskRef
	// Capability is the built-in capability that the Tool belongs to, whose program is part of the launcher; empty for the
	// Tool of an object. Its container runs the launcher's image, and it alone has a token of the ServiceAccount.
	Capability string
	// TraceParent is the W3C trace context of the call. An invalid one is omitted.
	TraceParent string
}
