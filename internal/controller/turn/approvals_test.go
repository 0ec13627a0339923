package turn

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// acting is a pass over an act step with these calls in status.
func acting(calls ...v1alpha1.ToolCall) *actScope {
	turn := &v1alpha1.Turn{}
	turn.UID, turn.Status.ToolCalls = "turn-uid", calls
	var m memory
	return &actScope{scope: &scope{turn: turn.DeepCopy(), base: turn}, step: m.of(1), pins: tool.Pins{}}
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
	tool.Approve(&approved)
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
		"none":                         {call: guardedCall("1-0")},
		"an approval":                  {guardedCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, "yes"},
		"a rejection":                  {guardedCall("1-0"), []v1alpha1.ToolResult{deciding("no", "1-0", v1alpha1.DecisionReject)}, "no"},
		"the first":                    {guardedCall("1-0"), []v1alpha1.ToolResult{deciding("no", "1-0", v1alpha1.DecisionReject), deciding("yes", "1-0", v1alpha1.DecisionApprove)}, "no"},
		"no result":                    {guardedCall("1-0"), []v1alpha1.ToolResult{given("result", "1-0", "")}, ""},
		"none of another Turn":         {guardedCall("1-0"), []v1alpha1.ToolResult{ofAnother, ofNone}, ""},
		"none of other arguments":      {guardedCall("1-0"), []v1alpha1.ToolResult{changed}, ""},
		"none that came late":          {guardedCall("1-0"), []v1alpha1.ToolResult{late}, ""},
		"none of another call":         {guardedCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-1", v1alpha1.DecisionApprove)}, ""},
		"none once it is approved":     {approved, []v1alpha1.ToolResult{deciding("no", "1-0", v1alpha1.DecisionReject)}, ""},
		"none once it has timed out":   {ended, []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, ""},
		"none for a client's own":      {clientCall("1-0"), []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, ""},
		"none for one that needs none": {v1alpha1.ToolCall{ID: "1-0", Executor: v1alpha1.ToolExecutorJob, Attempt: 1}, []v1alpha1.ToolResult{deciding("yes", "1-0", v1alpha1.DecisionApprove)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := acting(test.call)
			a.results = test.results
			if got := nameOf(a.offered(moment.Add(time.Hour))[0]); got != test.want {
				t.Errorf("offered %q, want %q", got, test.want)
			}
		})
	}
	// The API server's clock may be ahead of a clock that has not reached the timeout.
	a := acting(guardedCall("1-0"))
	a.results = []v1alpha1.ToolResult{late}
	if got := nameOf(a.offered(moment.Time)[0]); got != "late" {
		t.Errorf("in time, offered %q", got)
	}
}

func nameOf(result *v1alpha1.ToolResult) string {
	if result == nil {
		return ""
	}
	return result.Name
}

func TestWhatBecomesOfACallThatNeedsApproval(t *testing.T) {
	for name, test := range map[string]struct {
		given  journal.SettledCall
		state  v1alpha1.ToolCallState
		reason string
		starts bool
	}{
		"approved": {journal.SettledCall{ID: "1-0", Source: "uid", Decision: v1alpha1.DecisionApprove}, v1alpha1.ToolCallStatePending, "", true},
		"rejected": {journal.SettledCall{ID: "1-0", Source: "uid", Decision: v1alpha1.DecisionReject}, v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonRejected, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := acting(guardedCall("1-0"))
			if startable := tool.Startable(a.calls(), "", 0); len(startable) > 0 {
				t.Fatal("it may start although nobody has decided")
			}
			a.take(0, test.given)
			call := a.calls()[0]
			if call.State != test.state || call.Reason != test.reason || a.step.sources["1-0"] != "uid" ||
				a.approved != test.starts {
				t.Errorf("call %+v, approved %v, sources %v", call, a.approved, a.step.sources)
			}
			if startable := tool.Startable(
				a.calls(),
				"",
				0,
			); (len(startable) == 1) != test.starts ||
				(call.Attempt == 1) != test.starts {
				t.Errorf("startable %v, attempt %d", startable, call.Attempt)
			}
			if _, done := a.step.outcomes["1-0"]; done == test.starts {
				t.Errorf("it has an outcome: %v", done)
			}
		})
	}
}

func TestAnApprovalThatIsInTheStatusChangesNothing(t *testing.T) {
	call := guardedCall("1-0")
	tool.Approve(&call)
	call.Attempt, call.State = 3, v1alpha1.ToolCallStateRunning
	a := acting(call)
	a.take(0, journal.SettledCall{ID: "1-0", Decision: v1alpha1.DecisionApprove})
	if got := a.calls()[0]; a.approved || got.Attempt != 3 || got.State != v1alpha1.ToolCallStateRunning {
		t.Errorf("approved %v, call %+v", a.approved, got)
	}
}

func TestWhenACallWaitsForItsApprovalForTooLong(t *testing.T) {
	shown := guardedCall("1-0")
	shown.State, shown.Reason = v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout
	approved := guardedCall("1-0")
	tool.Approve(&approved)
	in := moment.Add
	for name, test := range map[string]struct {
		call    v1alpha1.ToolCall
		offered bool
		now     time.Time
		over    bool
		wake    time.Time
	}{
		"in time":                            {call: guardedCall("1-0"), now: in(59 * time.Second), wake: in(time.Minute)},
		"too long":                           {call: guardedCall("1-0"), now: in(time.Minute), over: true},
		"too long, but somebody has decided": {call: guardedCall("1-0"), now: in(time.Hour), offered: true},
		"the status says so already":         {call: shown, now: in(0), over: true},
		"approved":                           {call: approved, now: in(time.Hour)},
		"another call":                       {call: clientCall("1-0"), now: in(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			a, offered := acting(test.call), map[int]*v1alpha1.ToolResult{}
			if test.offered {
				offered[0] = &v1alpha1.ToolResult{}
			}
			a.timeOut(offered, test.now)
			outcome, over := a.step.outcomes["1-0"]
			if over != test.over || !a.wakeAt.Equal(test.wake) {
				t.Errorf("over %v, woken at %v", over, a.wakeAt)
			}
			if over &&
				(outcome.Reason != v1alpha1.ToolCallReasonApprovalTimeout || outcome.State != v1alpha1.ToolCallStateNotExecuted) {
				t.Errorf("outcome %+v", outcome)
			}
		})
	}
}

func TestForgettingOthersKeepsJobs(t *testing.T) {
	started := guardedCall("1-3")
	tool.Approve(&started)
	a := acting(
		clientCall("1-0"),
		v1alpha1.ToolCall{ID: "1-1", Executor: v1alpha1.ToolExecutorJob},
		guardedCall("1-2"),
		started,
	)
	a.step.settled = map[string]journal.SettledRef{"1-0": {}}
	a.take(0, journal.SettledCall{ID: "1-0", Source: "uid"})
	a.settle(1, tool.Outcome{State: v1alpha1.ToolCallStateSucceeded})
	a.settle(2, tool.ApprovalTimedOut())
	a.settle(3, tool.Outcome{State: v1alpha1.ToolCallStateFailed})
	a.forgetOthers()
	if len(a.step.outcomes) != 2 || a.step.settled != nil || len(a.step.sources) != 0 {
		t.Errorf("left %+v", a.step)
	}
	for i, want := range []v1alpha1.ToolCallState{v1alpha1.ToolCallStateWaiting, v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateWaiting, v1alpha1.ToolCallStateFailed} {
		if got := a.calls()[i].State; got != want {
			t.Errorf("call %d is %s, want %s", i, got, want)
		}
	}
}
