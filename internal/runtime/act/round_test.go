package act

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// driver carries out the actions of a round without any effect but those that a test gives it, by the text of an
// action.
type driver map[string]func(*Round)

// drive returns the actions of a round, in order. An intent ends the round, as it does for the Turn reconciler.
func (d driver) drive(t *testing.T, r *Round, now time.Time) string {
	t.Helper()
	var did []string
	for range 50 {
		actions := r.Next(now)
		if len(actions) == 0 {
			return strings.Join(did, ", ")
		}
		for _, action := range actions {
			text := strings.TrimPrefix(fmt.Sprintf("%T%v", action, action), "act.")
			if keep, ok := action.(Keep); ok {
				text = fmt.Sprintf("Keep{%d}", keep.Offer.Index)
			}
			did = append(did, text)
			switch action.(type) {
			case ReadPlan:
				r.Planned = make([]format.PlannedCall, len(r.Calls))
			case ReadJournal:
				r.Record(nil)
			case WriteRetry, WriteApproval:
				return strings.Join(did, ", ")
			}
			if effect := d[text]; effect != nil {
				effect(r)
			}
		}
	}
	t.Fatal("the round does not end")
	return ""
}

func pendingCall(id string, executor v1alpha1.ToolExecutor) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{ID: id, Executor: executor, State: v1alpha1.ToolCallStatePending, Attempt: 1}
}

func ends(index int, outcome tool.Outcome) func(*Round) {
	return func(r *Round) { r.EndAttempt(index, outcome, moment) }
}

func offers(offered ...Offer) func(*Round) {
	return func(r *Round) { r.Offer(r.Accept(r.Calls, offered, moment), moment) }
}

