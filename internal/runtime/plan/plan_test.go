package plan

import (
	"math"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var began = metav1.NewMicroTime(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC))

// calls are tool calls that have begun to exist.
func calls(ids ...string) []v1alpha1.ToolCall {
	var all []v1alpha1.ToolCall
	for _, id := range ids {
		all = append(all, v1alpha1.ToolCall{ID: id, State: v1alpha1.ToolCallStatePending})
	}
	return all
}

// in is the progress of a Turn in an iteration, with step 3 open.
func in(phase v1alpha1.PlanPhase, iteration int32) v1alpha1.TurnProgress {
	p := Begin(5, began)
	p.Iteration, p.Plan.Step, p.Plan.Phase = iteration, 3, phase
	return p
}

// Rules: SM-01, TURN-04, VEC-01.
func TestBeginOpensTheFirstModelCall(t *testing.T) {
	p := Begin(17, began)
	want := v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseReason, OpenedAtOrdinal: 17}
	if p.Phase != v1alpha1.TurnPhaseReason || p.Iteration != 1 || *p.Plan != want || !p.Summary.StartedAt.Equal(&began) {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
}

func TestATurnThatNeverBeganHasNoOpenStep(t *testing.T) {
	p := NeverBegan(v1alpha1.TurnPhaseCancelled, began)
	want := v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete}
	if p.Phase != v1alpha1.TurnPhaseCancelled || p.Iteration != 0 || *p.Plan != want || p.Summary.StartedAt != nil ||
		!p.Summary.FinishedAt.Equal(&began) {
		t.Errorf("progress %+v, plan %+v", p, p.Plan)
	}
}

