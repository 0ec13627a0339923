package act

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// remote is a running call of a tool of an MCPServer.
func remote(id string) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{
		ID: id, Name: "order", Executor: v1alpha1.ToolExecutorMCP, Attempt: 1, State: v1alpha1.ToolCallStateRunning,
	}
}

// questions is what the tool of a call asks, in the journal.
func questions(id string, round int32, names ...string) format.SettledRef {
	asked := &format.AskedInput{Round: round, Digest: "digest", State: "state"}
	for _, name := range names {
		asked.Requests = append(asked.Requests, v1alpha1.ToolInputRequest{ID: name, Message: "What?"})
	}
	return format.SettledRef{Ordinal: int64(10 * round), Call: format.SettledCall{ID: id, Asked: asked}}
}

// answered is an answer in the journal.
func answered(id string, round int32, ordinal int64, question string) format.SettledRef {
	return format.SettledRef{Ordinal: ordinal, Call: format.SettledCall{
		ID: id, Source: "source", Answered: &format.AnsweredInput{
			Round: round, Answer: v1alpha1.InputAnswer{
				ID: question, Action: v1alpha1.InputActionAccept, Content: &v1alpha1.JSON{Raw: []byte("{}")},
			},
		},
	}}
}

func answer(index int, question string, binds bool) Offer {
	return Offer{Index: index, Binds: binds, Result: &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{
		Input: &v1alpha1.InputAnswer{ID: question, Action: v1alpha1.InputActionDecline},
	}}}
}

func TestACallThatAsksWaitsUntilEachQuestionHasItsAnswer(t *testing.T) {
	step, calls := &Step{Read: true}, []v1alpha1.ToolCall{remote("1-0")}
	step.Ask(&calls[0], questions("1-0", 1, "a", "b"))
	if !AwaitsInput(calls[0]) || calls[0].CallDigest != "digest" || len(calls[0].Input.Requests) != 2 || step.Read ||
		!step.External(calls) || !step.WaitsForOthers(calls, false, "") {
		t.Fatalf("the call is %+v, the step %+v", calls[0], step)
	}
	step.Record([]format.SettledRef{answered("1-0", 1, 11, "a")})
	step.ApplyRecorded(calls)
	if !AwaitsAnswer(calls[0], "b") || AwaitsAnswer(calls[0], "a") {
		t.Errorf("after an answer the call is %+v", calls[0])
	}
	// An answer to an earlier round counts for nothing.
	step.Record([]format.SettledRef{answered("1-0", 2, 12, "b")})
	step.ApplyRecorded(calls)
	if !AwaitsInput(calls[0]) {
		t.Errorf("after an answer to another round the call is %+v", calls[0])
	}
	step.Record([]format.SettledRef{answered("1-0", 1, 13, "b")})
	step.ApplyRecorded(calls)
	if calls[0].State != v1alpha1.ToolCallStatePending || calls[0].Input.Round != 1 || calls[0].CallDigest != "" {
		t.Errorf("after all answers the call is %+v", calls[0])
	}
	if parts := step.Parts(calls); len(parts) != 4 {
		t.Errorf("the entry that closes the step has the parts %v", parts)
	}
	if sources := step.RecordedSources(calls); len(sources) != 3 {
		t.Errorf("the journal has the ToolResults %v", sources)
	}
	for _, ref := range step.Row("1-0").Input {
		if given := ref.Call.Answered; given != nil && given.Answer.Content != nil {
			t.Error("a waiting step holds the content of an answer")
		}
		if asked := ref.Call.Asked; asked != nil && (asked.State != "" || asked.Requests[0].Message != "") {
			t.Error("a waiting step holds the texts of a question")
		}
	}
}

func TestOfSeveralAnswersToAQuestionTheFirstCounts(t *testing.T) {
	step, calls := &Step{}, []v1alpha1.ToolCall{remote("1-0")}
	step.Ask(&calls[0], questions("1-0", 1, "a", "b"))
	text := "done"
	result := Offer{Result: &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{Result: &text}}}
	offers := []Offer{result, answer(0, "a", false), answer(0, "c", true), answer(0, "b", true), answer(0, "b", true)}
	accepted := step.Accept(calls, offers, moment)
	if len(accepted) != 1 || accepted[0].Result != offers[3].Result {
		t.Errorf("%d offers are accepted", len(accepted))
	}
	if step.Completes(calls, accepted) {
		t.Error("an answer completes a step whose call has yet to run")
	}
}