// What a round does, in which order (TOOL-12, TOOL-13).
func TestWhatARoundDoes(t *testing.T) {
	job, request := pendingCall("1-0", v1alpha1.ToolExecutorJob), pendingCall("1-1", v1alpha1.ToolExecutorHTTP)
	pure, running, withheld, later, withdrawn := job, job, request, job, job
	pure.SideEffect = v1alpha1.SideEffectPure
	running.State, running.PodUID = v1alpha1.ToolCallStateRunning, "pod"
	withheld.Reason = v1alpha1.ReasonSecretMissing
	later.NotBefore = &metav1.Time{Time: moment.Add(time.Minute)}
	withdrawn.State = v1alpha1.ToolCallStateNotExecuted
	again := request
	again.SideEffect = v1alpha1.SideEffectIdempotent
	refused := v1alpha1.ToolCall{
		ID: "1-0", Executor: v1alpha1.ToolExecutorNone, State: v1alpha1.ToolCallStateNotExecuted,
	}
	client, guarded := clientCall("1-0"), guardedCall("1-0")
	succeeded := tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	interrupted := tool.Outcome{State: v1alpha1.ToolCallStateFailed, Retryable: true}
	exists := func(v1alpha1.ToolCall) bool { return true }
	const approve, reject = v1alpha1.DecisionApprove, v1alpha1.DecisionReject
	for name, test := range map[string]struct {
		calls  []v1alpha1.ToolCall
		facts  Facts
		local  bool
		driver driver
		want   string
	}{
		"blocked before anything has begun": {
			calls: []v1alpha1.ToolCall{job}, facts: Facts{Blocked: true}, want: "Block{}",
		},
		// Rules: VEC-06.
		"blocked, where a client would be waited for": {
			calls: []v1alpha1.ToolCall{client}, facts: Facts{Blocked: true, Clients: true}, want: "Block{}",
		},
		// Rules: VEC-06.
		"blocked, where a client would be waited for beside a request": {
			calls: []v1alpha1.ToolCall{client, request}, facts: Facts{Blocked: true, Clients: true}, want: "Block{}",
		},
		"blocked while a Job runs": {
			calls: []v1alpha1.ToolCall{running, request}, facts: Facts{Blocked: true, Begun: true, Exists: exists},
			want: "Observe{0}, Observe{1}, OpenGates{false}, Rest{false false}",
		},
		"blocked, and the pod of the Job is gated": {
			calls: []v1alpha1.ToolCall{job}, facts: Facts{Blocked: true, Begun: true, Exists: exists},
			want: "Observe{0}, Block{}",
		},
		"blocked when the last Job ends": {
			calls: []v1alpha1.ToolCall{running}, facts: Facts{Blocked: true, Begun: true, Exists: exists},
			driver: driver{"Observe{0}": ends(0, succeeded)}, want: "Observe{0}, OpenGates{false}, Close{}",
		},
		"a Job and a request": {
			calls: []v1alpha1.ToolCall{job, request},
			want:  "Observe{0}, Observe{1}, StartCalls{[0 1]}, OpenGates{true}, Rest{false false}",
		},
		"in this process": {
			calls: []v1alpha1.ToolCall{job, request}, local: true,
			want: "Observe{0}, Observe{1}, StartCalls{[0 1]}, Rest{false false}",
		},
		"one after another": {
			calls: []v1alpha1.ToolCall{job, request}, facts: Facts{Concurrency: v1alpha1.ToolConcurrencySequential},
			want: "Observe{0}, Observe{1}, StartCalls{[0]}, OpenGates{true}, Rest{false false}",
		},
		"a call that cannot be observed is not started": {
			calls: []v1alpha1.ToolCall{job, request}, driver: driver{"Observe{0}": func(r *Round) { r.SetUnobserved(0) }},
			want: "Observe{0}, Observe{1}, StartCalls{[1]}, OpenGates{true}, Rest{false false}",
		},
		"an attempt that is not due": {
			calls: []v1alpha1.ToolCall{later}, want: "Observe{0}, OpenGates{true}, Rest{false false}",
		},
		"a Job that runs": {
			calls: []v1alpha1.ToolCall{running}, want: "Observe{0}, OpenGates{true}, Rest{false false}",
		},
		"a Job that has ended": {
			calls: []v1alpha1.ToolCall{running}, driver: driver{"Observe{0}": ends(0, succeeded)},
			want: "Observe{0}, OpenGates{true}, Close{}",
		},
		"a Pure call that was interrupted": {
			calls: []v1alpha1.ToolCall{pure}, driver: driver{"Observe{0}": ends(0, interrupted)},
			want: "Observe{0}, WriteRetry{}",
		},
		"a retry is written before anything is appended": {
			calls: []v1alpha1.ToolCall{client, again}, facts: Facts{Clients: true},
			driver: driver{"Observe{1}": ends(1, interrupted)}, want: "Observe{1}, WriteRetry{}",
		},
		"an AtMostOnce call that was interrupted": {
			calls: []v1alpha1.ToolCall{job}, driver: driver{"Observe{0}": ends(0, interrupted)},
			want: "Observe{0}, OpenGates{true}, Close{}",
		},
		"a call that was withdrawn before a restart": {
			calls: []v1alpha1.ToolCall{withdrawn}, want: "OpenGates{true}, Close{}",
		},
		"a call that was planned as refused": {
			calls: []v1alpha1.ToolCall{refused}, want: "ReadPlan{}, OpenGates{true}, Close{}",
		},
		"a start that is denied": {
			calls:  []v1alpha1.ToolCall{job},
			driver: driver{"StartCalls{[0]}": func(r *Round) { r.Settle(&r.Calls[0], tool.Changed()) }},
			want:   "Observe{0}, StartCalls{[0]}, OpenGates{true}, Close{}",
		},
		"a Secret that is missing": {
			calls: []v1alpha1.ToolCall{withheld},
			want:  "Observe{0}, CheckForMessage{}, CheckSecrets{[0]}, OpenGates{true}, Rest{true true}",
		},
		"a Secret that is there": {
			calls:  []v1alpha1.ToolCall{withheld},
			driver: driver{"CheckSecrets{[0]}": func(r *Round) { r.Release(&r.Calls[0]) }},
			want: "Observe{0}, CheckForMessage{}, CheckSecrets{[0]}, StartCalls{[0]}, OpenGates{true}, " +
				"Rest{false false}",
		},
		"a client": {
			calls: []v1alpha1.ToolCall{client}, facts: Facts{Clients: true},
			want: "ReadJournal{}, Collect{}, CheckForMessage{}, OpenGates{true}, Rest{true true}",
		},
		"a client that is not waited for": {
			calls: []v1alpha1.ToolCall{client}, want: "ReadJournal{}, Collect{}, OpenGates{true}, Close{}",
		},
		"a client's result that completes the step": {
			calls: []v1alpha1.ToolCall{client}, facts: Facts{Clients: true},
			driver: driver{"Collect{}": offers(offer(0, "", 0))},
			want:   "ReadJournal{}, Collect{}, OpenGates{true}, Close{}",
		},
		"a client's result beside a Job": {
			calls: []v1alpha1.ToolCall{client, request}, facts: Facts{Clients: true},
			driver: driver{
				"Collect{}": offers(offer(0, "", 0)),
				"Keep{0}": func(r *Round) {
					r.SetRecorded(0, format.SettledRef{Ordinal: 3, Call: format.SettledCall{ID: "1-0"}})
				},
			},
			want: "Observe{1}, ReadJournal{}, Collect{}, Keep{0}, StartCalls{[1]}, OpenGates{true}, Rest{false false}",
		},
		"an approval": {
			calls: []v1alpha1.ToolCall{guarded},
			driver: driver{
				"Collect{}": offers(offer(0, approve, 0)),
				"Keep{0}": func(r *Round) {
					r.SetRecorded(0, format.SettledRef{Ordinal: 3, Call: format.SettledCall{ID: "1-0", Decision: approve}})
				},
			},
			want: "ReadJournal{}, Collect{}, Keep{0}, WriteApproval{false}",
		},
		"a rejection": {
			calls: []v1alpha1.ToolCall{guarded}, driver: driver{"Collect{}": func(r *Round) {
				o := offer(0, reject, 0)
				o.Call.Decision = reject
				offers(o)(r)
			}},
			want: "ReadJournal{}, Collect{}, OpenGates{true}, Close{}",
		},
		"a message": {
			calls: []v1alpha1.ToolCall{client}, facts: Facts{Clients: true},
			driver: driver{"CheckForMessage{}": func(r *Round) { r.Abandon(r.Calls) }},
			want:   "ReadJournal{}, Collect{}, CheckForMessage{}, OpenGates{true}, Close{}",
		},
	} {
		step := &Step{Local: test.local}
		round := NewRound(step, test.calls, test.facts)
		if got := test.driver.drive(t, round, moment); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
		if next := round.WakeAt(); name == "an attempt that is not due" && !next.Equal(moment.Add(time.Minute)) {
			t.Errorf("%s: the next round is due at %v", name, next)
		}
	}
}

