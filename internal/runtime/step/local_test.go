package step

import (
	"context"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// acting is a Turn with one open call of a Job tool.
func acting(class v1alpha1.SideEffect) (turnstate.Turn, v1alpha1.ToolCall) {
	turn := newTurn("demo-1")
	turn.Local = true
	turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
	turn.Progress.Phase = v1alpha1.TurnPhaseAct
	call := v1alpha1.ToolCall{
		ID:         "1-0",
		Name:       "pay",
		Executor:   v1alpha1.ToolExecutorJob,
		SideEffect: class,
		Attempt:    1,
		State:      v1alpha1.ToolCallStatePending,
	}
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{call}
	turn.Progress.Summary.ToolCalls = 1
	return turn, call
}

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
			turn, call := acting(test.class)
			if test.claimed {
				b.claimFor(turn, "another")
			}
			ran, run := 0, NewCallRun(&Line{})
			for range 2 {
				end, err := b.Local(t.Context(), turn, call, run, func(context.Context) tool.Outcome {
					ran++
					return tool.LocalEnded(call, result.ReportOf("paid", "", 0), 0)
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

func TestTheEndOfATurnKnowsWhichCallsOfThisProcessWereClaimed(t *testing.T) {
	for name, test := range map[string]struct {
		local, claimed bool
		want           v1alpha1.ToolCallState
	}{
		"not claimed": {local: true, want: v1alpha1.ToolCallStateNotExecuted},
		"claimed":     {local: true, claimed: true, want: v1alpha1.ToolCallStateUnknown},
		// A process that is ahead of this one may have opened the gate of its pod.
		"a real Job": {want: v1alpha1.ToolCallStateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			turn, _ := acting(v1alpha1.SideEffectAtMostOnce)
			turn.Local = test.local
			if test.claimed {
				b.claimFor(turn, "this one")
			}
			closed, err := b.Cancel(t.Context(), turn, nil)
			if err != nil || closed.Transition.ToolCalls[0].State != test.want {
				t.Errorf("the call is %+v, %v", closed, err)
			}
		})
	}
}
