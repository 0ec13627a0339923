package turn

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
)

// acting is a pass over an act step with these calls in status.
func acting(calls ...v1alpha1.ToolCall) *actScope {
	turn := &v1alpha1.Turn{}
	turn.UID, turn.Status.ToolCalls = "turn-uid", calls
	var m memory
	return &actScope{scope: &scope{turn: turn.DeepCopy(), base: turn}, step: m.of(1)}
}

// guardedCall waits for its approval until a minute after moment.
func guardedCall(id string) v1alpha1.ToolCall {
	by := metav1.NewTime(moment.Add(time.Minute))
	return v1alpha1.ToolCall{
		ID: id, Name: "pay", Executor: v1alpha1.ToolExecutorJob, Policy: v1alpha1.ToolPolicyRequiresApproval, ApproveBy: &by,
		State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval, CallDigest: "digest of " + id,
	}
}

func deciding(name, call string, decision v1alpha1.Decision) v1alpha1.ToolResult {
	r := given(name, call, "")
	r.Spec.Decision, r.Spec.SubmittedBy = decision, "ann"
	r.Spec.TurnRef.UID, r.Spec.CallDigest = "turn-uid", "digest of "+call
	r.CreationTimestamp = metav1.NewTime(moment.Time)
	return r
}

func TestWhichDecisionIsOffered(t *testing.T) {
	approved, ended := guardedCall("1-0"), guardedCall("1-0")
	act.Approve(&approved)
	ended.State = v1alpha1.ToolCallStateNotExecuted
	late := deciding("late", "1-0", v1alpha1.DecisionApprove)
	late.CreationTimestamp = metav1.NewTime(moment.Add(2 * time.Minute))
	ofAnother := deciding("of another Turn", "1-0", v1alpha1.DecisionApprove)
	ofAnother.Spec.TurnRef.UID = "another-uid"
	ofNone := deciding("of no Turn", "1-0", v1alpha1.DecisionApprove)
	ofNone.Spec.TurnRef.UID = ""
	changed := deciding("of other arguments", "1-0", v1alpha1.DecisionApprove)
	changed.Spec.CallDigest = "another digest"
	for name, test := range map[string]struct {
		call    v1alpha1.ToolCall
		results []v1alpha1.ToolResult
		want    string
	}{
		"none": {call: guardedCall("1-0")},
		"an approval": {
			guardedCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, "yes",
		},
		"a rejection": {
			guardedCall("1-0"), []v1alpha1.ToolResult{deciding("no", "1-0", v1alpha1.DecisionReject)}, "no",
		},
		"the first": {
			guardedCall("1-0"),
			[]v1alpha1.ToolResult{
				deciding("no", "1-0", v1alpha1.DecisionReject), deciding("yes", "1-0", v1alpha1.DecisionApprove),
			},
			"no",
		},
		"no result":               {guardedCall("1-0"), []v1alpha1.ToolResult{given("result", "1-0", "")}, ""},
		"none of another Turn":    {guardedCall("1-0"), []v1alpha1.ToolResult{ofAnother, ofNone}, ""},
		"none of other arguments": {guardedCall("1-0"), []v1alpha1.ToolResult{changed}, ""},
		"none that came late":     {guardedCall("1-0"), []v1alpha1.ToolResult{late}, ""},
		"none of another call": {
			guardedCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-1", v1alpha1.DecisionApprove)}, "",
		},
		"none once it is approved":   {approved, []v1alpha1.ToolResult{deciding("no", "1-0", v1alpha1.DecisionReject)}, ""},
		"none once it has timed out": {ended, []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, ""},
		"none for a client's own": {
			clientCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, "",
		},
		"none for one that needs none": {
			v1alpha1.ToolCall{ID: "1-0", Executor: v1alpha1.ToolExecutorJob, Attempt: 1},
			[]v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := acting(test.call)
			a.results = test.results
			if got := nameOf(a.accepted(moment.Add(time.Hour))); got != test.want {
				t.Errorf("offered %q, want %q", got, test.want)
			}
		})
	}
	// The API server's clock may be ahead of a clock that has not reached the timeout.
	a := acting(guardedCall("1-0"))
	a.results = []v1alpha1.ToolResult{late}
	if got := nameOf(a.accepted(moment.Time)); got != "late" {
		t.Errorf("in time, offered %q", got)
	}
}

// accepted are the ToolResults that the calls accept at that time.
func (a *actScope) accepted(now time.Time) []act.Offer {
	return a.step.known.Accept(a.calls(), a.offers(), now)
}

func nameOf(accepted []act.Offer) string {
	if len(accepted) != 1 {
		return ""
	}
	return accepted[0].Result.Name
}