// The end of a call without a known outcome when its Turn ends, by executor, class and status.
// Rules: VEC-22.
func TestHowACallEndsWithItsTurn(t *testing.T) {
	const job, request = v1alpha1.ToolExecutorJob, v1alpha1.ToolExecutorHTTP
	const pending, running = v1alpha1.ToolCallStatePending, v1alpha1.ToolCallStateRunning
	const notExecuted, unknown = v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallStateUnknown
	pure, once := v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce
	claimed := &format.ClaimRef{}
	settled := &format.ClaimRef{
		Settled: format.SettledRef{Ordinal: 5, Call: format.SettledCall{State: v1alpha1.ToolCallStateSucceeded}},
	}
	for name, test := range map[string]struct {
		call  v1alpha1.ToolCall
		local bool
		claim *format.ClaimRef
		given v1alpha1.Decision
		want  v1alpha1.ToolCallState
		// unclaimed reports whether the entry states that no process has claimed the call.
		unclaimed bool
	}{
		"a client's":         {call: clientCall("1-0"), want: notExecuted},
		"not approved":       {call: guardedCall("1-0"), want: notExecuted},
		"approved elsewhere": {call: guardedCall("1-0"), given: v1alpha1.DecisionApprove, want: unknown},
		"withdrawn": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: once, Attempt: 1, State: notExecuted}, want: notExecuted,
		},
		"a Job, not withdrawn": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: once, Attempt: 1, State: pending}, want: unknown,
		},
		"a Pure Job": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: pure, Attempt: 1, State: pending}, want: unknown,
		},
		"settled in status": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: pure, Attempt: 1, State: v1alpha1.ToolCallStateFailed},
			want: v1alpha1.ToolCallStateFailed,
		},
		"a request, not claimed": {
			call: v1alpha1.ToolCall{Executor: request, SideEffect: once, Attempt: 1, State: running}, want: notExecuted,
			unclaimed: true,
		},
		"a request, claimed": {
			call: v1alpha1.ToolCall{Executor: request, SideEffect: once, Attempt: 1, State: running}, claim: claimed,
			want: unknown,
		},
		"a request that ended": {
			call: v1alpha1.ToolCall{Executor: request, SideEffect: once, Attempt: 1, State: running}, claim: settled,
			want: v1alpha1.ToolCallStateSucceeded,
		},
		"a request, no class": {
			call: v1alpha1.ToolCall{Executor: request, Attempt: 1, State: running}, claim: claimed, want: unknown,
		},
		"a Pure request": {
			call: v1alpha1.ToolCall{Executor: request, SideEffect: pure, Attempt: 1, State: running}, want: unknown,
		},
		"a function, no claim": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: once, Attempt: 1, State: running}, local: true, want: notExecuted,
			unclaimed: true,
		},
		"a function, claimed": {
			call: v1alpha1.ToolCall{Executor: job, SideEffect: once, Attempt: 1, State: running}, local: true, claim: claimed,
			want: unknown,
		},
	} {
		test.call.ID = "1-0"
		step, calls, claims := &Step{Local: test.local}, []v1alpha1.ToolCall{test.call}, []format.ClaimRef{}
		if test.claim != nil {
			test.claim.Call.ID = "1-0"
			claims = append(claims, *test.claim)
		}
		if test.given != "" {
			step.Record([]format.SettledRef{{Ordinal: 3, Call: format.SettledCall{ID: "1-0", Decision: test.given}}})
		}
		all := step.End(calls, claims)
		if outcome, _ := all.Outcome("1-0"); outcome.State != test.want || calls[0].State != test.want {
			t.Errorf("%s: %s, in status %s, want %s", name, outcome.State, calls[0].State, test.want)
		}
		if unclaimed := len(all.Unclaimed(calls, claims)) == 1; unclaimed != test.unclaimed {
			t.Errorf("%s: stated as never claimed: %v", name, unclaimed)
		}
		if step.Done("1-0") {
			t.Errorf("%s: the end has changed the known outcomes", name)
		}
	}
}
