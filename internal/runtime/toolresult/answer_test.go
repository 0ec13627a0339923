package toolresult

import (
	"cmp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

func ended(turn *v1alpha1.Turn) {
	turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}
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
	call.Policy, call.Attempt = v1alpha1.ToolPolicyRequiresApproval, attempt
	call.Reason, call.CallDigest = reason, "digest"
	return call
}

func TestJudgeAboutDecisions(t *testing.T) {
	waits := guarded(v1alpha1.ToolCallStateWaiting, 0, v1alpha1.ReasonApproval)
	for name, test := range map[string]struct {
		decision v1alpha1.Decision
		turn     *v1alpha1.Turn
		reason   string
		message  string
	}{
		"a call that waits for approval": {decision: v1alpha1.DecisionApprove, turn: at(nil, waits)},
		"a rejection of it":              {decision: v1alpha1.DecisionReject, turn: at(nil, waits)},
		"a result for it": {
			turn: at(nil, waits), reason: v1alpha1.ReasonDecisionExpected,
			message: "Create a ToolResult with decision Approve or Reject",
		},
		"a result once it runs": {
			turn: at(nil, guarded(v1alpha1.ToolCallStateRunning, 1, "")), reason: v1alpha1.ReasonNotAClientTool,
		},
		"a client's call": {
			decision: v1alpha1.DecisionApprove, turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)),
			reason: v1alpha1.ReasonNoApprovalNeeded, message: "does not require approval",
		},
		"a call that starts at once": {
			decision: v1alpha1.DecisionReject, turn: at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)),
			reason: v1alpha1.ReasonNoApprovalNeeded,
		},
		"approved before": {
			decision: v1alpha1.DecisionApprove, turn: at(nil, guarded(v1alpha1.ToolCallStatePending, 1, "")),
			reason: v1alpha1.ReasonAlreadyAnswered, message: "approved or rejected call 2-0 first",
		},
		"approved before, and it has ended": {
			decision: v1alpha1.DecisionReject, turn: at(nil, guarded(v1alpha1.ToolCallStateFailed, 1, "ExitCode")),
			reason: v1alpha1.ReasonAlreadyAnswered,
		},
		"rejected before": {
			decision: v1alpha1.DecisionApprove,
			turn:     at(nil, guarded(v1alpha1.ToolCallStateNotExecuted, 0, v1alpha1.ToolCallReasonRejected)),
			reason:   v1alpha1.ReasonAlreadyAnswered,
		},
		"too late": {
			decision: v1alpha1.DecisionApprove,
			turn:     at(nil, guarded(v1alpha1.ToolCallStateNotExecuted, 0, v1alpha1.ToolCallReasonApprovalTimeout)),
			reason:   v1alpha1.ReasonCallClosed, message: "in time",
		},
		"after the end, approved before": {
			decision: v1alpha1.DecisionApprove, turn: at(ended, guarded(v1alpha1.ToolCallStateSucceeded, 1, "Completed")),
			reason: v1alpha1.ReasonAlreadyAnswered,
		},
		"after the end, without a decision": {
			decision: v1alpha1.DecisionApprove, turn: at(ended, guarded(v1alpha1.ToolCallStateNotExecuted, 0, "TurnEnded")),
			reason: v1alpha1.ReasonCallClosed, message: "has ended",
		},
		"a result after the end of our call": {
			turn: at(ended, guarded(v1alpha1.ToolCallStateSucceeded, 1, "Completed")), reason: v1alpha1.ReasonCallClosed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := &v1alpha1.ToolResult{
				Spec: v1alpha1.ToolResultSpec{CallID: "2-0", Decision: test.decision, CallDigest: "digest"},
			}
			result.Spec.TurnRef.Name, result.Spec.TurnRef.UID = "demo-1", "u1"
			got := Evaluate(result, test.turn)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.message) ||
				(got.Reason != "") != (got.Status == metav1.ConditionFalse) {
				t.Errorf("got %q %q %q, want %q with %q", got.Status, got.Reason, got.Message, test.reason, test.message)
			}
		})
	}
}

