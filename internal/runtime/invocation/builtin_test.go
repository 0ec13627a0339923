package invocation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// counting registers a built-in tool, and returns a Turn with one open call of it, the call, and how often it has run.
func counting(class v1alpha1.SideEffect, err error) (turnstate.Turn, Call, *int) {
	runs := new(int)
	builtin.Register(builtin.Capability{Name: "test_host", Tools: []builtin.Tool{{
		Name: "count_runs", Description: "Counts.", SideEffect: class,
		Run: func(_ context.Context, call builtin.Call) (any, error) {
			*runs++
			return call.Arguments, err
		},
	}}})
	d := builtin.Definitions("test_host").Find("count_runs")
	turn, call := acting(v1alpha1.ToolExecutorBuiltin, class)
	call.Name = d.Name
	d.Pin(&call)
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{call}
	return turn, Call{Call: call, Definition: d, Attempt: NewAttempt(&Line{})}, runs
}

// Rules: TOOL-01.
func TestAPureBuiltinToolRunsAgainAndCostsNoEntry(t *testing.T) {
	b := newBench(t)
	turn, call, runs := counting(v1alpha1.SideEffectPure, nil)
	for range 2 {
		end, err := b.CarryOut(t.Context(), turn, call)
		if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || *end.Outcome.Result != `"{}"` ||
			end.Kept.Ordinal != 0 || end.Defect != nil || !end.Outcome.FinishedAt.After(end.Outcome.StartedAt) {
			t.Fatalf("it ends with %+v, %v", end, err)
		}
	}
	if b.entries() != 0 || *runs != 2 {
		t.Errorf("%d entries, %d runs", b.entries(), *runs)
	}
}

// Rules: TOOL-01.
func TestABuiltinToolThatStartsOnceIsClaimed(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	turn, call, runs := counting(v1alpha1.SideEffectAtMostOnce, nil)
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || end.Kept.Ordinal != 2 {
		t.Fatalf("it ends with %+v, %v", end, err)
	}
	another := call
	another.Attempt = NewAttempt(&Line{})
	end, err = onStore(t, store).CarryOut(t.Context(), turn, another)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateSucceeded || *runs != 1 {
		t.Errorf("in another process it ends with %+v, %v after %d runs", end, err, *runs)
	}
	if !act.Claimable(call.Call, false) {
		t.Error("no claim is expected of it")
	}
}

func TestWhatFailedInABuiltinToolIsForTheLog(t *testing.T) {
	b := newBench(t)
	turn, call, _ := counting(v1alpha1.SideEffectPure, errors.New("password: hunter2"))
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.Reason != v1alpha1.ToolCallReasonInternalError ||
		strings.Contains(end.Outcome.Error, "hunter2") {
		t.Errorf("it ends with %+v, %v", end, err)
	}
	if end.Defect == nil || !strings.Contains(end.Defect.Error(), "hunter2") {
		t.Errorf("the log has %v", end.Defect)
	}
}

func TestABuiltinToolThatIsGoneIsNotRun(t *testing.T) {
	b := newBench(t)
	turn, call, runs := counting(v1alpha1.SideEffectPure, nil)
	call.Definition = nil
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.Reason != v1alpha1.ToolCallReasonToolChanged || *runs != 0 ||
		end.Outcome.State != v1alpha1.ToolCallStateFailed {
		t.Errorf("it ends with %+v, %v after %d runs", end, err, *runs)
	}
}
