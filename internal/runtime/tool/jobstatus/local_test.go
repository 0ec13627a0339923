package jobstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestTheEndOfACallInThisProcess(t *testing.T) {
	once := v1alpha1.ToolCall{ID: "1-0", SideEffect: v1alpha1.SideEffectAtMostOnce}
	pure := v1alpha1.ToolCall{ID: "1-0", SideEffect: v1alpha1.SideEffectPure}
	long := strings.Repeat("x", tool.MaxResultBytes+1)
	timedOut := result.Report{Outcome: result.TimedOut, Exit: result.ExitTimeout, Started: true}
	for name, test := range map[string]struct {
		outcome tool.Outcome
		state   v1alpha1.ToolCallState
		reason  string
		message string
	}{
		"a result": {
			LocalEnded(once, result.ReportOf("out", "err", 0), time.Second), v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted, "out",
		},
		"an empty result": {
			LocalEnded(once, result.ReportOf("", "", 0), time.Second), v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted, "",
		},
		"a long result": {
			LocalEnded(once, result.ReportOf(long, "", 0), time.Second), v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted, "[Output cut: ",
		},
		"an exit code": {
			LocalEnded(once, result.ReportOf("out", "err", 3), time.Second), v1alpha1.ToolCallStateFailed,
			v1alpha1.ToolCallReasonExitCode, "exit code 3. The end of its stderr:\nerr",
		},
		"too late": {
			LocalEnded(once, timedOut, time.Second), v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonTimeout, "after 1s",
		},
		"a panic, once": {
			LocalPanicked(once, "no"), v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonPanicked, "panicked: no",
		},
		"a panic, pure": {
			LocalPanicked(pure, "no"), v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonPanicked, "panicked: no",
		},
		"no function": {
			LocalMissing("pay"), v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonNoFunction, `"pay"`,
		},
		"another Tool now": {
			tool.Changed(), v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged, "changed or removed",
		},
		"a process that died": {
			tool.CallAbandoned(), v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonManagerLost,
			"the process that ran it has ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, text := test.outcome, test.outcome.Error
			if got.Result != nil {
				text = *got.Result
			}
			if got.State != test.state || got.Reason != test.reason || !strings.Contains(text, test.message) ||
				len(text) > tool.MaxResultBytes ||
				got.NeedsLog ||
				got.Retryable {
				t.Errorf("the outcome is %+v, saying %.200q", got, text)
			}
		})
	}
}
