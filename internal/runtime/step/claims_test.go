package step

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// acting is a Turn with one open call.
func acting(executor v1alpha1.ToolExecutor, class v1alpha1.SideEffect) turnstate.Turn {
	turn := newTurn("demo-1")
	turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
	turn.Progress.Phase = v1alpha1.TurnPhaseAct
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{
		{ID: "1-0", Name: "pay", Executor: executor, SideEffect: class, Attempt: 1, State: v1alpha1.ToolCallStatePending},
	}
	turn.Progress.Summary.ToolCalls = 1
	return turn
}

// claimFor appends a claim of the Turn's call to the journal.
func (b *bench) claimFor(turn turnstate.Turn, holder string) {
	b.t.Helper()
	if _, _, err := b.Log.Claim(
		b.t.Context(),
		session,
		turn.Ref,
		2,
		1,
		journal.ClaimedCall{ID: "1-0", Holder: holder},
	); err != nil {
		b.t.Fatal(err)
	}
}

// The end of a Turn records the outcome of an interrupted call that the journal has (invariant 4).
func TestTheEndOfATurnKnowsWhichRequestsWereClaimed(t *testing.T) {
	const pure, once = v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce
	for name, test := range map[string]struct {
		class  v1alpha1.SideEffect
		before func(*bench, turnstate.Turn)
		known  *tool.Outcome
		want   v1alpha1.ToolCallState
	}{
		"once, not claimed": {class: once, want: v1alpha1.ToolCallStateNotExecuted},
		"once, claimed": {
			class: once, before: func(b *bench, t turnstate.Turn) { b.claimFor(t, "x") }, want: v1alpha1.ToolCallStateUnknown,
		},
		"once, kept": {class: once, before: func(b *bench, t turnstate.Turn) {
			b.claimFor(t, "x")
			_, _, err := b.Log.Settle(b.t.Context(), session, t.Ref, 2, 1, act.SettledOf("1-0", succeeded("so")))
			if err != nil {
				b.t.Fatal(err)
			}
		}, want: v1alpha1.ToolCallStateSucceeded},
		"once, and this process is wrong": {
			class: once, before: func(b *bench, t turnstate.Turn) { b.claimFor(t, "x") },
			known: new(tool.CallUnclaimed()), want: v1alpha1.ToolCallStateUnknown,
		},
		"again": {class: pure, want: v1alpha1.ToolCallStateUnknown},
	} {
		for ending, end := range map[string]func(*bench, turnstate.Turn, *act.Step) (*journal.Closed, error){
			"cancelled": func(b *bench, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
				return b.Cancel(b.t.Context(), t, known)
			},
			"expired": func(b *bench, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
				return b.Expire(b.t.Context(), t, turnstate.DeadlineExceeded(1), known)
			},
		} {
			t.Run(name+", "+ending, func(t *testing.T) {
				b := newBench(t)
				turn := acting(v1alpha1.ToolExecutorHTTP, test.class)
				if test.before != nil {
					test.before(b, turn)
				}
				known := facts{}
				if test.known != nil {
					known.Outcomes = map[string]tool.Outcome{"1-0": *test.known}
				}
				closed, err := end(b, turn, known.step())
				if err != nil || closed.Transition.ToolCalls[0].State != test.want {
					t.Fatalf("the call is %+v, %v; want %s", closed.Transition.ToolCalls, err, test.want)
				}
			})
		}
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
			turn := acting(v1alpha1.ToolExecutorJob, v1alpha1.SideEffectAtMostOnce)
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

func TestAStepIsClosedWithTheOutcomeOfAClaimedCall(t *testing.T) {
	b := newBench(t)
	turn := acting(v1alpha1.ToolExecutorHTTP, v1alpha1.SideEffectAtMostOnce)
	b.claimFor(turn, "this one")
	kept, _, err := b.Log.Settle(t.Context(), session, turn.Ref, 2, 1, act.SettledOf("1-0", succeeded("fine")))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{"1-0": succeeded("fine")}, Kept: map[string]journal.SettledRef{"1-0": kept},
	}.step())
	if err != nil || len(closed.Settled) != 1 || closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the step is closed as %+v, %v", closed, err)
	}
}

func TestAJournalWithoutRoomForAClaimEndsTheTurn(t *testing.T) {
	b := newBench(t)
	turn := acting(v1alpha1.ToolExecutorHTTP, v1alpha1.SideEffectAtMostOnce)
	turn.Session.Limit = 10
	closed, err := b.Act(t.Context(), turn, facts{Outcomes: map[string]tool.Outcome{"1-0": tool.CallUnclaimed()}}.step())
	if err != nil || closed.Transition.Error == nil || closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull ||
		closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateNotExecuted {
		t.Errorf("the step is closed as %+v, %v", closed, err)
	}
}