// Rules: CLIENT-05, TOOL-12.
func TestACallThatAsksIsNotAbandonedAndHoldsBackItsClass(t *testing.T) {
	calls := []v1alpha1.ToolCall{remote("1-0"), remote("1-1"), remote("1-2")}
	for i, class := range []string{"db", "db", ""} {
		calls[i].ConcurrencyClass, calls[i].State = class, v1alpha1.ToolCallStatePending
	}
	step := &Step{}
	step.Ask(&calls[0], questions("1-0", 1, "a"))
	if due := chosen(calls, v1alpha1.ToolConcurrencyParallel, 0); len(due) != 1 || due[0] != 2 {
		t.Errorf("the calls %v may start", due)
	}
	if due := chosen(calls, v1alpha1.ToolConcurrencySequential, 0); len(due) != 0 {
		t.Errorf("in Sequential the calls %v may start", due)
	}
	step.Abandon(calls)
	if step.Done("1-0") {
		t.Error("a message has ended the wait")
	}
}

func TestACallThatAskedWhenTheTurnEndedIsUnknown(t *testing.T) {
	step, calls := &Step{}, []v1alpha1.ToolCall{remote("1-0")}
	step.Ask(&calls[0], questions("1-0", 1, "a"))
	all := step.End(calls, nil)
	outcome, _ := all.Outcome("1-0")
	if outcome.State != v1alpha1.ToolCallStateUnknown || calls[0].Input != nil {
		t.Errorf("it ends with %+v", outcome)
	}
}

// A Job runs once: what follows a connection is a further attempt, which is written before it starts, in a pod that is
// recorded anew.
// Rules: TOOL-16.
func TestAJobWhoseConnectionExistsHasAFurtherAttempt(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce} {
		call := v1alpha1.ToolCall{
			ID: "1-0", Executor: v1alpha1.ToolExecutorJob, SideEffect: class, Attempt: 1, PodUID: "pod-1", PodName: "pod",
			State: v1alpha1.ToolCallStateRunning,
		}
		step := &Step{}
		step.Ask(&call, format.SettledRef{Ordinal: 3, Call: format.SettledCall{ID: "1-0", Asked: &format.AskedInput{
			Round: 1, Digest: "d", Requests: []v1alpha1.ToolInputRequest{{ID: "shop", Mode: v1alpha1.ToolInputModeConnection}},
		}}})
		if !AwaitsInput(call) || call.PodUID != "pod-1" || Withdrawable(call) || step.InProgress(call, true) {
			t.Fatalf("while it waits the call is %+v", call)
		}
		step.Record([]format.SettledRef{{Ordinal: 4, Call: format.SettledCall{ID: "1-0", Answered: &format.AnsweredInput{
			Round: 1, Answer: v1alpha1.InputAnswer{ID: "shop", Action: v1alpha1.InputActionAccept},
		}}}})
		calls := []v1alpha1.ToolCall{call}
		if !step.ApplyRecorded(calls) {
			t.Fatal("the attempt is not written before it starts")
		}
		next := calls[0]
		if next.Attempt != 2 || next.PodUID != "" || next.PodName != "" || next.State != v1alpha1.ToolCallStatePending ||
			Withdrawable(next) != (class == v1alpha1.SideEffectAtMostOnce) {
			t.Fatalf("the call is %+v", next)
		}
		if step.ApplyRecorded(calls) || calls[0].Attempt != 2 {
			t.Fatalf("the same answer starts another attempt: %+v", calls[0])
		}
		// The attempt before does not count as one that may have done something, nor as one of the disrupted ones.
		if class == v1alpha1.SideEffectAtMostOnce {
			outcome := step.Settle(&next, tool.NotExecuted(v1alpha1.ToolCallReasonImagePull, "its image is missing"))
			if outcome.State != v1alpha1.ToolCallStateNotExecuted {
				t.Errorf("an attempt that did not start ends the call with %+v", outcome)
			}
			continue
		}
		next.Attempt = MaxAttempts
		if !WillRetry(next, tool.Interrupted(next, v1alpha1.ToolCallReasonDisruption, "its node was lost")) {
			t.Error("an attempt that has done nothing counts as a disrupted one")
		}
		before := []v1alpha1.ToolCall{call}
		KeepPods(calls, before)
		if calls[0].PodUID != "" {
			t.Error("the next attempt has the pod of the one before")
		}
	}
}

// A manager that believes a call not to have started, because it was paused meanwhile, does not take the pod away.
func TestAPodIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		before, after int32
		want          types.UID
	}{
		"of the same attempt":                          {1, 1, "pod-1"},
		"of a call that has had no attempt for others": {1, 0, "pod-1"},
		"of a later attempt":                           {2, 1, "pod-1"},
		"but for the next attempt":                     {1, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := []v1alpha1.ToolCall{{ID: "1-0", Attempt: test.after}}
			KeepPods(calls, []v1alpha1.ToolCall{{ID: "1-0", Attempt: test.before, PodUID: "pod-1", PodName: "pod"}})
			if calls[0].PodUID != test.want {
				t.Errorf("the pod is %q, want %q", calls[0].PodUID, test.want)
			}
		})
	}
}

