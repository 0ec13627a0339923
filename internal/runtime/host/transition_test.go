package host

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

func TestCancelledBeforeStartHasNoOpenStep(t *testing.T) {
	p := CancelledBeforeStart(metav1.NewMicroTime(started))
	if p.Phase != v1alpha1.TurnPhaseCancelled || p.Plan.Phase != v1alpha1.PlanPhaseComplete || p.Plan.Step != 0 ||
		p.Error.Code != v1alpha1.ErrorCodeCancelled {
		t.Errorf("progress %+v", p)
	}
}

func TestWhenAStepWaitsForOthers(t *testing.T) {
	call := func(id string, executor v1alpha1.ToolExecutor, state v1alpha1.ToolCallState) v1alpha1.ToolCall {
		return v1alpha1.ToolCall{ID: id, Executor: executor, State: state}
	}
	running := call("1-0", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateRunning)
	client := call("1-1", v1alpha1.ToolExecutorClient, v1alpha1.ToolCallStateWaiting)
	done := call("1-2", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateSucceeded)
	next := call("1-4", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStatePending)
	guarded := call("1-3", v1alpha1.ToolExecutorJob, v1alpha1.ToolCallStateWaiting)
	guarded.Policy = v1alpha1.ToolPolicyRequiresApproval
	approved := guarded
	tool.Approve(&approved)
	rejected := map[string]tool.Outcome{"1-3": tool.Rejected()}
	sequential := v1alpha1.ToolConcurrencySequential
	wait := Turn{ClientTools: v1alpha1.ClientToolsPolicyWait}
	follow := Turn{ClientTools: v1alpha1.ClientToolsPolicyFollowHints}
	for name, test := range map[string]struct {
		turn        Turn
		calls       []v1alpha1.ToolCall
		outcomes    map[string]tool.Outcome
		concurrency v1alpha1.ToolConcurrency
		want        bool
	}{
		"no calls":                             {turn: wait},
		"a client":                             {turn: wait, calls: []v1alpha1.ToolCall{client}, want: true},
		"a client and a Job that runs":         {turn: wait, calls: []v1alpha1.ToolCall{running, client}},
		"a client and a Job that ended":        {turn: wait, calls: []v1alpha1.ToolCall{running, client}, outcomes: map[string]tool.Outcome{"1-0": {}}, want: true},
		"a client and one in status":           {turn: wait, calls: []v1alpha1.ToolCall{done, client}, want: true},
		"all have ended":                       {turn: wait, calls: []v1alpha1.ToolCall{done, client}, outcomes: map[string]tool.Outcome{"1-1": {}}},
		"a client that nobody is":              {turn: follow, calls: []v1alpha1.ToolCall{client}},
		"an approval":                          {turn: wait, calls: []v1alpha1.ToolCall{guarded}, want: true},
		"an approval, hints or not":            {turn: follow, calls: []v1alpha1.ToolCall{guarded}, want: true},
		"an approval, clients are nobody":      {turn: follow, calls: []v1alpha1.ToolCall{client, guarded}, want: true},
		"an approval and a client":             {turn: wait, calls: []v1alpha1.ToolCall{client, guarded}, want: true},
		"an approval and a Job that runs":      {turn: wait, calls: []v1alpha1.ToolCall{running, guarded}},
		"an approval and a Job that may start": {turn: wait, calls: []v1alpha1.ToolCall{guarded, next}},
		"a Job that is behind an approval":     {turn: wait, calls: []v1alpha1.ToolCall{guarded, next}, concurrency: sequential, want: true},
		"a Job that is before an approval":     {turn: wait, calls: []v1alpha1.ToolCall{next, guarded}, concurrency: sequential},
		"approved":                             {turn: wait, calls: []v1alpha1.ToolCall{approved}},
		"approved, behind another":             {turn: wait, calls: []v1alpha1.ToolCall{guarded, approved}, concurrency: sequential, want: true},
		"rejected":                             {turn: wait, calls: []v1alpha1.ToolCall{guarded}, outcomes: rejected},
	} {
		if got := WaitsForOthers(test.turn, test.calls, test.outcomes, test.concurrency); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestProgressShowsWhatIsKnown(t *testing.T) {
	p := v1alpha1.TurnProgress{
		Phase:   v1alpha1.TurnPhaseAct,
		Plan:    &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseAct},
		Summary: &v1alpha1.TurnSummary{ToolCalls: 5, FailedToolCalls: 2},
		ToolCalls: []v1alpha1.ToolCall{
			{ID: "2-0", State: v1alpha1.ToolCallStateRunning},
			{ID: "2-1", State: v1alpha1.ToolCallStateWaiting},
		},
	}
	Progress(
		&p,
		map[string]tool.Outcome{"2-0": {State: v1alpha1.ToolCallStateFailed, Reason: "ExitCode", Error: "boom"}},
		false,
		nil,
	)
	if c := p.ToolCalls[0]; c.State != v1alpha1.ToolCallStateFailed || c.Reason != "ExitCode" || c.Preview != "boom" {
		t.Errorf("call %+v", c)
	}
	if p.Summary.Calls != "4/5, 3 failed" || p.Phase != v1alpha1.TurnPhaseAct {
		t.Errorf("calls %s, phase %s", p.Summary.Calls, p.Phase)
	}
	Progress(&p, nil, true, nil)
	if p.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Errorf("phase %s", p.Phase)
	}
}