// A decision is about one call that can be seen, and counts for nothing else.
func TestADecisionIsForTheCallThatItNamesAndNeverKept(t *testing.T) {
	waits := guarded(v1alpha1.ToolCallStateWaiting, 0, v1alpha1.ReasonApproval)
	planned := waits
	planned.CallDigest = ""
	deleted := func(turn *v1alpha1.Turn) { turn.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	queued := func(turn *v1alpha1.Turn) { turn.Status.Phase, turn.Status.Iteration = v1alpha1.TurnPhaseQueued, 0 }
	for name, test := range map[string]struct {
		call, digest    string
		uid             types.UID
		turn            *v1alpha1.Turn
		reason, message string
	}{
		"this call": {call: "2-0", uid: "u1", digest: "digest", turn: at(nil, waits)},
		"no Turn": {
			call: "2-0", uid: "u1", digest: "digest", reason: v1alpha1.ReasonTurnNotFound, message: "waiting for approval",
		},
		"a Turn that is being deleted": {
			call: "2-0", uid: "u1", digest: "digest", turn: at(deleted, waits), reason: v1alpha1.ReasonCallClosed,
			message: "deleted",
		},
		"another Turn of the name": {
			call: "2-0", uid: "u0", digest: "digest", turn: at(nil, waits), reason: v1alpha1.ReasonTurnReplaced,
		},
		"no UID": {
			call: "2-0", digest: "digest", turn: at(nil, waits), reason: v1alpha1.ReasonTurnReplaced,
		},
		"other arguments, or another Tool": {
			call: "2-0", uid: "u1", digest: "another", turn: at(nil, waits), reason: v1alpha1.ReasonCallDigestMismatch,
			message: "callDigest digest",
		},
		"no digest": {
			call: "2-0", uid: "u1", turn: at(nil, waits), reason: v1alpha1.ReasonCallDigestMismatch,
		},
		"no digest, and the call has none": {
			call: "2-0", uid: "u1", turn: at(nil, planned), reason: v1alpha1.ReasonCallDigestMismatch,
		},
		"a Turn that is queued": {
			call: "1-0", uid: "u1", digest: "digest", turn: at(queued), reason: v1alpha1.ReasonUnknownCall,
			message: "waiting for approval",
		},
		"a call that has not been asked for": {
			call: "2-0", uid: "u1", digest: "digest", turn: at(nil), reason: v1alpha1.ReasonUnknownCall,
		},
		"a call of an iteration to come": {
			call: "3-0", uid: "u1", digest: "digest", turn: at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)),
			reason: v1alpha1.ReasonUnknownCall,
		},
		"another call than the one it waits for": {
			call: "2-1", uid: "u1", digest: "digest", turn: at(nil, waits), reason: v1alpha1.ReasonUnknownCall,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := &v1alpha1.ToolResult{
				Spec: v1alpha1.ToolResultSpec{CallID: test.call, Decision: v1alpha1.DecisionApprove, CallDigest: test.digest},
			}
			result.Spec.TurnRef.Name, result.Spec.TurnRef.UID = "demo-1", test.uid
			got := Evaluate(result, test.turn)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.message) ||
				(got.Reason != "") != (got.Status == metav1.ConditionFalse) {
				t.Errorf("got %q %q %q, want %q with %q", got.Status, got.Reason, got.Message, test.reason, test.message)
			}
		})
	}
}

