package toolresult

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// at is a Turn in iteration 2 with the given calls; it runs unless change ends it.
func at(change func(*v1alpha1.Turn), calls ...v1alpha1.ToolCall) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: "demo-1", UID: "u1"}}
	turn.Status.Phase, turn.Status.Iteration, turn.Status.ToolCalls = v1alpha1.TurnPhaseAct, 2, calls
	if change != nil {
		change(turn)
	}
	return turn
}

func ofClient(id string, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{ID: id, Name: "ask", Executor: v1alpha1.ToolExecutorClient, State: state}
}

func ofJob(id string, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{ID: id, Name: "run", Executor: v1alpha1.ToolExecutorJob, State: state}
}

// guarded is a call that needs approval: with attempt 0 it has none.
func guarded(state v1alpha1.ToolCallState, attempt int32, reason string) v1alpha1.ToolCall {
	call := ofJob("2-0", state)
	call.Policy, call.Attempt, call.Reason = v1alpha1.ToolPolicyRequiresApproval, attempt, reason
	return call
}

func TestWhichChangesOfATurnWakeItsResults(t *testing.T) {
	changed := callsChanged()
	for name, test := range map[string]struct {
		before, after *v1alpha1.Turn
		want          bool
	}{
		"nothing":           {at(nil), at(nil), false},
		"another iteration": {at(nil), at(func(turn *v1alpha1.Turn) { turn.Status.Iteration = 3 }), true},
		"another phase": {
			at(nil), at(func(turn *v1alpha1.Turn) { turn.Status.Phase = v1alpha1.TurnPhaseReason }), true,
		},
		"other calls": {at(nil), at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)), true},
		"a call of several ended": {
			waiting(ofClient("2-0", v1alpha1.ToolCallStateWaiting)), waiting(ofClient("2-0", v1alpha1.ToolCallStateSucceeded)),
			true,
		},
		"a Job goes on": {
			at(nil, ofJob("2-0", v1alpha1.ToolCallStatePending)), at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)), false,
		},
		"a Job goes on meanwhile": {
			waiting(ofJob("2-0", v1alpha1.ToolCallStatePending)), waiting(ofJob("2-0", v1alpha1.ToolCallStateRunning)), false,
		},
		"another Turn of the name": {at(nil), at(func(turn *v1alpha1.Turn) { turn.UID = "u2" }), true},
		"its deletion begins": {
			at(nil), at(func(turn *v1alpha1.Turn) { turn.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), true,
		},
		"a call is approved": {
			at(nil, guarded(v1alpha1.ToolCallStateWaiting, 0, "")), at(nil, guarded(v1alpha1.ToolCallStatePending, 1, "")), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changed.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("wakes: %v, want %v", got, test.want)
			}
		})
	}
	if !changed.Delete(event.DeleteEvent{Object: at(nil)}) || !changed.Create(event.CreateEvent{Object: at(nil)}) {
		t.Error("a Turn that is new or gone wakes its results")
	}
}

func waiting(calls ...v1alpha1.ToolCall) *v1alpha1.Turn {
	return at(func(turn *v1alpha1.Turn) { turn.Status.Phase = v1alpha1.TurnPhaseWaitingForToolResults }, calls...)
}
