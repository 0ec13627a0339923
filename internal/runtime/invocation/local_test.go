package invocation

import (
	"context"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestACallOfAJobToolInThisProcess(t *testing.T) {
	for name, test := range map[string]struct {
		class   v1alpha1.SideEffect
		claimed bool
		ran     int
		entries int64
		state   v1alpha1.ToolCallState
	}{
		"once": {
			class: v1alpha1.SideEffectAtMostOnce, ran: 1, entries: 2, state: v1alpha1.ToolCallStateSucceeded,
		},
		"claimed by another": {
			class: v1alpha1.SideEffectAtMostOnce, claimed: true, entries: 1, state: v1alpha1.ToolCallStateUnknown,
		},
		"again": {class: v1alpha1.SideEffectPure, ran: 2, state: v1alpha1.ToolCallStateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			turn, call := acting(v1alpha1.ToolExecutorJob, test.class)
			if test.claimed {
				b.claimFor(turn, "another")
			}
			ran, run := 0, NewAttempt(&Line{})
			for range 2 {
				end, err := b.Local(t.Context(), turn, Call{Call: call, Attempt: run}, func(context.Context) tool.Outcome {
					ran++
					return jobstatus.LocalEnded(call, result.ReportOf("paid", "", 0), 0)
				})
				if err != nil || end.Outcome.State != test.state ||
					(end.Outcome.State == v1alpha1.ToolCallStateSucceeded && end.Outcome.StartedAt.IsZero()) {
					t.Fatalf("it ends with %+v, %v", end, err)
				}
			}
			if ran != test.ran || b.entries() != test.entries {
				t.Errorf("ran %d times, %d entries", ran, b.entries())
			}
		})
	}
}

// TestACallOfAJobToolElsewhereIsRefused: a Job whose Turn runs in a cluster is no function of this process.
func TestACallOfAJobToolElsewhereIsRefused(t *testing.T) {
	b := newBench(t)
	turn, call := acting(v1alpha1.ToolExecutorJob, v1alpha1.SideEffectAtMostOnce)
	turn.Local = false
	c := Call{Call: call, Attempt: NewAttempt(&Line{})}
	_, err := b.Local(t.Context(), turn, c, func(context.Context) tool.Outcome {
		t.Error("the call has started")
		return tool.Outcome{}
	})
	if err == nil || b.entries() != 0 {
		t.Errorf("%v, with %d entries", err, b.entries())
	}
}