func TestFieldsOfAFailureAreShortText(t *testing.T) {
	e := turnError(plan.Failure{
		Code:   v1alpha1.ErrorCodeModelUnavailable,
		Fields: map[string]string{v1alpha1.ErrorFieldModelID: strings.Repeat("m", 1000), "n": "3"},
	}, "Sorry.")
	if len(e.Fields["model_id"]) > 256 || e.Fields["n"] != "3" || e.Message != "Sorry." ||
		e.Code != v1alpha1.ErrorCodeModelUnavailable {
		t.Errorf("error %+v", e)
	}
}

// A status that holds the most that a model, a tool and a user can put into it stays below 64 KiB (invariant 7), as the
// API server writes it.
func TestTheLargestStatusFits(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 9<<10), strings.Repeat("<", 9<<10), strings.Repeat("\x00", 9<<10), strings.Repeat("😀", 3<<10), strings.Repeat("\xff", 9<<10), strings.Repeat("\u2028", 4<<10)} {
		b := newBench(t)
		var made []model.ToolCall
		for range 2 * tool.MaxCallsPerStep {
			made = append(made, model.ToolCall{ProviderID: text, Name: text, Arguments: "{}"})
		}
		b.says("", made...)
		turn, closed := b.reason(newTurn("demo-1"), with())
		worst := turn.Progress.ToolCalls
		for i := range worst {
			worst[i].Timeout, worst[i].PodUID, worst[i].ConcurrencyClass = jobTool(
				"t",
			).Spec.Job.Timeout, "01234567-0123-0123-0123-0123456789ab", strings.Repeat(
				"c",
				63,
			)
			worst[i].PodName = strings.Repeat("p", 32)
			worst[i].SideEffect, worst[i].Attempt = v1alpha1.SideEffectAtMostOnce, 3
			worst[i].ToolUID, worst[i].ToolDigest, worst[i].CallDigest = worst[i].PodUID, strings.Repeat(
				"d",
				40,
			), strings.Repeat(
				"e",
				64,
			)
			worst[i].Policy, worst[i].ApproveBy = v1alpha1.ToolPolicyRequiresApproval, &metav1.Time{Time: started}
		}
		results := ActResults{Outcomes: map[string]tool.Outcome{}, Planned: planned(closed)}
		for _, call := range worst {
			results.Outcomes[call.ID] = tool.Outcome{
				State:  v1alpha1.ToolCallStateSucceeded,
				Reason: v1alpha1.ToolCallReasonUnschedulable,
				Result: &text,
			}
		}
		acted, err := b.Act(t.Context(), turn, results)
		if err != nil {
			t.Fatal(err)
		}
		b.says(text)
		turn, _ = b.reason(after(turn, acted), with())
		if turn.Progress.Output == "" || len(turn.Progress.ToolCalls) != tool.MaxCallsPerStep {
			t.Fatalf("output of %d bytes, %d calls", len(turn.Progress.Output), len(turn.Progress.ToolCalls))
		}
		raw, err := json.Marshal(turn.Progress)
		if err != nil {
			t.Fatal(err)
		}
		// Conditions have at most 1 KiB of message each, and little else.
		const conditions = 5 * (1024 + 256)
		if len(raw)+conditions >= 63<<10 {
			t.Errorf("with %q the status takes %d bytes", text[:1], len(raw)+conditions)
		}
	}
}

func TestCutEndsAtACharacter(t *testing.T) {
	for n := range 10 {
		got := cut("äöü€😀"+strings.Repeat("x", 20), 10+n)
		if len(got) > 10+n || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("cut to %d: %q", 10+n, got)
		}
	}
	if got := cut("short", 5); got != "short" {
		t.Errorf("a text that fits was cut: %q", got)
	}
}

func FuzzCutEncoded(f *testing.F) {
	f.Add("plain text", 8)
	f.Add(strings.Repeat("<&>", 40), 64)
	f.Add("\x00\u2028\xff\xfe😀\"\\", 12)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 8 + max(limit, -limit, 0)%300
		got := cutEncoded(text, limit)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size > limit {
			t.Fatalf("cutEncoded(%q, %d) = %q takes %d bytes", text, limit, got, size)
		}
		raw, err = json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size <= limit && got != text && utf8.ValidString(text) {
			t.Fatalf("cutEncoded(%q, %d) = %q although it takes only %d bytes", text, limit, got, size)
		}
		if head, isCut := strings.CutSuffix(
			got,
			"…",
		); isCut && got != text &&
			!strings.HasPrefix(strings.ToValidUTF8(text, ""), head) {
			t.Fatalf("cutEncoded(%q, %d) = %q is not its beginning", text, limit, got)
		}
	})
}
