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
		facts{Outcomes: map[string]tool.Outcome{
			"2-0": {State: v1alpha1.ToolCallStateFailed, Reason: "ExitCode", Error: "boom"},
		}}.step(),
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
		results := facts{Outcomes: map[string]tool.Outcome{}, Planned: planned(closed)}
		for _, call := range worst {
			results.Outcomes[call.ID] = tool.Outcome{
				State:  v1alpha1.ToolCallStateSucceeded,
				Reason: v1alpha1.ToolCallReasonUnschedulable,
				Result: &text,
			}
		}
		acted, err := b.Act(t.Context(), turn, results.step())
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
		got := tool.CutEncoded(text, limit)
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size > limit {
			t.Fatalf("tool.CutEncoded(%q, %d) = %q takes %d bytes", text, limit, got, size)
		}
		raw, err = json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(raw) - len(`""`); size <= limit && got != text && utf8.ValidString(text) {
			t.Fatalf("tool.CutEncoded(%q, %d) = %q although it takes only %d bytes", text, limit, got, size)
		}
		if head, isCut := strings.CutSuffix(
			got,
			"…",
		); isCut && got != text &&
			!strings.HasPrefix(strings.ToValidUTF8(text, ""), head) {
			t.Fatalf("tool.CutEncoded(%q, %d) = %q is not its beginning", text, limit, got)
		}
	})
}
