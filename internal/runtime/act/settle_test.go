package act

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// What the end of an attempt means: settled, or retried, and when.
func TestWhatTheEndOfAnAttemptMeans(t *testing.T) {
	interrupted := tool.Outcome{State: v1alpha1.ToolCallStateFailed, Reason: "Disruption", Error: "x", Retryable: true}
	unstarted := tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: "Unschedulable", Error: tool.NotExecutedText("no node"),
		Retryable: true,
	}
	final := tool.Outcome{State: v1alpha1.ToolCallStateFailed, Reason: "ExitCode", Error: "x"}
	for name, test := range map[string]struct {
		class   v1alpha1.SideEffect
		attempt int32
		ended   tool.Outcome
		pause   time.Duration // 0: settled
	}{
		"Pure":                          {v1alpha1.SideEffectPure, 1, interrupted, 5 * time.Second},
		"Idempotent":                    {v1alpha1.SideEffectIdempotent, 1, interrupted, 5 * time.Second},
		"the second time":               {v1alpha1.SideEffectPure, 2, interrupted, 15 * time.Second},
		"the last time":                 {v1alpha1.SideEffectPure, MaxAttempts, interrupted, 0},
		"AtMostOnce":                    {v1alpha1.SideEffectAtMostOnce, 1, interrupted, 0},
		"without a class":               {"", 1, interrupted, 0},
		"Pure that never started":       {v1alpha1.SideEffectPure, 1, unstarted, 5 * time.Second},
		"Pure with an end of its own":   {v1alpha1.SideEffectPure, 1, final, 0},
		"AtMostOnce that did not start": {v1alpha1.SideEffectAtMostOnce, 1, unstarted, 0},
	} {
		step, call := &Step{}, v1alpha1.ToolCall{
			ID: "1-0", Executor: v1alpha1.ToolExecutorJob, SideEffect: test.class, Attempt: test.attempt,
			State: v1alpha1.ToolCallStateRunning, PodName: "p",
		}
		retried := step.Retries(&call, test.ended, moment)
		if retried != (test.pause > 0) {
			t.Errorf("%s: retried %v", name, retried)
		}
		if !retried {
			step.Settle(&call, test.ended)
			if call.State != test.ended.State || call.NotBefore != nil || !step.Done("1-0") {
				t.Errorf("%s: settled as %+v", name, call)
			}
			continue
		}
		if call.Attempt != test.attempt+1 || !call.NotBefore.Time.Equal(moment.Add(test.pause)) || call.PodName != "" ||
			call.State != v1alpha1.ToolCallStatePending || call.Reason != test.ended.Reason || step.Done("1-0") {
			t.Errorf("%s: the next attempt is %+v", name, call)
		}
		due, next := Startable([]v1alpha1.ToolCall{call}, "", moment)
		if len(due) != 0 || !next.Equal(moment.Add(test.pause)) {
			t.Errorf("%s: starts %v, next at %v", name, due, next)
		}
		if due, _ = Startable([]v1alpha1.ToolCall{call}, "", next); len(due) != 1 {
			t.Errorf("%s: does not start when it is due", name)
		}
	}
}

// A call is only "not executed" if this process knows of every attempt that it has not started.
func TestNotExecutedNeedsEveryAttempt(t *testing.T) {
	unstarted := tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: "Unschedulable", Error: tool.NotExecutedText("no node"),
		Retryable: true,
	}
	for name, test := range map[string]struct {
		before []tool.Outcome
		want   v1alpha1.ToolCallState
	}{
		"the only attempt":             {nil, v1alpha1.ToolCallStateNotExecuted},
		"after one that did not start": {[]tool.Outcome{unstarted}, v1alpha1.ToolCallStateNotExecuted},
		"after one that may have": {
			[]tool.Outcome{{State: v1alpha1.ToolCallStateFailed, Retryable: true}}, v1alpha1.ToolCallStateFailed,
		},
		"after one of each": {
			[]tool.Outcome{unstarted, {State: v1alpha1.ToolCallStateFailed, Retryable: true}}, v1alpha1.ToolCallStateFailed,
		},
	} {
		step, call := &Step{}, v1alpha1.ToolCall{
			ID: "1-0", Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure, Attempt: 1,
		}
		for _, ended := range test.before {
			step.Retries(&call, ended, moment)
		}
		if got := step.Settle(&call, unstarted); got.State != test.want || call.State != test.want {
			t.Errorf("%s: %s, in status %s, want %s", name, got.State, call.State, test.want)
		}
		restarted := &Step{}
		if got := restarted.Settle(&call, unstarted); len(test.before) > 0 && got.State != v1alpha1.ToolCallStateFailed {
			t.Errorf("%s: a new process states %s", name, got.State)
		}
	}
}

func TestACallThatWasAbandonedIsKnownByItsStatus(t *testing.T) {
	for name, call := range map[string]v1alpha1.ToolCall{
		"of a client":      clientCall("1-0"),
		"not yet approved": guardedCall("1-0"),
	} {
		if wasAbandoned(call) {
			t.Errorf("%s: a call that waits counts as abandoned", name)
		}
		step, calls := &Step{}, []v1alpha1.ToolCall{call}
		step.Abandon(calls)
		outcome, _ := step.Outcome("1-0")
		if !wasAbandoned(calls[0]) || outcome.Error == "" || outcome.Started {
			t.Errorf("%s: call %+v after %+v", name, calls[0], outcome)
		}
		restarted := &Step{}
		restarted.RecallAbandoned(calls)
		if again, known := restarted.Outcome("1-0"); !known || again.Error != outcome.Error || again.State != outcome.State {
			t.Errorf("%s: the outcome after a restart is %+v, before %+v", name, again, outcome)
		}
	}
}

func TestALogThatCannotBeReadIsLostInTheEnd(t *testing.T) {
	row := &Row{}
	for reading := 1; reading < maxUnread; reading++ {
		if row.LogLost(false) {
			t.Fatalf("lost after reading %d", reading)
		}
	}
	if row.LogLost(true) {
		t.Error("a log that lags its container is lost at the first reading")
	}
	if !row.LogLost(false) {
		t.Errorf("not lost after %d readings", maxUnread)
	}
	if !row.LogLost(true) {
		t.Error("a log without the result is not lost at the second reading")
	}
}
