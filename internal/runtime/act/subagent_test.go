package act

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// agentCall is a call that runs as a sub-agent, in a state.
func agentCall(id string, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
	call := v1alpha1.ToolCall{
		ID: id, Executor: v1alpha1.ToolExecutorAgent, SideEffect: v1alpha1.SideEffectAtMostOnce, Attempt: 1, State: state,
	}
	if state == v1alpha1.ToolCallStateRunning {
		call.SubAgent = &v1alpha1.SubAgentReference{Name: "agent-1", SessionUID: "s1"}
	}
	return call
}

func jobCall(id string, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{
		ID: id, Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure, Attempt: 1, State: state,
	}
}

func TestATurnWaitsWhileOnlySubAgentsRun(t *testing.T) {
	running, pending := v1alpha1.ToolCallStateRunning, v1alpha1.ToolCallStatePending
	sequential, parallel := v1alpha1.ToolConcurrencySequential, v1alpha1.ToolConcurrencyParallel
	of := func(calls ...v1alpha1.ToolCall) []v1alpha1.ToolCall { return calls }
	inClass := func(call v1alpha1.ToolCall) v1alpha1.ToolCall {
		call.ConcurrencyClass = "one"
		return call
	}
	for name, test := range map[string]struct {
		calls       []v1alpha1.ToolCall
		concurrency v1alpha1.ToolConcurrency
		want        bool
	}{
		"one runs":                {of(agentCall("1-0", running)), parallel, true},
		"one is about to start":   {of(agentCall("1-0", pending)), parallel, false},
		"beside a Job":            {of(agentCall("1-0", running), jobCall("1-1", running)), parallel, false},
		"beside a Job to be made": {of(agentCall("1-0", running), jobCall("1-1", pending)), parallel, false},
		"before a Job, in order":  {of(agentCall("1-0", running), jobCall("1-1", pending)), sequential, true},
		"behind a Job, in order":  {of(jobCall("1-0", running), agentCall("1-1", pending)), sequential, false},
		"before another in a class": {
			of(inClass(agentCall("1-0", running)), inClass(jobCall("1-1", pending))), parallel, true,
		},
		"the first has ended": {
			of(agentCall("1-0", v1alpha1.ToolCallStateSucceeded), agentCall("1-1", pending)), sequential, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			step := &Step{}
			if got := step.WaitsForOthers(test.calls, true, test.concurrency); got != test.want {
				t.Errorf("waits: %v, want %v", got, test.want)
			}
		})
	}
}

func TestASubAgentIsWithdrawnUntilItIsRecorded(t *testing.T) {
	pending, running := agentCall("1-0", v1alpha1.ToolCallStatePending), agentCall("1-1", v1alpha1.ToolCallStateRunning)
	if !Withdrawable(pending) || !RecordsSubAgent(pending) || RecordedSubAgent(pending) || RecordsPod(pending) {
		t.Error("a call without a sub-agent in status cannot be withdrawn")
	}
	if Withdrawable(running) || RecordsSubAgent(running) || !RecordedSubAgent(running) {
		t.Error("a call with a sub-agent in status can be withdrawn")
	}
	if Claimable(pending, false) || Claimable(pending, true) {
		t.Error("a sub-agent is claimed")
	}
	calls := []v1alpha1.ToolCall{pending, running}
	step := &Step{}
	if !step.Withdraw(calls) || !Withdrawn(calls[0]) || Withdrawn(calls[1]) {
		t.Errorf("the calls are %+v", calls)
	}
	ended := step.End(calls, nil)
	first, _ := ended.Outcome("1-0")
	second, _ := ended.Outcome("1-1")
	if first.State != v1alpha1.ToolCallStateNotExecuted || second.State != v1alpha1.ToolCallStateUnknown {
		t.Errorf("the Turn ends with %+v and %+v", first, second)
	}
}

func TestAnotherLeaderThatRecordsASubAgentOverrulesItsRefusal(t *testing.T) {
	calls := []v1alpha1.ToolCall{agentCall("1-0", v1alpha1.ToolCallStatePending)}
	step := &Step{}
	step.Settle(&calls[0], tool.NotExecuted(v1alpha1.ToolCallReasonQuotaExceeded, ""))
	step.Fence(calls)
	if !step.Done("1-0") {
		t.Fatal("the refusal is dropped")
	}
	calls[0].SubAgent = &v1alpha1.SubAgentReference{Name: "agent-1", SessionUID: "s1"}
	step.Fence(calls)
	if step.Done("1-0") {
		t.Error("the refusal stands")
	}
}

func TestAMessageDoesNotAbandonASubAgent(t *testing.T) {
	calls := []v1alpha1.ToolCall{agentCall("1-0", v1alpha1.ToolCallStateRunning)}
	step := &Step{}
	step.Abandon(calls)
	if step.Done("1-0") {
		t.Error("it is abandoned")
	}
}
