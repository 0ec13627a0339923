package jobstatus

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestAResultThatCannotBeReadIsLost(t *testing.T) {
	large := result.Report{Outcome: result.Exited, Started: true, Result: strings.Repeat("x", 9000)}
	message, frame := large.Encode(result.NewNonce())
	for name, c := range map[string]struct{ message, log string }{
		"no message": {"", string(frame)},
		"no log":     {string(message), ""},
		"half a log": {string(message), string(frame[:5000])},
	} {
		if text, _, err := ReadResult(strings.NewReader(c.log), c.message); !errors.Is(err, ErrResultLost) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	broken := errors.New("the connection broke")
	if _, _, err := ReadResult(
		iotest.ErrReader(broken),
		string(message),
	); !errors.Is(err, broken) ||
		errors.Is(err, ErrResultLost) {
		t.Errorf("a log that cannot be read gives %v", err)
	}
}

func TestALostOutputIsNeitherSuccessNorUnknown(t *testing.T) {
	succeeded := tool.Outcome{
		State:      v1alpha1.ToolCallStateSucceeded,
		Reason:     v1alpha1.ToolCallReasonCompleted,
		NeedsLog:   true,
		Started:    true,
		StartedAt:  created,
		FinishedAt: created.Add(time.Second),
	}
	for class, safe := range map[v1alpha1.SideEffect]bool{
		once: false, "": false, pure: true, v1alpha1.SideEffectIdempotent: true,
	} {
		got := LostOutput(v1alpha1.ToolCall{SideEffect: class}, succeeded)
		if got.State != v1alpha1.ToolCallStateFailed || got.Reason != v1alpha1.ToolCallReasonOutputLost || got.Retryable ||
			!got.Started ||
			got.NeedsLog ||
			got.Error == "" {
			t.Errorf("%q: %+v", class, got)
		}
		if stated := strings.Contains(got.Error, "safe to call it again"); stated != safe {
			t.Errorf("%q: safe to call again: %v, want %v: %s", class, stated, safe, got.Error)
		}
		if !got.StartedAt.Equal(succeeded.StartedAt) || !got.FinishedAt.Equal(succeeded.FinishedAt) {
			t.Errorf("%q: from %v to %v", class, got.StartedAt, got.FinishedAt)
		}
	}
}

func TestOnlyTheToolsContainerHasTheMessage(t *testing.T) {
	pod := scene(pure, ends(0, "Completed", "the report")).pod
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: "another"},
	}
	if got := TerminationMessage(pod); got != "the report" {
		t.Errorf("got %q", got)
	}
	for _, pod := range []*corev1.Pod{scene(pure).pod, scene(pure, runs(0)).pod, {}} {
		if got := TerminationMessage(pod); got != "" {
			t.Errorf("got %q", got)
		}
	}
}