// TestWhatFollowsAResponse has a row for each rule of TURN-06, TURN-07, TURN-08, TURN-13, TURN-14, SM-03 and SM-09.
// Rules: PHASE-05, SM-02, STEER-02, TURN-01.
func TestWhatFollowsAResponse(t *testing.T) {
	answer := Response{FinishReason: "stop"}
	asks := Response{FinishReason: "tool_calls", Planned: 2, Calls: calls("2-0", "2-1")}
	tooMany := Response{Planned: 40, Calls: calls("2-0")}
	reason, act, end := v1alpha1.PlanPhaseReason, v1alpha1.PlanPhaseAct, v1alpha1.PlanPhaseComplete
	for name, test := range map[string]struct {
		response  Response
		pending   int
		iteration int32
		limit     int32

		phase         v1alpha1.PlanPhase
		wantIteration int32
		stop          v1alpha1.StopReason
		planned       int32
	}{
		"an answer ends the Turn": {
			response: answer, iteration: 2, limit: 9, phase: end, wantIteration: 2, stop: v1alpha1.StopReasonEndTurn,
		},
		"an answer that was cut": {
			response: Response{FinishReason: "length"}, iteration: 2, limit: 9, phase: end, wantIteration: 2,
			stop: v1alpha1.StopReasonMaxTokens,
		},
		"a refusal": {
			response: Response{FinishReason: "refusal"}, iteration: 2, limit: 9, phase: end, wantIteration: 2,
			stop: v1alpha1.StopReasonRefusal,
		},
		// Rules: VEC-10.
		"an answer in the only iteration ends by itself": {
			response: answer, iteration: 1, limit: 1, phase: end, wantIteration: 1, stop: v1alpha1.StopReasonEndTurn,
		},
		"an answer in the last iteration ends by itself": {
			response: answer, iteration: 9, limit: 9, phase: end, wantIteration: 9, stop: v1alpha1.StopReasonEndTurn,
		},
		"calls are made in the same iteration": {
			response: asks, iteration: 2, limit: 9, phase: act, wantIteration: 2, planned: 2,
		},
		// Rules: VEC-02.
		"calls come before messages": {
			response: asks, pending: 3, iteration: 2, limit: 9, phase: act, wantIteration: 2, planned: 2,
		},
		"calls that the status has no room for": {
			response: tooMany, iteration: 2, limit: 9, phase: act, wantIteration: 2, planned: 40,
		},
		"calls in the last iteration are dropped": {
			response: asks, iteration: 9, limit: 9, phase: end, wantIteration: 9, stop: v1alpha1.StopReasonMaxTurnRequests,
		},
		"calls behind a limit that was lowered": {
			response: asks, iteration: 9, limit: 3, phase: end, wantIteration: 9, stop: v1alpha1.StopReasonMaxTurnRequests,
		},
		// Rules: VEC-04.
		"a message needs another model call": {
			response: answer, pending: 1, iteration: 2, limit: 9, phase: reason, wantIteration: 3,
		},
		// Rules: VEC-04.
		"messages need one more model call, however many": {
			response: answer, pending: 5, iteration: 2, limit: 9, phase: reason, wantIteration: 3,
		},
		"messages in the last iteration": {
			response: answer, pending: 1, iteration: 9, limit: 9, phase: end, wantIteration: 9,
			stop: v1alpha1.StopReasonMaxTurnRequests,
		},
		"without a limit, within the default": {
			response: asks, iteration: v1alpha1.DefaultMaxIterations - 1, phase: act,
			wantIteration: v1alpha1.DefaultMaxIterations - 1, planned: 2,
		},
		"without a limit, at the default": {
			response: asks, iteration: v1alpha1.DefaultMaxIterations, phase: end, wantIteration: v1alpha1.DefaultMaxIterations,
			stop: v1alpha1.StopReasonMaxTurnRequests,
		},
		// Rules: VEC-08.
		"the iteration saturates": {
			response: answer, pending: 1, iteration: math.MaxInt32 - 1, limit: math.MaxInt32, phase: reason,
			wantIteration: math.MaxInt32,
		},
		// Rules: VEC-08.
		"a status without an iteration is in the first": {
			response: answer, pending: 1, iteration: 0, limit: 9, phase: reason, wantIteration: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := AfterReason(in(v1alpha1.PlanPhaseReason, test.iteration), test.response, test.pending, test.limit)
			want := v1alpha1.TurnPlan{Step: 4, Phase: test.phase}
			if test.phase == end {
				want = v1alpha1.TurnPlan{Step: 3, Phase: end, StopReason: test.stop}
			}
			if *p.Plan != want || p.Iteration != test.wantIteration || p.Phase != phaseOf(test.phase) {
				t.Errorf("phase %s, iteration %d, plan %+v, want %+v", p.Phase, p.Iteration, *p.Plan, want)
			}
			if p.Summary.ToolCalls != test.planned || p.Summary.ModelCalls != 1 {
				t.Errorf("the summary is %+v", p.Summary)
			}
			if acts := test.phase == act; acts && !reflect.DeepEqual(p.ToolCalls, test.response.Calls) ||
				!acts && p.ToolCalls != nil {
				t.Errorf("the calls are %+v", p.ToolCalls)
			}
		})
	}
}

// phaseOf is the phase of a Turn that has a plan.
func phaseOf(phase v1alpha1.PlanPhase) v1alpha1.TurnPhase {
	switch phase {
	case v1alpha1.PlanPhaseReason:
		return v1alpha1.TurnPhaseReason
	case v1alpha1.PlanPhaseAct:
		return v1alpha1.TurnPhaseAct
	default:
		return v1alpha1.TurnPhaseSucceeded
	}
}

// TestToolCallsAreFollowedByAModelCall: TURN-11, TURN-13.
// Rules: SM-07, VEC-06, VEC-08.
func TestToolCallsAreFollowedByAModelCall(t *testing.T) {
	p := in(v1alpha1.PlanPhaseAct, 2)
	p.ToolCalls = calls("2-0", "2-1", "2-2")
	p.ToolCalls[0].State, p.ToolCalls[1].State = v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallStateUnknown
	p.ToolCalls[2].State = v1alpha1.ToolCallStateSucceeded
	p.Summary.ToolCalls = 7
	p.WaitsFor = []v1alpha1.TurnWait{{Type: v1alpha1.WaitTypeCluster}}
	next := AfterAct(p)
	want := v1alpha1.TurnPlan{Step: 4, Phase: v1alpha1.PlanPhaseReason}
	if *next.Plan != want || next.Phase != v1alpha1.TurnPhaseReason || next.Iteration != 3 || next.WaitsFor != nil {
		t.Errorf("progress %+v, plan %+v", next, next.Plan)
	}
	if sum := next.Summary; sum.FailedToolCalls != 2 || sum.SettledToolCalls != 7 || sum.Calls != "7/7, 2 failed" ||
		len(next.ToolCalls) != 3 || sum.ModelCalls != 0 {
		t.Errorf("the summary is %+v, with the calls %+v", sum, next.ToolCalls)
	}
	p.Iteration = math.MaxInt32
	if next = AfterAct(p); next.Iteration != math.MaxInt32 {
		t.Errorf("the iteration is %d", next.Iteration)
	}
}

