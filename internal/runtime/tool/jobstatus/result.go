package jobstatus

import (
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// MaxLogBytes bounds the read of a container's log: the launcher writes no more.
const MaxLogBytes = result.MaxFilesLogBytes

// ErrResultLost means that the result of a tool is not where its report points to. The log of a container that has just
// ended may lag behind for a moment, so that a second read is useful. Any other error of ReadResult comes from reading
// the log.
var ErrResultLost = errors.New("the result of the tool is lost")

// ReadResult finds the result of a tool in the log of its container, and the files of the tool, if there are any.
// message is the container's termination message, which has their positions and distinguishes them from the tool's own
// output.
func ReadResult(log io.Reader, message string) (string, *result.Files, error) {
	report, err := result.Decode(message)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrResultLost, err)
	}
	text, files, err := report.ReadLog(log)
	if errors.Is(err, result.ErrNoFrame) {
		return "", nil, fmt.Errorf("%w: %w", ErrResultLost, err)
	}
	return text, files, err
}

// TerminationMessage returns the message that the tool's container left behind; empty if it has not ended.
func TerminationMessage(pod *corev1.Pod) string {
	status := toolStatus(pod)
	if status == nil || status.State.Terminated == nil {
		return ""
	}
	return status.State.Terminated.Message
}

// StdoutBytes returns how much the tool wrote to stdout, according to its report; 0 without one.
func StdoutBytes(pod *corev1.Pod) int64 {
	report, err := result.Decode(TerminationMessage(pod))
	if err != nil {
		return 0
	}
	return report.StdoutBytes
}

// LostOutput is the outcome of a call that succeeded and whose result could not be read from the log.
func LostOutput(call v1alpha1.ToolCall, succeeded tool.Outcome) tool.Outcome {
	why := "its result could not be read from the log of its container"
	if succeeded.HasFiles {
		why = "its result and its files could not be read from the log of its container, or its files not be stored"
	}
	lost := tool.OutputLost(call, why)
	lost.StartedAt, lost.FinishedAt = succeeded.StartedAt, succeeded.FinishedAt
	return lost
}

// toolStatus returns the status of the container that runs the tool, found by its name; nil for none.
func toolStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == v1alpha1.ToolContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}