// What an earlier attempt may have done is told although the last one has done nothing: it has asked for a connection.
// Rules: TOOL-16, TOOL-12.
func TestADeclinedConnectionTellsOfEarlierAttempts(t *testing.T) {
	disrupted := tool.Failed(v1alpha1.ToolCallReasonDisruption, "its node was lost")
	disrupted.Retryable = true
	unstarted := tool.NotExecuted(v1alpha1.ToolCallReasonImagePull, "its image is missing")
	unstarted.Retryable = true
	for name, test := range map[string]struct {
		before []tool.Outcome
		// connected is how many connections are set up before the one that is not.
		connected int32
		want      bool
	}{
		"the only attempt":                                               {nil, 0, false},
		"after one that may have done something":                         {[]tool.Outcome{disrupted}, 0, true},
		"after one that did not start":                                   {[]tool.Outcome{unstarted}, 0, false},
		"after one of each":                                              {[]tool.Outcome{unstarted, disrupted}, 0, true},
		"after one that has asked":                                       {nil, 1, false},
		"after two that have asked":                                      {nil, 2, false},
		"after one that may have done something, and one that has asked": {[]tool.Outcome{disrupted}, 1, true},
		"after one that did not start, and one that has asked":           {[]tool.Outcome{unstarted}, 1, false},
	} {
		for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent} {
			step, calls := &Step{}, []v1alpha1.ToolCall{{
				ID: "1-0", Executor: v1alpha1.ToolExecutorJob, SideEffect: class, Attempt: 1,
				State: v1alpha1.ToolCallStateRunning,
			}}
			for _, ended := range test.before {
				if !step.Retries(&calls[0], ended, moment) {
					t.Fatalf("%s: there is no further attempt: %+v", name, calls[0])
				}
			}
			for round := int32(1); round <= test.connected+1; round++ {
				action := v1alpha1.InputActionAccept
				if round > test.connected {
					action = v1alpha1.InputActionDecline
				}
				calls[0].State = v1alpha1.ToolCallStateRunning
				connects(step, calls, round, action)
			}
			outcome, known := step.Outcome("1-0")
			if !known || outcome.State != v1alpha1.ToolCallStateFailed ||
				outcome.Reason != v1alpha1.ToolCallReasonConnectionRequired ||
				strings.Contains(outcome.Error, "An earlier attempt") != test.want ||
				strings.Contains(outcome.Error, "in its last attempt") != test.want {
				t.Errorf("%s, %s: the call ends with %+v", name, class, outcome)
			}
		}
	}
}

// connects lets the tool of a call ask for a connection, and a user answer.
func connects(step *Step, calls []v1alpha1.ToolCall, round int32, action v1alpha1.InputAction) {
	shop := v1alpha1.ToolInputRequest{ID: "shop", Mode: v1alpha1.ToolInputModeConnection}
	step.Ask(&calls[0], format.SettledRef{Ordinal: int64(10 * round), Call: format.SettledCall{
		ID: "1-0", Asked: &format.AskedInput{Round: round, Digest: "d", Requests: []v1alpha1.ToolInputRequest{shop}},
	}})
	step.Record([]format.SettledRef{{Ordinal: int64(10*round + 1), Call: format.SettledCall{
		ID: "1-0", Answered: &format.AnsweredInput{Round: round, Answer: v1alpha1.InputAnswer{ID: shop.ID, Action: action}},
	}}})
	step.ApplyRecorded(calls)
}

// The attempt that asks counts as one that its tool has ended only once the next one is planned.
// Rules: TOOL-16.
func TestHowManyAttemptsWereEndedByTheirTool(t *testing.T) {
	for name, test := range map[string]struct {
		executor v1alpha1.ToolExecutor
		state    v1alpha1.ToolCallState
		attempt  int32
		round    int32
		want     int32
	}{
		"no attempt has asked":              {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateRunning, 3, 0, 0},
		"the first asks":                    {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateWaiting, 1, 1, 0},
		"the first has asked":               {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStatePending, 2, 1, 1},
		"the second asks after a disrupted": {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateWaiting, 2, 1, 0},
		"it has asked":                      {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateRunning, 3, 1, 1},
		"the next one asks again":           {v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateWaiting, 3, 2, 1},
		"a request":                         {v1alpha1.ToolExecutorMCP, v1alpha1.ToolCallStateRunning, 2, 1, 0},
	} {
		call := v1alpha1.ToolCall{Executor: test.executor, State: test.state, Attempt: test.attempt}
		if test.round > 0 {
			call.Input = &v1alpha1.ToolInput{Round: test.round}
		}
		if got := restarts(call); got != test.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