// TestATurnEndsInAnyStep: TURN-09. The count of its tool calls stays.
// Rules: SM-04.
func TestATurnEndsInAnyStep(t *testing.T) {
	for _, open := range []v1alpha1.PlanPhase{v1alpha1.PlanPhaseReason, v1alpha1.PlanPhaseAct} {
		for phase, end := range map[v1alpha1.TurnPhase]func(v1alpha1.TurnProgress) v1alpha1.TurnProgress{
			v1alpha1.TurnPhaseFailed: Fail, v1alpha1.TurnPhaseCancelled: Cancel,
		} {
			p := in(open, 2)
			p.ToolCalls = calls("2-0")
			p.ToolCalls[0].State = v1alpha1.ToolCallStateFailed
			p.Summary.ToolCalls, p.Summary.ModelCalls = 4, 2
			next := end(p)
			want := v1alpha1.TurnPlan{Step: 3, Phase: v1alpha1.PlanPhaseComplete}
			if *next.Plan != want || next.Phase != phase || next.Iteration != 2 {
				t.Errorf("%s in %s: progress %+v, plan %+v", phase, open, next, next.Plan)
			}
			failed := int32(0)
			if open == v1alpha1.PlanPhaseAct {
				failed = 1
			}
			if sum := next.Summary; sum.ToolCalls != 4 || sum.ModelCalls != 2 || sum.FailedToolCalls != failed {
				t.Errorf("%s in %s: the summary is %+v", phase, open, sum)
			}
		}
	}
}

// Rules: CLIENT-03, CLIENT-06, TURN-02, TURN-12, VEC-06.
func TestWhenClientToolsAreWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		policy v1alpha1.ClientToolsPolicy
		hint   string
		want   bool
	}{
		"by default":              {"", "", true},
		"by default, whatever":    {"", "false", true},
		"with the policy Wait":    {v1alpha1.ClientToolsPolicyWait, "false", true},
		"without the hint":        {v1alpha1.ClientToolsPolicyFollowHints, "", false},
		"with the hint":           {v1alpha1.ClientToolsPolicyFollowHints, "true", true},
		"with the hint, spaced":   {v1alpha1.ClientToolsPolicyFollowHints, " true\n", true},
		"with the hint false":     {v1alpha1.ClientToolsPolicyFollowHints, "false", false},
		"with a text for a hint":  {v1alpha1.ClientToolsPolicyFollowHints, `"true"`, false},
		"with a number":           {v1alpha1.ClientToolsPolicyFollowHints, "1", false},
		"with an object":          {v1alpha1.ClientToolsPolicyFollowHints, `{"a":true}`, false},
		"with an unknown policy":  {"Other", "", true},
		"with null for the value": {v1alpha1.ClientToolsPolicyFollowHints, "null", false},
	} {
		hints := map[string]v1alpha1.JSON{"other": {Raw: []byte("true")}}
		if test.hint != "" {
			hints[v1alpha1.HintSetupConnection] = v1alpha1.JSON{Raw: []byte(test.hint)}
		}
		if got := Waits(test.policy, hints); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if Waits(v1alpha1.ClientToolsPolicyFollowHints, nil) {
		t.Error("without hints")
	}
}

