package act

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// guardedCall waits for its approval until a minute after moment.
func guardedCall(id string) v1alpha1.ToolCall {
	by := metav1.NewTime(moment.Add(time.Minute))
	return v1alpha1.ToolCall{
		ID: id, Name: "pay", Executor: v1alpha1.ToolExecutorJob, Policy: v1alpha1.ToolPolicyRequiresApproval,
		ApproveBy: &by, State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval, CallDigest: "digest",
	}
}

func clientCall(id string) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{
		ID: id, Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateWaiting,
	}
}

// offer is a ToolResult that was created after so much of the minute; a result for an empty decision.
func offer(index int, decision v1alpha1.Decision, after time.Duration) Offer {
	result := &v1alpha1.ToolResult{}
	result.CreationTimestamp, result.Spec.Decision = metav1.NewTime(moment.Add(after)), decision
	return Offer{Index: index, Result: result, Binds: true}
}

// Which of the ToolResults for a call counts, and in which order: the same in both hosts.
func TestWhichOffersAreAccepted(t *testing.T) {
	const approve, reject = v1alpha1.DecisionApprove, v1alpha1.DecisionReject
	approved, foreign := guardedCall("1-0"), offer(0, approve, 0)
	Approve(&approved)
	foreign.Binds = false
	guarded, client := guardedCall("1-0"), clientCall("1-0")
	for name, test := range map[string]struct {
		calls    []v1alpha1.ToolCall
		offers   []Offer
		now      time.Duration
		want     []int // indexes of offers
		complete bool
	}{
		"none":     {calls: []v1alpha1.ToolCall{guarded}},
		"a result": {[]v1alpha1.ToolCall{client}, []Offer{offer(0, "", 0)}, 0, []int{0}, true},
		"the first of two": {
			[]v1alpha1.ToolCall{client}, []Offer{offer(0, "", 1), offer(0, "", 0)}, 0, []int{0}, true,
		},
		"an approval completes nothing": {
			[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, approve, 0)}, 0, []int{0}, false,
		},
		"a rejection": {[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, reject, 0)}, 0, []int{0}, true},
		"a decision in time, looked at late": {
			[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, reject, time.Minute)}, time.Hour, []int{0}, true,
		},
		"a decision that came too late": {
			[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, reject, time.Minute+1)}, time.Hour, nil, false,
		},
		"a clock that is ahead": {
			[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, reject, time.Hour)}, 0, []int{0}, true,
		},
		"late, then in time": {
			[]v1alpha1.ToolCall{guarded},
			[]Offer{offer(0, approve, time.Hour), offer(0, reject, 0)},
			2 * time.Hour,
			[]int{1},
			true,
		},
		"a decision about another call": {[]v1alpha1.ToolCall{guarded}, []Offer{foreign}, 0, nil, false},
		"a result for an approval":      {[]v1alpha1.ToolCall{guarded}, []Offer{offer(0, "", 0)}, 0, nil, false},
		"a decision for a client":       {[]v1alpha1.ToolCall{client}, []Offer{offer(0, approve, 0)}, 0, nil, false},
		"once it is approved":           {[]v1alpha1.ToolCall{approved}, []Offer{offer(0, reject, 0)}, 0, nil, false},
		"in the order of the calls": {
			[]v1alpha1.ToolCall{client, clientCall("1-1")}, []Offer{offer(1, "", 0), offer(0, "", 0)}, 0, []int{1, 0}, true,
		},
		"one of two": {
			[]v1alpha1.ToolCall{client, clientCall("1-1")}, []Offer{offer(1, "", 0)}, 0, []int{0}, false,
		},
	} {
		step := &Step{}
		accepted := step.Accept(test.calls, test.offers, moment.Add(test.now))
		var got []int
		for _, a := range accepted {
			got = append(got, slices.IndexFunc(test.offers, func(o Offer) bool { return o.Result == a.Result }))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: accepted %v, want %v", name, got, test.want)
		}
		if complete := len(accepted) > 0 && step.Completes(test.calls, accepted); complete != test.complete {
			t.Errorf("%s: completes the step: %v", name, complete)
		}
	}
}