func TestADecisionThatNamesASubmitterNamesThatOfTheTurn(t *testing.T) {
	for name, test := range map[string]struct {
		turn, decision string
		refused        bool
	}{
		"none":                               {},
		"none named":                         {turn: "ann"},
		"the same":                           {turn: "ann", decision: "ann"},
		"another":                            {turn: "ann", decision: "bob", refused: true},
		"one, and the Turn has no submitter": {decision: "bob", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			turn := at(
				func(turn *v1alpha1.Turn) { turn.Spec.SubmittedBy = test.turn },
				guarded(v1alpha1.ToolCallStateWaiting, 0, v1alpha1.ReasonApproval),
			)
			result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
				CallID: "2-0", Decision: v1alpha1.DecisionApprove, CallDigest: "digest", TurnSubmittedBy: test.decision,
			}}
			result.Spec.TurnRef.Name, result.Spec.TurnRef.UID = "demo-1", "u1"
			if got := Evaluate(
				result,
				turn,
			); (got.Reason == v1alpha1.ReasonTurnSubmitterMismatch) != test.refused ||
				Binds(result, turn, &turn.Status.ToolCalls[0]) == test.refused {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Rules: CLIENT-04.
func TestAnApprovalUnderFourEyesNamesTheUsersWhoHaveSteeredTheTurn(t *testing.T) {
	for name, test := range map[string]struct {
		turn, names []string
		decision    v1alpha1.Decision
		off         bool
		refused     bool
	}{
		"none":                 {},
		"the same":             {turn: []string{"bob", "eve"}, names: []string{"eve", "bob"}},
		"none named":           {turn: []string{"bob"}, refused: true},
		"one of two":           {turn: []string{"bob", "eve"}, names: []string{"eve"}, refused: true},
		"an unknown one":       {turn: []string{"bob", ""}, names: []string{"bob"}, refused: true},
		"one who has not":      {names: []string{"bob"}, refused: true},
		"without four eyes":    {turn: []string{"bob"}, off: true},
		"a rejection needs no": {turn: []string{"bob"}, decision: v1alpha1.DecisionReject},
	} {
		t.Run(name, func(t *testing.T) {
			turn := at(func(turn *v1alpha1.Turn) {
				turn.Spec.SubmittedBy, turn.Status.SteeredBy = "ann", test.turn
			}, guarded(v1alpha1.ToolCallStateWaiting, 0, v1alpha1.ReasonApproval))
			result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
				CallID: "2-0", Decision: cmp.Or(test.decision, v1alpha1.DecisionApprove), CallDigest: "digest",
				TurnSubmittedBy: "ann", TurnSteeredBy: test.names,
			}}
			if test.off {
				result.Spec.TurnSubmittedBy = ""
			}
			result.Spec.TurnRef.Name, result.Spec.TurnRef.UID = "demo-1", "u1"
			got := Evaluate(result, turn)
			if (got.Reason == v1alpha1.ReasonTurnSubmitterMismatch) != test.refused ||
				Binds(result, turn, &turn.Status.ToolCalls[0]) == test.refused {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Rules: CLIENT-04.
func TestJudge(t *testing.T) {
	pending, refused := metav1.ConditionUnknown, metav1.ConditionFalse
	for name, test := range map[string]struct {
		call    string
		uid     types.UID
		turn    *v1alpha1.Turn
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"no Turn yet": {
			call: "2-0", status: pending, reason: v1alpha1.ReasonTurnNotFound, message: "call 2-0",
		},
		"no Turn of the UID any more": {
			call: "2-0", uid: "u1", status: refused, reason: v1alpha1.ReasonTurnNotFound, message: "UID u1",
		},
		"another Turn of the name": {
			call: "2-0", uid: "u0", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)), status: refused,
			reason: v1alpha1.ReasonTurnReplaced, message: "u0",
		},
		"the Turn by its UID": {
			call: "2-0", uid: "u1", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)),
		},
		"a call that waits": {call: "2-0", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting))},
		"not a client's call": {
			call: "2-0", turn: at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)), status: refused,
			reason: v1alpha1.ReasonNotAClientTool,
		},
		"a refused call": {
			call: "2-0",
			turn: at(
				nil, v1alpha1.ToolCall{ID: "2-0", Executor: v1alpha1.ToolExecutorNone, State: v1alpha1.ToolCallStateNotExecuted},
			),
			status: refused, reason: v1alpha1.ReasonNotAClientTool,
		},
		"answered with a result": {
			call:   "2-0",
			turn:   at(nil, ofClient("2-0", v1alpha1.ToolCallStateSucceeded), ofClient("2-1", v1alpha1.ToolCallStateWaiting)),
			status: refused, reason: v1alpha1.ReasonAlreadyAnswered,
		},
		"answered with an error": {
			call:   "2-0",
			turn:   at(nil, ofClient("2-0", v1alpha1.ToolCallStateFailed), ofClient("2-1", v1alpha1.ToolCallStateWaiting)),
			status: refused, reason: v1alpha1.ReasonAlreadyAnswered,
		},
		"given up": {
			call: "2-0", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateNotExecuted)), status: refused,
			reason: v1alpha1.ReasonCallClosed, message: "abandoned",
		},
		"no such call among those that wait": {
			call: "2-9", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)), status: refused,
			reason: v1alpha1.ReasonUnknownCall, message: "2-0 (ask)",
		},
		"a later call than those that wait": {
			call: "3-0", turn: at(nil, ofClient("2-0", v1alpha1.ToolCallStateWaiting)), status: refused,
			reason: v1alpha1.ReasonUnknownCall,
		},
		"an iteration that is over": {
			call: "1-0", turn: at(nil), status: refused, reason: v1alpha1.ReasonCallClosed,
			message: "no longer waits for call 1-0",
		},
		"an iteration that is over, Jobs run": {
			call: "1-0", turn: at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)), status: refused,
			reason: v1alpha1.ReasonCallClosed,
		},
		"this iteration, not asked yet": {
			call: "2-0", turn: at(nil), status: pending, reason: v1alpha1.ReasonCallPending,
		},
		"an iteration to come": {
			call: "3-0", turn: at(nil, ofJob("2-0", v1alpha1.ToolCallStateRunning)), status: pending,
			reason: v1alpha1.ReasonCallPending,
		},
		"a Turn that is queued": {
			call:   "1-0",
			turn:   at(func(turn *v1alpha1.Turn) { turn.Status.Phase, turn.Status.Iteration = v1alpha1.TurnPhaseQueued, 0 }),
			status: pending, reason: v1alpha1.ReasonCallPending,
		},
		"after the end, answered": {
			call: "2-0", turn: at(ended, ofClient("2-0", v1alpha1.ToolCallStateSucceeded)), status: refused,
			reason: v1alpha1.ReasonAlreadyAnswered,
		},
		"after the end, given up": {
			call: "2-0", turn: at(ended, ofClient("2-0", v1alpha1.ToolCallStateNotExecuted)), status: refused,
			reason: v1alpha1.ReasonCallClosed, message: "has ended",
		},
		"after the end, never asked": {
			call: "9-0", turn: at(ended), status: refused, reason: v1alpha1.ReasonCallClosed, message: "has ended",
		},
		"after the end, of another executor": {
			call: "2-0", turn: at(ended, ofJob("2-0", v1alpha1.ToolCallStateSucceeded)), status: refused,
			reason: v1alpha1.ReasonCallClosed,
		},
		"after the end, for a Turn of the past": {
			call: "2-0", uid: "u0", turn: at(ended), status: refused, reason: v1alpha1.ReasonTurnReplaced,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{CallID: test.call}}
			result.Spec.TurnRef.Name, result.Spec.TurnRef.UID = "demo-1", test.uid
			got := Evaluate(result, test.turn)
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf(
					"got %q %q %q, want %q %q with %q",
					got.Status,
					got.Reason,
					got.Message,
					test.status,
					test.reason,
					test.message,
				)
			}
			if (got.Reason == "") != (got.Message == "") {
				t.Errorf("reason %q with message %q", got.Reason, got.Message)
			}
		})
	}
}

func TestIterationOfACall(t *testing.T) {
	for id, want := range map[string]int64{"1-0": 1, "12-3": 12, "9999999999-9999": 9999999999, "": 0, "x": 0, "1": 0} {
		if got := iterationOf(id); got != want {
			t.Errorf("iterationOf(%q) = %d, want %d", id, got, want)
		}
	}
}