// Rules: TURN-15.
func TestUsageIsTheSumOfAllModelCalls(t *testing.T) {
	p := in(v1alpha1.PlanPhaseReason, 1)
	for _, usage := range []v1alpha1.Usage{{InputTokens: 5, OutputTokens: 2}, {}, {InputTokens: 7, OutputTokens: -4}} {
		p = AfterReason(p, Response{Usage: usage}, 1, 0)
	}
	if p.Summary.Usage != (v1alpha1.Usage{InputTokens: 12, OutputTokens: 2, TotalTokens: 14}) ||
		p.Summary.ModelCalls != 3 {
		t.Errorf("the summary is %+v", p.Summary)
	}
	p = AfterReason(p, Response{Usage: v1alpha1.Usage{InputTokens: math.MaxInt64, OutputTokens: 1}}, 1, 0)
	if sum := p.Summary.Usage; sum.InputTokens != math.MaxInt64 || sum.OutputTokens != 3 ||
		sum.TotalTokens != math.MaxInt64 {
		t.Errorf("the usage is %+v", sum)
	}
}

// FuzzDecisions makes the decisions about a Turn at random. Every step is counted once, the iteration only grows, a
// limit is kept, nothing of the status before is changed, and a decision that is repeated is the same.
// Rules: SM-01, TURN-02.
func FuzzDecisions(f *testing.F) {
	f.Add([]byte{0, 4, 1, 4, 0x81, 2}, uint8(9))
	f.Add([]byte{1, 4, 1, 4, 1}, uint8(2))
	f.Add([]byte{0x80, 0x80, 3}, uint8(0))
	f.Fuzz(func(t *testing.T, script []byte, limit uint8) {
		p := Begin(1, began)
		for _, b := range script {
			before := p.DeepCopy()
			decide := decision(p, b, int32(limit))
			next := decide()
			if !reflect.DeepEqual(*before, p) || !reflect.DeepEqual(next, decide()) {
				t.Fatalf("after %x the decision changes its input, or itself", b)
			}
			checkDecision(t, p, next, int32(limit))
			if next.Plan.Phase == v1alpha1.PlanPhaseComplete {
				return
			}
			p = next
		}
	})
}

// decision is one that b selects for the open step.
func decision(p v1alpha1.TurnProgress, b byte, limit int32) func() v1alpha1.TurnProgress {
	pending, planned := int(b>>7), int(b&3)
	switch {
	case b&0x7f == 0x7e:
		return func() v1alpha1.TurnProgress { return Fail(p) }
	case b&0x7f == 0x7f:
		return func() v1alpha1.TurnProgress { return Cancel(p) }
	case p.Plan.Phase == v1alpha1.PlanPhaseAct:
		return func() v1alpha1.TurnProgress { return AfterAct(p) }
	default:
		r := Response{Planned: planned, Calls: calls("a", "b", "c")[:planned]}
		return func() v1alpha1.TurnProgress { return AfterReason(p, r, pending, limit) }
	}
}

func checkDecision(t *testing.T, p, next v1alpha1.TurnProgress, limit int32) {
	t.Helper()
	if limit == 0 {
		limit = v1alpha1.DefaultMaxIterations
	}
	step, iteration := p.Plan.Step+1, p.Iteration
	switch next.Plan.Phase {
	case v1alpha1.PlanPhaseComplete:
		step--
		if succeeded := next.Phase == v1alpha1.TurnPhaseSucceeded; succeeded != (next.Plan.StopReason != "") {
			t.Fatalf("phase %s with stop reason %q", next.Phase, next.Plan.StopReason)
		}
	case v1alpha1.PlanPhaseReason:
		iteration++
		if iteration > limit {
			t.Fatalf("model call %d, with a limit of %d", iteration, limit)
		}
	case v1alpha1.PlanPhaseAct:
		if iteration >= limit {
			t.Fatalf("tool calls in iteration %d, with a limit of %d", iteration, limit)
		}
	}
	if next.Plan.Step != step || next.Iteration != iteration {
		t.Fatalf("step %d, iteration %d, want %d and %d", next.Plan.Step, next.Iteration, step, iteration)
	}
	if sum := next.Summary; sum.SettledToolCalls > sum.ToolCalls || sum.ToolCalls < p.Summary.ToolCalls ||
		sum.StartedAt == nil {
		t.Fatalf("the summary is %+v", sum)
	}
}
