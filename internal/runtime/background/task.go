package background

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const (
	// MaxActive is the number of tasks of a Session whose ends were not delivered yet.
	MaxActive = 5
	// MaxPerRoot is the number of tasks that may follow from one message of a user.
	MaxPerRoot = 32
	// maxKept is the number of delivered tasks that a Session keeps.
	maxKept = 32
	// maxRoots is the number of messages whose tasks are counted. The tasks of older ones can start no further task.
	maxRoots = 32
	// StartLimit is how long a task may be without a Job before it ends as not executed: the cluster may refuse its Job,
	// or no manager may run.
	StartLimit = 10 * time.Minute
	// StopLimit is how long the end of a cancelled task waits for its container; a lost node must not block it forever.
	StopLimit = time.Minute

	idDigits   = 16
	namePrefix = "task-"
)

// State is the state of a task.
type State string

// States of tasks (TASK-01). A task never waits for input.
const (
	StateQueued    State = "queued"
	StateRunning   State = "running"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	StateCancelled State = "canceled"
)

// Tool is the Tool of a task, as it was when the task was started.
type Tool struct {
	Name   string    `json:"name"`
	UID    types.UID `json:"uid"`
	Digest string    `json:"digest"`
}

// Task is a background task, without its arguments and its result.
type Task struct {
	ID   string `json:"id"`
	Tool Tool   `json:"tool"`
	// Turn, Step and CallID are the call that started the task. A task that was withdrawn has no CallID.
	Turn   v1alpha1.ObjectIdentity `json:"turn"`
	Step   int32                   `json:"step"`
	CallID string                  `json:"callID"`
	// Root is the Turn of the message that the task follows from.
	Root v1alpha1.ObjectIdentity `json:"root"`
	// SubmittedBy is the user who sent the message of the Turn.
	SubmittedBy string `json:"submittedBy,omitempty"`
	// Locale, TraceParent, Fingerprint and Timeout are those of the call.
	Locale      string           `json:"locale,omitempty"`
	TraceParent string           `json:"traceParent,omitempty"`
	Fingerprint string           `json:"fingerprint,omitempty"`
	Timeout     *metav1.Duration `json:"timeout,omitempty"`
	// Recorded is when the task was recorded.
	Recorded time.Time `json:"recorded"`
	// PodUID is the UID of the only pod that may run the task. Where functions replace Jobs, it is the process that has
	// begun the task.
	PodUID types.UID `json:"podUID,omitempty"`
	// Cancelled is when the task was to be cancelled; nil if it was not.
	Cancelled *time.Time `json:"cancelled,omitempty"`
	// End of the task; nil before it.
	End *End `json:"end,omitempty"`
	// Delivered reports whether the Turn that delivers the end exists, or can never exist.
	Delivered bool `json:"delivered,omitempty"`
}

// End is the end of a task.
type End struct {
	// State and Reason are those of a tool call.
	State  v1alpha1.ToolCallState `json:"state"`
	Reason string                 `json:"reason,omitempty"`
	// Error is the text for the model, unless the task has succeeded.
	Error string `json:"error,omitempty"`
	// ResultBytes is the size of the result.
	ResultBytes int64 `json:"resultBytes,omitempty"`
	// At is when the end was recorded.
	At time.Time `json:"at"`
	// StartedAt and FinishedAt are those of the container; zero when not known.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Fence is the nonce around the result in the message. It was minted after the tool had written all of it.
	Fence string `json:"fence"`
}

// ID returns the id of the task that a call starts. It is a hash, so that it contains no text from a model.
func ID(turn types.UID, callID string) string {
	return tool.Hash("task", string(turn), callID)[:idDigits]
}

// Name returns the name of the Job of a task, and of the Turn that delivers its end.
func Name(id string) string { return namePrefix + id }

// IDOf returns the id of the task of a Job or a Turn; empty for a name that is not that of a task.
func IDOf(name string) string {
	id, is := strings.CutPrefix(name, namePrefix)
	if !is || len(id) != idDigits {
		return ""
	}
	return id
}

// Active reports whether the end of the task is yet to be delivered.
func (t *Task) Active() bool { return !t.Delivered }

// NeverRecorded is why a task is withdrawn whose call can record it no more.
func NeverRecorded() tool.Outcome {
	return tool.NotExecuted(v1alpha1.ToolCallReasonTaskCancelled, "its call ended before the task was recorded")
}

// Withdrawn reports whether the task never starts because its call was refused, or ended before it recorded the task.
// No message comes of it. Its record does not name the call.
func (t *Task) Withdrawn() bool { return t.CallID == "" && t.End != nil }

// Refusal is the outcome of the call of a task that was withdrawn.
func (t *Task) Refusal() tool.Outcome {
	return tool.Outcome{State: t.End.State, Reason: t.End.Reason, Error: t.End.Error}
}

// Call returns the task as a call of its tool. It may start once, whatever the class of the tool: nothing repeats a
// task.
func (t *Task) Call() v1alpha1.ToolCall {
	return v1alpha1.ToolCall{
		ID: t.CallID, Name: t.Tool.Name, Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce,
		ToolUID: t.Tool.UID, ToolDigest: t.Tool.Digest, Timeout: t.Timeout, Fingerprint: t.Fingerprint, Attempt: 1,
		PodUID: t.PodUID,
	}
}

// State returns the state of the task.
func (t *Task) State() State {
	switch {
	case t.End == nil && t.PodUID == "":
		return StateQueued
	case t.End == nil:
		return StateRunning
	case t.End.State == v1alpha1.ToolCallStateSucceeded:
		return StateSucceeded
	case t.End.Reason == v1alpha1.ToolCallReasonTaskCancelled, t.Withdrawn():
		return StateCancelled
	default:
		return StateFailed
	}
}

// Announce adds a task to those that are shown of its Session. The error is a *LimitError if there are as many as there
// may be.
func Announce(shown []v1alpha1.BackgroundTask, t *Task) ([]v1alpha1.BackgroundTask, error) {
	if len(shown) >= MaxActive {
		return nil, tooMany(len(shown))
	}
	return append(slices.Clone(shown), t.Shown()), nil
}

// Shown returns the task as the status of its Session shows it.
func (t *Task) Shown() v1alpha1.BackgroundTask {
	return v1alpha1.BackgroundTask{
		ID: t.ID, Tool: t.Tool.Name, Turn: t.Turn.Name, StartedAt: metav1.NewTime(t.Recorded.Truncate(time.Second)),
	}
}