func TestWhenACallWaitsForItsApprovalForTooLong(t *testing.T) {
	shown := guardedCall("1-0")
	shown.State, shown.Reason = v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout
	approved := guardedCall("1-0")
	Approve(&approved)
	in := moment.Add
	for name, test := range map[string]struct {
		call    v1alpha1.ToolCall
		offered bool
		now     time.Time
		over    bool
		wake    time.Time
	}{
		"in time":                               {call: guardedCall("1-0"), now: in(59 * time.Second), wake: in(time.Minute)},
		"too long":                              {call: guardedCall("1-0"), now: in(time.Minute), over: true},
		"too long, but a decision came in time": {call: guardedCall("1-0"), now: in(time.Hour), offered: true},
		"the status has it already":             {call: shown, now: in(0), over: true},
		"approved":                              {call: approved, now: in(time.Hour)},
		"another call":                          {call: clientCall("1-0"), now: in(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			calls, step, offered := []v1alpha1.ToolCall{test.call}, &Step{}, []Offer(nil)
			if test.offered {
				offered = []Offer{{Result: &v1alpha1.ToolResult{}}}
			}
			wake := step.TimeOut(calls, offered, test.now)
			outcome, over := step.Outcome("1-0")
			if over != test.over || !wake.Equal(test.wake) {
				t.Errorf("over %v, woken at %v", over, wake)
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
	Approve(&started)
	calls := []v1alpha1.ToolCall{
		clientCall("1-0"),
		{ID: "1-1", Executor: v1alpha1.ToolExecutorJob},
		guardedCall("1-2"),
		started,
		{ID: "1-4", Executor: v1alpha1.ToolExecutorHTTP},
		{ID: "1-5", Executor: v1alpha1.ToolExecutorHTTP, SideEffect: v1alpha1.SideEffectPure},
	}
	base := slices.Clone(calls)
	step := &Step{}
	step.Record([]format.SettledRef{{Ordinal: 7, Call: format.SettledCall{ID: "1-0", Source: "uid"}}})
	step.ApplyRecorded(calls)
	step.Settle(&calls[1], tool.Outcome{State: v1alpha1.ToolCallStateSucceeded})
	step.Settle(&calls[2], tool.ApprovalTimedOut())
	step.Settle(&calls[3], tool.Outcome{State: v1alpha1.ToolCallStateFailed})
	step.Settle(&calls[4], tool.CallUnclaimed())
	step.Settle(&calls[5], tool.Outcome{State: v1alpha1.ToolCallStateFailed})
	step.Forget(calls, base)
	if step.missing(calls) != 3 || step.Read || step.Source("1-0") != "" || len(step.RecordedSources(calls)) > 0 {
		t.Errorf("left %+v", step)
	}
	if calls[2].ApproveBy == nil || calls[2].CallDigest == "" {
		t.Errorf("a call that waits for approval again shows %+v", calls[2])
	}
	for i, want := range []v1alpha1.ToolCallState{
		v1alpha1.ToolCallStateWaiting, v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateWaiting,
		v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallStatePending, v1alpha1.ToolCallStateFailed,
	} {
		if got := calls[i].State; got != want {
			t.Errorf("call %d is %s, want %s", i, got, want)
		}
	}
}

func TestWhatBecomesOfACallThatNeedsApproval(t *testing.T) {
	for name, test := range map[string]struct {
		given  format.SettledCall
		state  v1alpha1.ToolCallState
		reason string
		starts bool
	}{
		"approved": {
			format.SettledCall{ID: "1-0", Source: "uid", Decision: v1alpha1.DecisionApprove},
			v1alpha1.ToolCallStatePending, "",
			true,
		},
		"rejected": {
			format.SettledCall{ID: "1-0", Source: "uid", Decision: v1alpha1.DecisionReject},
			v1alpha1.ToolCallStateNotExecuted,
			v1alpha1.ToolCallReasonRejected, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			step, calls := &Step{}, []v1alpha1.ToolCall{guardedCall("1-0")}
			if startable := chosen(calls, "", 0); len(startable) > 0 {
				t.Fatal("it may start without a decision")
			}
			approved := step.AcceptResult(&calls[0], test.given)
			call := calls[0]
			if call.State != test.state || call.Reason != test.reason || step.Source("1-0") != "uid" ||
				approved != test.starts {
				t.Errorf("call %+v, approved %v, sources %v", call, approved, step.Source("1-0"))
			}
			if startable := chosen(
				calls,
				"",
				0,
			); (len(startable) == 1) != test.starts ||
				(call.Attempt == 1) != test.starts {
				t.Errorf("startable %v, attempt %d", startable, call.Attempt)
			}
			if done := step.Done("1-0"); done == test.starts {
				t.Errorf("it has an outcome: %v", done)
			}
		})
	}
}

func TestAnApprovalThatIsInTheStatusChangesNothing(t *testing.T) {
	call := guardedCall("1-0")
	Approve(&call)
	call.Attempt, call.State = 3, v1alpha1.ToolCallStateRunning
	calls := []v1alpha1.ToolCall{call}
	approved := (&Step{}).AcceptResult(&calls[0], format.SettledCall{ID: "1-0", Decision: v1alpha1.DecisionApprove})
	if got := calls[0]; approved || got.Attempt != 3 || got.State != v1alpha1.ToolCallStateRunning {
		t.Errorf("approved %v, call %+v", approved, got)
	}
}
